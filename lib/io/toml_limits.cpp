#include "io/toml_limits.hpp"

#include <algorithm>

#include "io/yaml_tree.hpp"

namespace meshplan {
namespace {

// Behind the string whose quote stands at `at`; the text's end where it is not closed.
std::size_t behind_string(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const std::string triple(3, quote);
  const bool several_lines = text.substr(at).starts_with(triple);
  const std::string_view close = several_lines ? std::string_view(triple) : text.substr(at, 1);
  at += close.size();
  while (at < text.size() && !text.substr(at).starts_with(close)) {
    if (text[at] == '\n' && !several_lines) return at;
    at += quote == '"' && text[at] == '\\' ? 2 : 1;
  }
  at += close.size();
  // Up to two quotes may stand before the three that close.
  for (int i = 0; i < 2 && several_lines && at < text.size() && text[at] == quote; ++i) ++at;
  return std::min(at, text.size());
}

}  // namespace

std::optional<TomlExcess> toml_excess(std::string_view text) {
  std::size_t at = 0, brackets = 0, dots = 0, values = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      at = behind_string(text, at);
      continue;
    }
    if (c == '#') {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    if (c == '[' || c == '{') ++brackets;
    if ((c == ']' || c == '}') && brackets > 0) --brackets;
    if (c == '.') {
      ++dots;
    } else if (std::string_view("\n=,[{").find(c) != std::string_view::npos) {
      dots = 0;
    }
    // A table's own bracket or sign stands for it, an element's comma or bracket for the element.
    if (c == '=' || c == ',' || c == '[') ++values;
    if (brackets > kMaxDepth || dots >= kMaxDepth) return TomlExcess{at, "this nests too deep"};
    if (values > kMostTomlValues) {
      return TomlExcess{
          at, "these are more than " + std::to_string(kMostTomlValues) + " tables and values"};
    }
    ++at;
  }
  return std::nullopt;
}

}  // namespace meshplan
