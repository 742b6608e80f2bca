#include "io/nesting.hpp"

#include <vector>

namespace meshplan {
namespace {

// Walks the text once and keeps what is open: brackets, and columns at which block values began.
class NestingScan {
 public:
  NestingScan(std::string_view text, std::size_t limit) : text_(text), limit_(limit) {}

  std::optional<ExcessAt> run() {
    while (at_ < text_.size()) {
      if (line_start_ && brackets_ == 0) open_columns();
      if (brackets_ + columns_.size() > limit_) return ExcessAt{at_, Excess::kDepth};
      const std::size_t begin = at_;
      if (at_ < text_.size()) step();
      if (marks_ > kMostMarks) return ExcessAt{begin, Excess::kValues};
      if (at_ - value_began_ > kLongestText) return ExcessAt{value_began_, Excess::kText};
      if (marked_) value_began_ = at_;
      marked_ = false;
    }
    return std::nullopt;
  }

 private:
  // The text's values are told apart here.
  void mark() {
    ++marks_;
    marked_ = true;
  }

  // Indentation, and the marks "- ", "? " that open a value inside of the same line.
  void open_columns() {
    line_start_ = false;
    std::size_t column = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == ' ') {
        ++at_, ++column;
        continue;
      }
      if (c == '\n' || c == '#') return;
      while (!columns_.empty() && columns_.back() > column) columns_.pop_back();
      if (columns_.empty() || columns_.back() < column) columns_.push_back(column);
      const bool mark = (c == '-' || c == '?' || c == ':') && at_ + 1 < text_.size() &&
                        (text_[at_ + 1] == ' ' || text_[at_ + 1] == '\t');
      if (!mark || brackets_ + columns_.size() > limit_) return;
      at_ += 2, column += 2;
    }
  }

  void step() {
    const char c = text_[at_];
    ++at_;
    count(c);
    if (c == '\n') {
      line_start_ = true;
      word_ = false;
    } else if (c == '#' && !word_) {
      at_ = text_.find('\n', at_);
      if (at_ == std::string_view::npos) at_ = text_.size();
    } else if ((c == '"' || c == '\'') && !word_) {
      skip_quoted(c);
      mark();
      word_ = true;
    } else if (c == '[' || c == '{') {
      // Inside of a plain word a bracket is part of it, except between brackets.
      const bool opens = !word_ || brackets_ > 0;
      if (opens) ++brackets_;
      word_ = !opens;
    } else if (c == ']' || c == '}') {
      if (brackets_ > 0) --brackets_;
      word_ = false;
    } else {
      // A quote or '#' inside of a word is part of it.
      word_ = c != ' ' && c != '\t' && c != ',' && c != ':';
    }
  }

  // A line's end behind ',' or a bracket, and a ':' behind a quote, are counted with these.
  void count(char c) {
    const bool blank = c == ' ' || c == '\t';
    const bool counted = last_ == ',' || last_ == '[' || last_ == '{';
    const char next = at_ < text_.size() ? text_[at_] : '\n';
    const bool pair = c == ':' && last_ != '"' && last_ != '\'' && (next == ' ' || next == '\n');
    if (c == ',' || c == '[' || c == '{' || pair || (c == '\n' && !counted)) mark();
    if (!blank) last_ = c;
  }

  void skip_quoted(char quote) {
    while (at_ < text_.size() && text_[at_] != quote) {
      at_ += quote == '"' && text_[at_] == '\\' ? 2 : 1;
    }
    ++at_;
    if (at_ > text_.size()) at_ = text_.size();
  }

  std::string_view text_;
  std::size_t limit_;
  std::size_t at_ = 0;
  std::size_t brackets_ = 0;
  std::vector<std::size_t> columns_;
  bool line_start_ = true;
  bool word_ = false;  // the character before is part of a plain word
  char last_ = '\n';   // that is not blank
  std::size_t marks_ = 0, value_began_ = 0;
  bool marked_ = false;
};

}  // namespace

std::optional<ExcessAt> find_excess(std::string_view text, std::size_t limit) {
  return NestingScan(text, limit).run();
}

}  // namespace meshplan
