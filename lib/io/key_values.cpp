#include "io/key_values.hpp"

#include <algorithm>
#include <optional>
#include <tuple>

namespace meshplan {
namespace {

constexpr std::size_t kMostCharacters = std::size_t{1} << 16;

class ItemParser {
 public:
  ItemParser(std::string_view text, std::string flag) : text_(text), flag_(std::move(flag)) {}

  Result<std::vector<KeyItem>> run() {
    std::vector<KeyItem> items;
    for (std::size_t begin = 0; begin <= text_.size();) {
      const std::size_t end = end_of_part(begin, text_.size(), ',');
      if (std::optional<KeyItem> item = parse_item(begin, end)) items.push_back(std::move(*item));
      begin = end + 1;
    }
    if (!problems_.empty()) return problems_;
    return items;
  }

 private:
  // Where the part that starts at `begin` ends: at `separator` outside of brackets.
  [[nodiscard]] std::size_t end_of_part(std::size_t begin, std::size_t limit,
                                        char separator) const {
    int depth = 0;
    for (std::size_t i = begin; i < limit; ++i) {
      if (text_[i] == '[') ++depth;
      if (text_[i] == ']' && depth > 0) --depth;
      if (text_[i] == separator && depth == 0) return i;
    }
    return limit;
  }

  void trim(std::size_t& begin, std::size_t& end) const {
    const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\n'; };
    while (begin < end && blank(text_[begin])) ++begin;
    while (end > begin && blank(text_[end - 1])) --end;
  }

  void report(std::size_t at, std::size_t length, std::string message, std::string hint = {}) {
    const auto [line, column] = position_of(text_, at);
    Diagnostic d =
        error_at({flag_, line, column, static_cast<int>(std::max<std::size_t>(length, 1))},
                 std::move(message), std::move(hint));
    d.source_line = line_of(text_, line);
    problems_.push_back(std::move(d));
  }

  [[nodiscard]] YamlNode scalar(std::size_t begin, std::size_t end) const {
    YamlNode node;
    node.text = std::string(text_.substr(begin, end - begin));
    node.kind = node.text.empty() ? YamlNode::Kind::kNull : YamlNode::Kind::kScalar;
    std::tie(node.line, node.column) = position_of(text_, begin);
    node.length = static_cast<int>(std::max<std::size_t>(node.text.size(), 1));
    return node;
  }

  // A word, or a list in brackets.
  std::optional<YamlNode> value(std::size_t begin, std::size_t end) {
    trim(begin, end);
    if (begin == end || text_[begin] != '[') return scalar(begin, end);
    if (end - begin < 2 || text_[end - 1] != ']') {
      report(begin, 1, "'[' is not closed");
      return std::nullopt;
    }
    YamlNode list = scalar(begin, end);
    list.kind = YamlNode::Kind::kSequence;
    list.text.clear();
    std::size_t inner_begin = begin + 1, inner_end = end - 1;
    trim(inner_begin, inner_end);
    while (inner_begin < inner_end) {
      std::size_t from = inner_begin, to = end_of_part(inner_begin, inner_end, ',');
      inner_begin = to + 1;
      trim(from, to);
      list.items.push_back(scalar(from, to));
    }
    return list;
  }

  std::optional<KeyItem> parse_item(std::size_t begin, std::size_t end) {
    trim(begin, end);
    if (begin == end) {
      report(begin, 1, "a key=value is missing here");
      return std::nullopt;
    }
    std::size_t at = begin;
    while (at < end && text_[at] != '=' && text_[at] != '<' && text_[at] != '>') ++at;
    if (at == end) {
      report(begin, end - begin,
             "'" + std::string(text_.substr(begin, end - begin)) + "' has no value",
             "write key=value,key=value,...");
      return std::nullopt;
    }
    std::size_t key_end = at;
    trim(begin, key_end);
    if (begin == key_end) {
      report(at, 1, "a key is missing here");
      return std::nullopt;
    }
    KeyItem item{scalar(begin, key_end), std::string(1, text_[at]), {}};
    ++at;
    if (item.op != "=" && at < end && text_[at] == '=') {
      item.op += '=';
      ++at;
    }
    for (std::size_t from = at; from <= end;) {
      const std::size_t to = end_of_part(from, end, '|');
      std::optional<YamlNode> node = value(from, to);
      if (!node) return std::nullopt;
      item.values.push_back(std::move(*node));
      from = to + 1;
    }
    return item;
  }

  std::string_view text_;
  std::string flag_;
  Diagnostics problems_;
};

}  // namespace

Result<std::vector<KeyItem>> parse_key_items(std::string_view text, const std::string& flag) {
  if (text.size() > kMostCharacters) return error_at({flag}, "longer than 64 KiB");
  if (first_invalid_utf8(text)) return error_at({flag}, "not UTF-8 text");
  return ItemParser(text, flag).run();
}

}  // namespace meshplan
