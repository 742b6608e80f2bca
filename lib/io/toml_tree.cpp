#include "io/toml_tree.hpp"

#if MESHPLAN_TOML
// The only translation unit that includes the library. Its errors are values, not exceptions.
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <algorithm>
#include <optional>
#include <toml++/toml.h>
#include <utility>
#include <vector>

#include "io/toml_limits.hpp"

namespace meshplan {
namespace {

bool stands_before(const toml::source_position& a, const toml::source_position& b) {
  return std::pair(a.line, a.column) < std::pair(b.line, b.column);
}

class TomlTree {
 public:
  TomlTree(std::string text, std::string file) : text_(std::move(text)), file_(std::move(file)) {
    for (std::size_t at = 0; at < text_.size();
         at = std::min(text_.find('\n', at), text_.size()) + 1)
      lines_.push_back(at);
  }

  Result<YamlNode> read() {
    if (const auto bad = first_invalid_utf8(text_)) return failed_at(*bad, "the text is not UTF-8");
    if (auto excess = toml_excess(text_)) return failed_at(excess->offset, excess->message);
    const toml::parse_result parsed = toml::parse(std::string_view(text_));
    if (!parsed) return not_parsed(parsed.error());
    YamlNode root;
    root.kind = YamlNode::Kind::kMap;
    root.line = root.column = 1;
    add_entries(root, parsed.table());
    if (problem_) return *problem_;
    return root;
  }

 private:
  [[nodiscard]] std::size_t offset_of(const toml::source_position& place) const {
    if (place.line == 0 || place.line > lines_.size()) return text_.size();
    std::size_t at = lines_[place.line - 1];
    for (auto column = place.column; column > 1 && at < text_.size() && text_[at] != '\n';) {
      ++at;
      if (at == text_.size() || (static_cast<unsigned char>(text_[at]) & 0xC0) != 0x80) --column;
    }
    return at;
  }

  [[nodiscard]] Diagnostic failed_at(std::size_t offset, std::string message,
                                     std::string hint = {}) const {
    const auto [line, column] = position_of(text_, offset);
    Diagnostic d = error_at({file_, line, column}, std::move(message), std::move(hint));
    d.source_line = line_of(text_, line);
    return d;
  }

  // Where the key begins whose '=' stands before the value at `value`; `value` where none does.
  [[nodiscard]] std::size_t key_before(std::size_t value) const {
    constexpr std::string_view kBlanks = " \t";
    const auto last_before = [&](std::size_t at) {
      return at == 0 ? std::string::npos : text_.find_last_not_of(kBlanks, at - 1);
    };
    const std::size_t sign = last_before(value);
    if (sign == std::string::npos || text_[sign] != '=') return value;
    const std::size_t end = last_before(sign);
    if (end == std::string::npos) return value;
    const bool quoted = text_[end] == '"' || text_[end] == '\'';
    const std::size_t before = end == 0 ? std::string::npos
                               : quoted ? text_.rfind(text_[end], end - 1)
                                        : text_.find_last_of(" \t\n.,{", end - 1);
    if (before == std::string::npos) return quoted ? value : 0;
    return quoted ? before : before + 1;
  }

  // What toml++ says, without the words that every diagnostic of ours begins with.
  [[nodiscard]] Diagnostic not_parsed(const toml::parse_error& error) const {
    constexpr std::string_view kPrefix = "Error while parsing ", kLineEnd = "saw '\\n'";
    std::string message(error.description());
    if (message.starts_with(kPrefix)) message.erase(0, kPrefix.size());
    if (const std::size_t at = message.find(kLineEnd); at != std::string::npos)
      message.replace(at, kLineEnd.size(), "saw the end of the line");
    std::size_t offset = offset_of(error.source().begin);
    if (message.find("control characters") != std::string::npos && offset < text_.size() &&
        text_[offset] == '\n') {
      message.replace(message.find(':'), std::string::npos,
                      ": the line ends before its closing quote");
    }
    if (message.find("cannot redefine") != std::string::npos) offset = key_before(offset);
    const bool word = message.starts_with("value: could not") || message.starts_with("boolean:");
    return failed_at(offset, std::move(message), word ? "text stands in quotes" : "");
  }

  // Places are those of the source; a caret stays on the first line.
  static void set_place(YamlNode& node, const toml::source_region& at) {
    node.line = static_cast<int>(at.begin.line);
    node.column = static_cast<int>(at.begin.column);
    node.length = at.begin.line == at.end.line
                      ? std::max(static_cast<int>(at.end.column) - node.column, 1)
                      : 1;
  }

  void add_entries(YamlNode& map, const toml::table& table) {
    using Entry = std::pair<const toml::key*, const toml::node*>;
    std::vector<Entry> entries;  // a table is ordered by name
    for (const auto& [key, value] : table) entries.emplace_back(&key, &value);
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return stands_before(a.first->source().begin, b.first->source().begin);
    });
    if (entries.size() > kMostTomlKeys && !problem_) {
      problem_ = failed_at(offset_of(entries[kMostTomlKeys].first->source().begin),
                           "this table has too many keys");
      return;
    }
    for (const auto& [key, value] : entries) {
      YamlNode name;
      name.kind = YamlNode::Kind::kScalar;
      name.text = std::string(key->str());
      set_place(name, key->source());
      map.entries.push_back({name, node_of(*value)});
      // A table with a header stands where its header names it.
      const toml::table* inner = value->as_table();
      if (inner != nullptr && !inner->is_inline())
        set_place(map.entries.back().second, key->source());
    }
  }

  // A number as it is written, without the underscores between digits and the sign '+'.
  [[nodiscard]] std::string plain_text(const toml::node& value) const {
    if (const auto* integer = value.as_integer()) return std::to_string(integer->get());
    const std::size_t begin = offset_of(value.source().begin);
    std::string text = text_.substr(begin, offset_of(value.source().end) - begin);
    std::erase(text, '_');
    if (text.starts_with('+')) text.erase(0, 1);
    return text;
  }

  YamlNode node_of(const toml::node& value) {
    YamlNode node;
    set_place(node, value.source());
    if (const toml::table* table = value.as_table()) {
      node.kind = YamlNode::Kind::kMap;
      add_entries(node, *table);
    } else if (const toml::array* array = value.as_array()) {
      node.kind = YamlNode::Kind::kSequence;
      for (const toml::node& item : *array) node.items.push_back(node_of(item));
    } else if (const auto* string = value.as_string()) {
      node.kind = YamlNode::Kind::kScalar;
      node.quoted = true;
      node.text = string->get();
    } else {
      node.kind = YamlNode::Kind::kScalar;
      node.text = plain_text(value);
    }
    return node;
  }

  std::string text_, file_;
  std::vector<std::size_t> lines_;  // offset of each line
  std::optional<Diagnostic> problem_;
};

}  // namespace

bool reads_toml() { return true; }

Result<YamlNode> parse_toml(std::string_view text, const std::string& file) {
  return TomlTree(normalised_lines(text), file).read();
}

}  // namespace meshplan

#else

namespace meshplan {

bool reads_toml() { return false; }

Result<YamlNode> parse_toml(std::string_view, const std::string& file) {
  return error_at({file}, "this program was built without the library that reads TOML",
                  "install toml++ 3 or later (libtomlplusplus-dev of Debian 12, Ubuntu 24.04 and "
                  "later) and build again");
}

}  // namespace meshplan

#endif
