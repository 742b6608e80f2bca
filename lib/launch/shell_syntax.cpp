#include "launch/shell_syntax.hpp"

#include <algorithm>
#include <array>

namespace meshplan::shell {
namespace {

constexpr int kDeepest = 200;  // nested commands

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

bool ends_word(char c) {
  return is_blank(c) || std::string_view("\n;&|<>()").find(c) != std::string_view::npos;
}

class Parser {
 public:
  Parser(const Source& source, std::size_t begin, std::size_t end)
      : source_(source), text_(std::string_view(source.text).substr(0, end)), at_(begin) {}

  std::unique_ptr<Node> script() {
    auto all = make(Node::Kind::kSequence);
    while (at_ < text_.size()) {
      auto part = sequence({});
      for (auto& child : part->children) all->children.push_back(std::move(child));
      if (at_ < text_.size()) ++at_;  // a ')' or '}' that closes nothing
    }
    return all;
  }

  std::vector<Range> words() {
    std::vector<Range> found;
    while (true) {
      gap(true);
      if (at_ >= text_.size()) return found;
      const std::size_t begin = at_;
      word();
      if (at_ == begin) {
        ++at_;
        continue;
      }
      found.push_back({&source_, begin, at_});
    }
  }

 private:
  std::unique_ptr<Node> make(Node::Kind kind) {
    auto node = std::make_unique<Node>();
    node->kind = kind;
    return node;
  }

  [[nodiscard]] char now() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  [[nodiscard]] bool starts(std::string_view what) const {
    return text_.substr(at_).starts_with(what);
  }

  // Blanks, comments and continued lines; with `lines` the ends of lines too.
  void gap(bool lines) {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (is_blank(c)) {
        ++at_;
      } else if (c == '\\' && (starts("\\\n") || starts("\\\r\n"))) {
        at_ += starts("\\\n") ? 2 : 3;
      } else if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == '\n' && lines) {
        end_line();
      } else {
        return;
      }
    }
  }

  void end_line() {
    ++at_;
    for (auto& [redirect, delimiter, strip] : pending_) {
      redirect->target = {&source_, at_, at_};
      while (at_ < text_.size()) {
        const std::size_t end = std::min(text_.find('\n', at_), text_.size());
        std::string_view line = text_.substr(at_, end - at_);
        while (!line.empty() && line.back() == '\r') line.remove_suffix(1);
        while (strip && !line.empty() && line.front() == '\t') line.remove_prefix(1);
        redirect->target.end = at_;
        at_ = std::min(end + 1, text_.size());
        if (line == delimiter) break;
        redirect->target.end = at_;
      }
    }
    pending_.clear();
  }

  void word() {
    while (at_ < text_.size() && !ends_word(text_[at_])) {
      const char c = text_[at_];
      if (c == '\'' || c == '"') {
        at_ = skip_quoted(text_, at_);
      } else if (c == '\\') {
        if (starts("\\\n") || starts("\\\r\n")) {
          at_ += starts("\\\n") ? 2 : 3;
        } else {
          at_ = std::min(at_ + 2, text_.size());
        }
      } else if (c == '$' || c == '`') {
        at_ = skip_expansion(text_, at_);
      } else {
        ++at_;
      }
    }
  }

  // A word, or an array that is assigned; empty where none begins here.
  Range next_word() {
    gap(false);
    const std::size_t begin = at_;
    word();
    const std::string_view read = text_.substr(begin, at_ - begin);
    if (now() == '(' && read.ends_with("=") && assigned_name(read) > 0) {
      at_ = skip_quoted(text_, at_);
    }
    return {&source_, begin, at_};
  }

  [[nodiscard]] std::string_view peek() {
    gap(false);
    std::size_t end = at_;
    while (end < text_.size() && !ends_word(text_[end])) ++end;
    return text_.substr(at_, end - at_);
  }
  bool take(std::string_view keyword) {
    if (peek() != keyword) return false;
    at_ += keyword.size();
    return true;
  }

