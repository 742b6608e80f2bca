#include "io/yaml_tree.hpp"

#include <algorithm>
#include <set>
#include <sstream>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include "base/text.hpp"
#include "io/nesting.hpp"

namespace meshplan {
namespace {

// Something in the text that this reader refuses; ends the parse.
struct Refused {
  int line;
  int column;
  int length;
  std::string message;
  std::string hint;
};

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

int count_characters(std::string_view text) {
  return static_cast<int>(
      std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(c); }));
}

// Builds the tree from the parser's events.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(std::string_view text) : text_(text) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    add(node_at(mark, YamlNode::Kind::kNull));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { refuse_anchor(mark, 1); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    YamlNode node = node_at(mark, YamlNode::Kind::kScalar);
    node.quoted = tag == "!";
    if (!node.quoted) refuse_tag(mark, tag);
    node.text = value;
    node.length = written_length(mark, node);
    add(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, YamlNode::Kind::kSequence);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, YamlNode::Kind::kMap);
  }
  void OnMapEnd() override { close(); }

  YamlNode take_root() { return std::move(root_); }

 private:
  struct Open {
    YamlNode node;
    std::optional<YamlNode> key;  // of a map: read, its value not yet
    std::set<std::string> keys;
  };

  static YamlNode node_at(const YAML::Mark& mark, YamlNode::Kind kind) {
    YamlNode node;
    node.kind = kind;
    node.line = mark.line + 1;
    node.column = mark.column + 1;
    return node;
  }

  static void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor == YAML::NullAnchor) return;
    throw Refused{mark.line + 1, mark.column + 1, 1, "anchors (&) and aliases (*) are not accepted",
                  "write the value out, or put the text in quotes"};
  }

  static void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?") return;
    throw Refused{mark.line + 1, mark.column + 1, 1, "tags (!) are not accepted",
                  "leave the tag out, or put the text in quotes"};
  }

  // Characters of a scalar on its first line, as written.
  int written_length(const YAML::Mark& mark, const YamlNode& node) const {
    const auto at = static_cast<std::size_t>(std::max(mark.pos, 0));
    if (at >= text_.size()) return 1;
    const std::string_view rest = text_.substr(at);
    if (!node.quoted) {
      const std::string_view written = rest.substr(0, node.text.size());
      return std::max(count_characters(written.substr(0, written.find('\n'))), 1);
    }
    if (rest.front() != '"' && rest.front() != '\'') return 1;  // a block: | or >
    const std::size_t end = end_of_quoted(rest);
    if (end == std::string_view::npos) {
      throw Refused{mark.line + 1, mark.column + 1, 1, "this quote is not closed", {}};
    }
    const std::string_view written = rest.substr(0, end);
    return count_characters(written.substr(0, written.find('\n')));
  }

  // Behind the closing quote of a quoted scalar; the parser accepts the end of the text as one.
  static std::size_t end_of_quoted(std::string_view text) {
    const char quote = text.front();
    for (std::size_t i = 1; i < text.size(); ++i) {
      if (quote == '"' && text[i] == '\\') {
        ++i;
      } else if (text[i] == quote) {
        const bool doubled = quote == '\'' && i + 1 < text.size() && text[i + 1] == quote;
        if (!doubled) return i + 1;
        ++i;
      }
    }
    return std::string_view::npos;
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            YamlNode::Kind kind) {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    if (expects_key()) refuse_key(mark.line + 1, mark.column + 1, 1);
    if (open_.size() >= kMaxDepth) {
      throw Refused{mark.line + 1,
                    mark.column + 1,
                    1,
                    "nested deeper than " + std::to_string(kMaxDepth) + " levels",
                    {}};
    }
    open_.push_back({node_at(mark, kind), std::nullopt, {}});
  }

  void close() {
    YamlNode node = std::move(open_.back().node);
    open_.pop_back();
    add(std::move(node));
  }

  [[nodiscard]] bool expects_key() const {
    return !open_.empty() && open_.back().node.kind == YamlNode::Kind::kMap && !open_.back().key;
  }

  [[noreturn]] static void refuse_key(int line, int column, int length) {
    throw Refused{line, column, length, "a key must be a word", {}};
  }

  void add(YamlNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.kind == YamlNode::Kind::kSequence) {
      parent.node.items.push_back(std::move(node));
    } else if (parent.key) {
      parent.node.entries.push_back({std::move(*parent.key), std::move(node)});
      parent.key.reset();
    } else {
      if (node.kind != YamlNode::Kind::kScalar) refuse_key(node.line, node.column, node.length);
      if (!parent.keys.insert(node.text).second) {
        const int first = first_line(parent.node, node.text);
        throw Refused{node.line, node.column, node.length, "key '" + node.text + "' appears twice",
                      "the first one is on line " + std::to_string(first)};
      }
      parent.key = std::move(node);
    }
  }

  static int first_line(const YamlNode& map, std::string_view key) {
    for (const auto& [name, value] : map.entries) {
      if (name.text == key) return name.line;
    }
    return 0;
  }

  std::string_view text_;
  std::vector<Open> open_;
  YamlNode root_;
};

