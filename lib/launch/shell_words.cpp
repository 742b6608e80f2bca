#include "launch/shell_words.hpp"

#include <algorithm>

namespace meshplan {
namespace {

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool is_name(std::string_view text) {
  return !text.empty() && !(text[0] >= '0' && text[0] <= '9') &&
         std::all_of(text.begin(), text.end(), is_name_char);
}

class Reader {
 public:
  Reader(std::string_view text, ShellScript& script) : text_(text), script_(script) {}

  void read() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') step();
      } else if (is_gap(c)) {
        step();
      } else {
        word();
      }
    }
  }

 private:
  static bool is_gap(char c) {
    return std::string_view(" \t\r\n;&|<>()").find(c) != std::string_view::npos;
  }

  void step() {
    if (text_[at_] == '\n') ++line_, column_ = 0;
    ++at_, ++column_;
  }

  // Behind a '$': the value of a variable, or nothing where it is not known.
  std::string variable() {
    std::string name;
    if (at_ < text_.size() && text_[at_] == '{') {
      step();
      while (at_ < text_.size() && text_[at_] != '}') name += text_[at_], step();
      if (at_ < text_.size()) step();
    } else {
      while (at_ < text_.size() && is_name_char(text_[at_])) name += text_[at_], step();
    }
    // ${NAME:-8}: what stands there where nothing else is known.
    const std::size_t fallback = std::min(name.find(":-"), name.find(":="));
    const std::string plain = name.substr(0, name.find_first_of(":[#%/"));
    const auto known = script_.variables.find(plain);
    if (known != script_.variables.end() && name.find('[') == std::string::npos) {
      // Variables that repeat each other ("A=$A$A") would fill the memory in a few lines.
      constexpr std::size_t kMostExpanded = std::size_t{1} << 20;
      expanded_ += known->second.text.size();
      if (expanded_ <= kMostExpanded) return known->second.text;
      unknown_ = true;
      return {};
    }
    unknown_ = unknown_ || fallback == std::string::npos;
    return fallback == std::string::npos ? std::string() : name.substr(fallback + 2);
  }

  void quoted(char quote, std::string& value) {
    step();
    while (at_ < text_.size() && text_[at_] != quote) {
      if (quote == '"' && text_[at_] == '\\' && at_ + 1 < text_.size()) {
        step();
        if (text_[at_] != '\n') value += text_[at_];
        step();
      } else if (quote == '"' && text_[at_] == '$') {
        step();
        value += variable();
      } else {
        value += text_[at_];
        step();
      }
    }
    if (at_ < text_.size()) step();
  }

  void word() {
    ShellWord word{{}, line_, column_};
    bool quotes = false;
    unknown_ = false;
    while (at_ < text_.size() && !is_gap(text_[at_])) {
      const char c = text_[at_];
      if (c == '\'' || c == '"') {
        quotes = true;
        quoted(c, word.text);
      } else if (c == '\\') {
        step();
        if (at_ < text_.size() && text_[at_] == '\r') step();
        if (at_ < text_.size() && text_[at_] != '\n') word.text += text_[at_];
        if (at_ < text_.size()) step();
      } else if (c == '$') {
        step();
        word.text += variable();
      } else {
        word.text += c;
        step();
      }
    }
    if (word.text.empty() && (!quotes || unknown_)) return;
    add(std::move(word));
  }

  // NAME=value is remembered, everything else is a word. A value with options in it is both.
  void add(ShellWord word) {
    const std::size_t equals = word.text.find('=');
    if (equals == std::string::npos || !is_name(std::string_view(word.text).substr(0, equals))) {
      script_.words.push_back(std::move(word));
      return;
    }
    ShellWord value{word.text.substr(equals + 1), word.line,
                    word.column + static_cast<int>(equals) + 1};
    if (value.text.find("--") != std::string::npos) options_of(value);
    script_.variables[word.text.substr(0, equals)] = std::move(value);
  }

  void options_of(const ShellWord& value) {
    std::string_view rest = value.text;
    while (!rest.empty()) {
      const std::size_t begin = rest.find_first_not_of(" \t\r\n");
      if (begin == std::string_view::npos) return;
      rest.remove_prefix(begin);
      const std::size_t end = std::min(rest.find_first_of(" \t\r\n"), rest.size());
      script_.words.push_back({std::string(rest.substr(0, end)), value.line, value.column});
      rest.remove_prefix(end);
    }
  }

  std::string_view text_;
  ShellScript& script_;
  std::size_t at_ = 0;
  std::size_t expanded_ = 0;  // characters that variables stood for
  int line_ = 1, column_ = 1;
  bool unknown_ = false;
};

}  // namespace

SourceLine ShellScript::shared_line_of(const ShellWord& word) const {
  const auto index = static_cast<std::size_t>(std::max(word.line, 1)) - 1;
  return index < lines.size() ? lines[index] : std::make_shared<const std::string>();
}

ShellScript read_shell(std::string_view text) {
  ShellScript script;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    script.lines.push_back(std::make_shared<const std::string>(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  Reader(text, script).read();
  return script;
}

}  // namespace meshplan