  // Commands until one of `ends` stands where a command would, or a ')'.
  std::unique_ptr<Node> sequence(std::initializer_list<std::string_view> ends) {
    auto node = make(Node::Kind::kSequence);
    if (++depth_ > kDeepest) at_ = text_.size();
    while (true) {
      gap(true);
      while (now() == ';' || now() == '&') {
        if (starts(";;") && closes(ends, ";;")) break;
        ++at_;
        gap(true);
      }
      if (at_ >= text_.size() || now() == ')' || starts(";;")) break;
      if (closes(ends, peek())) break;
      const std::size_t begin = at_;
      node->children.push_back(and_or());
      if (at_ == begin) ++at_;
    }
    --depth_;
    return node;
  }

  static bool closes(std::initializer_list<std::string_view> ends, std::string_view word) {
    return !word.empty() && std::find(ends.begin(), ends.end(), word) != ends.end();
  }

  std::unique_ptr<Node> and_or() {
    auto left = pipeline();
    while (true) {
      gap(false);
      const bool both = starts("&&");
      if (!both && !starts("||")) return left;
      at_ += 2;
      gap(true);
      auto node = make(both ? Node::Kind::kAnd : Node::Kind::kOr);
      node->children.push_back(std::move(left));
      node->children.push_back(pipeline());
      left = std::move(node);
    }
  }

  std::unique_ptr<Node> pipeline() {
    if (take("!")) {
      auto node = make(Node::Kind::kNot);
      node->children.push_back(pipeline());
      return node;
    }
    (void)take("time");
    auto first = command();
    gap(false);
    if (now() != '|' || starts("||")) return first;
    auto node = make(Node::Kind::kPipe);
    node->children.push_back(std::move(first));
    while (now() == '|' && !starts("||")) {
      ++at_;
      if (now() == '&') ++at_;
      gap(true);
      node->children.push_back(command());
      gap(false);
    }
    return node;
  }

  std::unique_ptr<Node> command() {
    gap(false);
    auto node = compound();
    if (node == nullptr) return simple();
    while (redirect(*node)) {
    }
    return node;
  }

  std::unique_ptr<Node> compound() {
    if (starts("((")) return arithmetic();
    if (now() == '(') {
      ++at_;
      auto body = sequence({});
      if (now() == ')') ++at_;
      return body;
    }
    if (take("{")) {
      auto body = sequence({"}"});
      (void)take("}");
      return body;
    }
    if (take("[[")) return test();
    if (take("if")) return conditional();
    if (take("case")) return choice();
    if (take("for") || take("select")) return loop();
    const bool until = peek() == "until";
    if (take("while") || take("until")) return while_loop(until);
    if (take("function")) return function(next_word());
    const std::string_view name = peek();
    const bool assigns = name.find('=') != name.npos;  // "list=()" is an empty array
    if (!name.empty() && !assigns && text_.substr(at_ + name.size()).starts_with("()")) {
      const Range word{&source_, at_, at_ + name.size()};
      at_ += name.size();
      return function(word);
    }
    return nullptr;
  }

  std::unique_ptr<Node> function(Range name) {
    auto node = make(Node::Kind::kFunction);
    node->words.push_back(name);
    gap(false);
    if (starts("()")) at_ += 2;
    gap(true);
    if (++depth_ <= kDeepest) node->children.push_back(command());
    --depth_;
    return node;
  }

  std::unique_ptr<Node> arithmetic() {
    auto node = make(Node::Kind::kArithmetic);
    const std::size_t begin = at_ + 2;
    at_ = skip_quoted(text_, at_);
    node->words.push_back({&source_, std::min(begin, at_), std::max(begin, at_ - 2)});
    return node;
  }

  std::unique_ptr<Node> test() {
    auto node = make(Node::Kind::kTest);
    while (true) {
      gap(true);
      if (at_ >= text_.size()) return node;
      if (take("]]")) return node;
      const std::size_t begin = at_;
      if (starts("&&") || starts("||")) {
        at_ += 2;
      } else if (ends_word(now())) {
        ++at_;
      } else {
        // The pattern behind =~ may hold parentheses and bars.
        const bool pattern = !node->words.empty() && node->words.back().text() == "=~";
        word();
        while (pattern && at_ < text_.size() && !is_blank(now()) && now() != '\n') {
          ++at_;
          word();
        }
      }
      node->words.push_back({&source_, begin, at_});
    }
  }