// Marks count bytes; people count characters. Nodes are visited in the order of the text, so that
// every byte is counted once even where the whole text is one line.
class CharacterColumns {
 public:
  explicit CharacterColumns(std::string_view text) : rest_(text) {}

  void apply(YamlNode& node) {
    move_to(node);
    for (YamlNode& item : node.items) apply(item);
    for (auto& [key, value] : node.entries) {
      apply(key);
      apply(value);
    }
  }

 private:
  void move_to(YamlNode& node) {
    while (line_ < node.line) {
      const std::size_t end = rest_.find('\n');
      if (end == std::string_view::npos) return;
      rest_.remove_prefix(end + 1);
      ++line_;
      bytes_ = characters_ = 0;
    }
    // The value of a key without one stands before what follows it: then nothing is to be counted.
    const int wanted = node.column - 1;
    if (node.line != line_ || wanted < bytes_) return;
    const std::string_view between =
        rest_.substr(static_cast<std::size_t>(bytes_), static_cast<std::size_t>(wanted - bytes_));
    characters_ += count_characters(between);
    bytes_ = wanted;
    node.column = characters_ + 1;
  }

  std::string_view rest_;  // from the start of line `line_`
  int line_ = 1;
  int bytes_ = 0;
  int characters_ = 0;
};

Diagnostic problem(const std::string& file, std::string_view text, const Refused& r) {
  Diagnostic d = error_at({file, r.line, r.column, r.length}, r.message, r.hint);
  d.source_line = line_of(text, r.line);
  return d;
}

Refused refused_at(std::string_view text, std::size_t offset, std::string message,
                   std::string hint = {}) {
  const auto [line, column] = position_of(text, offset);
  return {line, column, 1, std::move(message), std::move(hint)};
}

Refused refused_by_parser(std::string_view text, const YAML::Exception& failure) {
  const std::string line = line_of(text, failure.mark.line + 1);
  const std::size_t word = line.find_first_not_of(" \t");
  const bool tab = line.substr(0, word).find('\t') != std::string::npos;
  return {failure.mark.line + 1, failure.mark.column + 1, 1, "not valid YAML: " + failure.msg,
          tab ? "indent with spaces, not tabs" : ""};
}

std::string describe(Excess what) {
  switch (what) {
    case Excess::kDepth:
      return "nested deeper than " + std::to_string(kMaxDepth) + " levels";
    case Excess::kValues:
      return "more than " + with_thousands(std::int64_t{kMostMarks}) + " values in one file";
    case Excess::kText:
      return "a text longer than " + std::to_string(kLongestText >> 10U) + " KiB";
  }
  return {};
}

// What must not even reach the parser.
std::optional<Refused> unreadable(std::string_view text) {
  if (text.size() > kMaxFileBytes) return Refused{0, 0, 1, "larger than 16 MiB", {}};
  if (const auto at = first_invalid_utf8(text)) return refused_at(text, *at, "not UTF-8 text");
  const auto control = std::find_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
  });
  if (control != text.end()) {
    return refused_at(text, static_cast<std::size_t>(control - text.begin()),
                      *control == '\0' ? "a NUL byte: not a text file" : "a control character");
  }
  // The builder is exact; this only stops what the parser should not see.
  if (const auto excess = find_excess(text, 2 * kMaxDepth)) {
    return refused_at(text, excess->offset, describe(excess->what));
  }
  return std::nullopt;
}

}  // namespace

const YamlNode* YamlNode::find(std::string_view key) const {
  for (const auto& [name, value] : entries) {
    if (name.text == key) return &value;
  }
  return nullptr;
}

Result<YamlNode> parse_yaml(std::string_view original, const std::string& file) {
  const std::string text = normalised_lines(original);
  if (const auto refused = unreadable(text)) return problem(file, text, *refused);
  TreeBuilder builder(text);
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    const bool found = parser.HandleNextDocument(builder);
    YamlNode root = builder.take_root();
    if (!found || root.kind == YamlNode::Kind::kNull) return error_at({file}, "is empty");
    TreeBuilder second(text);
    if (parser.HandleNextDocument(second)) {
      return error_at({file}, "holds more than one document", "remove what follows the second ---");
    }
    CharacterColumns(text).apply(root);
    return root;
  } catch (const Refused& refused) {
    return problem(file, text, refused);
  } catch (const YAML::Exception& failure) {
    return problem(file, text, refused_by_parser(text, failure));
  }
}

}  // namespace meshplan
