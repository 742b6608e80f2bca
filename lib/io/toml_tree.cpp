#include "io/toml_tree.hpp"

#include <algorithm>
#include <optional>
#include <set>

namespace meshplan {
namespace {

bool is_bare(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

// UTF-8 of a code point; nothing for one that is none.
std::string encoded(unsigned long code) {
  const auto byte = [](unsigned long bits) { return static_cast<char>(bits); };
  if (code < 0x80) return {byte(code)};
  if (code < 0x800) return {byte(0xC0 | code >> 6), byte(0x80 | (code & 0x3F))};
  if (code >= 0xD800 && code < 0xE000) return {};
  if (code < 0x10000) {
    return {byte(0xE0 | code >> 12), byte(0x80 | (code >> 6 & 0x3F)), byte(0x80 | (code & 0x3F))};
  }
  if (code > 0x10FFFF) return {};
  return {byte(0xF0 | code >> 18), byte(0x80 | (code >> 12 & 0x3F)),
          byte(0x80 | (code >> 6 & 0x3F)), byte(0x80 | (code & 0x3F))};
}

// Tables and values of a text: no file that people write comes near it.
constexpr std::size_t kMostValues = 20'000;

class TomlReader {
 public:
  TomlReader(std::string_view text, const std::string& file)
      : text_(normalised_lines(text)), file_(file) {}

  Result<YamlNode> read() {
    if (const auto bad = first_invalid_utf8(text_)) {
      fail(*bad, "the text is not UTF-8");
      return *problem_;
    }
    YamlNode root;
    root.kind = YamlNode::Kind::kMap;
    root.line = root.column = 1;
    std::vector<Key> table;
    while (ok()) {
      skip_lines();
      if (!ok() || at_ == text_.size()) break;
      if (text_[at_] == '[') {
        header(root, table);
      } else {
        YamlNode* target = descend(root, table);
        if (target != nullptr) assignment(*target);
      }
      end_of_line();
    }
    if (!ok()) return *problem_;
    return root;
  }

 private:
  [[nodiscard]] bool ok() const { return !problem_; }

  void fail(std::size_t offset, std::string message, std::string hint = {}) {
    if (problem_) return;
    const auto [line, column] = position_of(text_, offset);
    problem_ = error_at({file_, line, column}, std::move(message), std::move(hint));
    problem_->source_line = line_of(text_, line);
  }

  [[nodiscard]] char now() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  [[nodiscard]] bool starts(std::string_view word) const {
    return std::string_view(text_).substr(at_).starts_with(word);
  }

  void skip_blanks() {
    while (now() == ' ' || now() == '\t') ++at_;
  }
  void skip_comment() {
    if (now() != '#') return;
    while (at_ < text_.size() && text_[at_] != '\n') ++at_;
  }
  void skip_lines() {
    for (;;) {
      skip_blanks();
      skip_comment();
      if (now() != '\n') return;
      ++at_;
    }
  }
  void end_of_line() {
    skip_blanks();
    skip_comment();
    if (ok() && at_ < text_.size() && text_[at_] != '\n') fail(at_, "the line should end here");
  }

  struct Place {
    std::size_t at = 0;
    int line = 1, column = 1;
  };
  struct Key {
    std::string text;
    Place place;
    int length = 1;
  };

  // Where the reader stands: it only goes on, so that a file is counted through once.
  Place here() {
    for (; place_.at < at_; ++place_.at) {
      const auto byte = static_cast<unsigned char>(text_[place_.at]);
      if (byte == '\n') {
        ++place_.line;
        place_.column = 1;
      } else if ((byte & 0xC0) != 0x80) {
        ++place_.column;
      }
    }
    return place_;
  }

  // Behind the value that began at `begin`; its caret stays on the line.
  void set_place(YamlNode& node, const Place& begin) {
    const Place end = here();
    node.line = begin.line;
    node.column = begin.column;
    node.length = end.line == begin.line ? std::max(end.column - begin.column, 1) : 1;
  }

  Key one_key() {
    Key key{{}, here()};
    if (now() == '"' || now() == '\'') {
      key.text = string_text();
    } else {
      const std::size_t begin = at_;
      while (is_bare(now())) ++at_;
      if (at_ == begin) fail(at_, "a key should stand here");
      key.text = text_.substr(begin, at_ - begin);
    }
    key.length = std::max(here().column - key.place.column, 1);
    return key;
  }

  static YamlNode key_node(const Key& key) {
    YamlNode node;
    node.kind = YamlNode::Kind::kScalar;
    node.text = key.text;
    node.line = key.place.line;
    node.column = key.place.column;
    node.length = key.length;
    return node;
  }

  std::vector<Key> dotted_key() {
    std::vector<Key> keys{one_key()};
    for (skip_blanks(); ok() && now() == '.'; skip_blanks()) {
      ++at_;
      skip_blanks();
      keys.push_back(one_key());
      if (keys.size() > kMaxDepth) fail(keys.front().place.at, "this nests too deep");
    }
    return keys;
  }

  static YamlNode* entry(YamlNode& map, const std::string& key) {
    for (YamlEntry& e : map.entries) {
      if (e.first.text == key) return &e.second;
    }
    return nullptr;
  }

  // Keys are looked for one by one: no file that people write comes near the limit.
  void add(YamlNode& map, const Key& key, YamlNode value) {
    constexpr std::size_t kMostKeys = 4096;
    if (map.entries.size() == kMostKeys) fail(key.place.at, "this table has too many keys");
    map.entries.push_back({key_node(key), std::move(value)});
  }

  // The table below `map` of that name, made where there is none.
  YamlNode* table_of(YamlNode& map, const Key& key) {
    if (YamlNode* found = entry(map, key.text)) {
      if (found->kind == YamlNode::Kind::kMap) return found;
      fail(key.place.at, "'" + key.text + "' has a value already");
      return nullptr;
    }
    YamlNode value = key_node(key);
    value.kind = YamlNode::Kind::kMap;
    value.text.clear();
    add(map, key, std::move(value));
    return &map.entries.back().second;
  }

  YamlNode* descend(YamlNode& root, const std::vector<Key>& path) {
    YamlNode* node = &root;
    for (const Key& key : path) {
      node = table_of(*node, key);
      if (node == nullptr) return nullptr;
    }
    return node;
  }

  void header(YamlNode& root, std::vector<Key>& table) {
    const std::size_t begin = at_++;
    if (++values_ > kMostValues) {
      fail(begin, "these are more than " + std::to_string(kMostValues) + " tables and values");
      return;
    }
    if (now() == '[') {
      fail(begin, "arrays of tables are not read here");
      return;
    }
    skip_blanks();
    table = dotted_key();
    if (ok() && now() != ']') fail(at_, "the name of the table should end with ']'");
    if (!ok()) return;
    ++at_;
    std::string name;
    for (const Key& key : table) name += (name.empty() ? "" : ".") + key.text;
    if (!headers_.insert(name).second) fail(begin, "table '" + name + "' stands twice");
    descend(root, table);
  }

  void assignment(YamlNode& table) {
    const std::vector<Key> keys = dotted_key();
    YamlNode* target = &table;
    for (std::size_t i = 0; ok() && i + 1 < keys.size(); ++i) target = table_of(*target, keys[i]);
    if (ok() && now() != '=') fail(at_, "'=' should stand here");
    if (!ok() || target == nullptr) return;
    ++at_;
    if (entry(*target, keys.back().text) != nullptr) {
      fail(keys.back().place.at, "'" + keys.back().text + "' has a value already");
      return;
    }
    skip_blanks();
    YamlNode value = any_value();
    add(*target, keys.back(), std::move(value));
  }

  YamlNode any_value() {
    YamlNode node;
    const Place begin = here();
    if (++depth_ > kMaxDepth) {
      fail(at_, "this nests too deep");
    } else if (++values_ > kMostValues) {
      fail(at_, "these are more than " + std::to_string(kMostValues) + " tables and values");
    } else if (now() == '"' || now() == '\'') {
      node.kind = YamlNode::Kind::kScalar;
      node.quoted = true;
      node.text = string_text();
    } else if (now() == '[') {
      list(node);
    } else if (now() == '{') {
      inline_table(node);
    } else {
      plain(node);
    }
    --depth_;
    set_place(node, begin);
    return node;
  }

  // A number, flag or date: as it is written, without the underscores between digits.
  void plain(YamlNode& node) {
    node.kind = YamlNode::Kind::kScalar;
    const std::size_t begin = at_;
    while (is_bare(now()) || now() == '+' || now() == '.' || now() == ':') {
      if (now() != '_') node.text += now();
      ++at_;
    }
    const bool word =
        node.text == "true" || node.text == "false" || node.text == "inf" || node.text == "nan";
    const bool number =
        !node.text.empty() &&
        std::string_view("+-0123456789").find(node.text.front()) != std::string_view::npos;
    if (!word && !number) {
      fail(begin, "a value should stand here", "text stands in quotes");
    }
    if (node.text.starts_with('+')) node.text.erase(0, 1);
  }

  void list(YamlNode& node) {
    node.kind = YamlNode::Kind::kSequence;
    const std::size_t begin = at_++;
    for (skip_lines(); ok() && now() != ']'; skip_lines()) {
      if (at_ < text_.size()) node.items.push_back(any_value());
      skip_lines();
      if (at_ == text_.size()) fail(begin, "this list does not end");
      if (now() == ',') {
        ++at_;
      } else if (ok() && now() != ']') {
        fail(at_, "',' or ']' should stand here");
      }
    }
    if (ok()) ++at_;
  }

  void inline_table(YamlNode& node) {
    node.kind = YamlNode::Kind::kMap;
    ++at_;
    skip_blanks();
    while (ok() && now() != '}') {
      assignment(node);
      skip_blanks();
      if (ok() && now() != ',' && now() != '}') fail(at_, "',' or '}' should stand here");
      if (now() == ',') ++at_;
      skip_blanks();
    }
    if (ok()) ++at_;
  }

  std::string string_text() {
    const char quote = now();
    const std::size_t begin = at_;
    const bool several_lines = starts(std::string(3, quote));
    at_ += several_lines ? 3 : 1;
    if (several_lines && now() == '\n') ++at_;
    std::string text;
    while (at_ < text_.size() && ok()) {
      if (several_lines ? starts(std::string(3, quote)) : now() == quote) {
        at_ += several_lines ? 3 : 1;
        return text;
      }
      if (now() == '\n' && !several_lines) break;
      if (quote == '"' && now() == '\\') {
        escape(text, several_lines);
      } else {
        text += text_[at_++];
      }
    }
    fail(begin, "this text does not end");
    return text;
  }

  void escape(std::string& text, bool several_lines) {
    constexpr std::string_view kCodes = "btnfr\"\\", kValues = "\b\t\n\f\r\"\\";
    const std::size_t begin = at_++;
    const char code = now();
    if (const std::size_t i = kCodes.find(code); code != '\0' && i != std::string_view::npos) {
      text += kValues[i];
      ++at_;
    } else if (code == 'u' || code == 'U') {
      const std::size_t digits = code == 'u' ? 4 : 8;
      const std::string hex = text_.substr(at_ + 1, digits);
      const bool whole = hex.size() == digits &&
                         hex.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
      const std::string bytes = whole ? encoded(std::stoul(hex, nullptr, 16)) : std::string();
      if (bytes.empty()) fail(begin, "this is no character");
      text += bytes;
      at_ += 1 + digits;
    } else if (several_lines && (code == '\n' || code == ' ')) {
      while (now() == ' ' || now() == '\t' || now() == '\n') ++at_;
    } else {
      fail(begin, "there is no escape '\\" + std::string(1, code) + "'");
    }
  }

  std::string text_;
  std::string file_;
  std::size_t at_ = 0;
  std::size_t depth_ = 0;
  std::size_t values_ = 0;
  Place place_;
  std::set<std::string> headers_;
  std::optional<Diagnostic> problem_;
};

}  // namespace

Result<YamlNode> parse_toml(std::string_view text, const std::string& file) {
  return TomlReader(text, file).read();
}

}  // namespace meshplan