  std::unique_ptr<Node> conditional() {
    auto node = make(Node::Kind::kIf);
    node->children.push_back(sequence({"then"}));
    (void)take("then");
    while (true) {
      node->children.push_back(sequence({"elif", "else", "fi"}));
      if (take("elif")) {
        node->children.push_back(sequence({"then"}));
        (void)take("then");
      } else if (take("else")) {
        node->children.push_back(sequence({"fi"}));
        (void)take("fi");
        return node;
      } else {
        (void)take("fi");
        return node;
      }
    }
  }

  std::unique_ptr<Node> choice() {
    auto node = make(Node::Kind::kCase);
    node->words.push_back(next_word());
    gap(true);
    (void)take("in");
    while (true) {
      gap(true);
      if (at_ >= text_.size() || take("esac")) return node;
      Node::Arm arm;
      if (now() == '(') ++at_;
      while (at_ < text_.size() && now() != ')') {
        const Range pattern = next_word();
        if (pattern.begin == pattern.end) {
          ++at_;
        } else {
          arm.patterns.push_back(pattern);
        }
        gap(true);
      }
      if (now() == ')') ++at_;
      arm.body = sequence({"esac", ";;"});
      if (starts(";;")) at_ += 2;
      if (now() == '&') ++at_;
      node->arms.push_back(std::move(arm));
    }
  }

  std::unique_ptr<Node> loop() {
    auto node = make(Node::Kind::kFor);
    gap(false);
    if (starts("((")) {
      node->words.push_back(arithmetic()->words.front());
    } else {
      node->words.push_back(next_word());
      gap(true);
      node->over_arguments = !take("in");
      while (!node->over_arguments) {
        const Range value = next_word();
        if (value.begin == value.end) break;
        node->words.push_back(value);
      }
    }
    gap(true);
    while (now() == ';') {
      ++at_;
      gap(true);
    }
    (void)take("do");
    node->children.push_back(sequence({"done"}));
    (void)take("done");
    return node;
  }

  std::unique_ptr<Node> while_loop(bool until) {
    auto node = make(Node::Kind::kWhile);
    node->until = until;
    node->children.push_back(sequence({"do"}));
    (void)take("do");
    node->children.push_back(sequence({"done"}));
    (void)take("done");
    return node;
  }

  std::unique_ptr<Node> simple() {
    auto node = make(Node::Kind::kSimple);
    while (true) {
      gap(false);
      if (redirect(*node)) continue;
      const Range word = next_word();
      if (word.begin == word.end) return node;
      node->words.push_back(word);
    }
  }

  bool redirect(Node& node) {
    gap(false);
    std::size_t sign = at_;
    while (sign < text_.size() && text_[sign] >= '0' && text_[sign] <= '9') ++sign;
    if (text_.substr(sign).starts_with("&>")) ++sign;
    const char c = sign < text_.size() ? text_[sign] : '\0';
    if (c != '<' && c != '>') return false;
    at_ = sign + 1;
    if (c == '<' && starts("<") && !starts("<<")) return here_document(node);
    while (std::string_view("<>|&").find(now()) != std::string_view::npos && now() != '\0') ++at_;
    if (now() == '(') {  // <(command)
      at_ = skip_quoted(text_, at_);
      return true;
    }
    Redirect to;
    to.output = c == '>';
    to.target = next_word();
    node.redirects.push_back(to);
    return true;
  }

  bool here_document(Node& node) {
    ++at_;
    const bool strip = now() == '-';
    if (strip) ++at_;
    const Range word = next_word();
    std::string delimiter;
    Redirect document;
    document.here_document = true;
    for (const char c : word.text()) {
      const bool quote = c == '\'' || c == '"' || c == '\\';
      if (quote) document.expands = false;
      if (!quote) delimiter += c;
    }
    document.target = {&source_, at_, at_};
    node.redirects.push_back(document);
    pending_.push_back({&node.redirects.back(), std::move(delimiter), strip});
    return true;
  }

  struct Pending {
    Redirect* redirect;
    std::string delimiter;
    bool strip;
  };

  const Source& source_;
  std::string_view text_;
  std::size_t at_;
  int depth_ = 0;
  std::vector<Pending> pending_;
};

}  // namespace

std::unique_ptr<Node> parse(const Source& source) {
  return Parser(source, 0, source.text.size()).script();
}

std::vector<Range> words_in(Range list) {
  return Parser(*list.source, list.begin, list.end).words();
}

}  // namespace meshplan::shell
