#pragma once
// YAML text (JSON is a subset of it) as a tree of values that know where they stand. Refused are:
// aliases and anchors, tags, several documents, keys that are not words, keys that appear twice,
// control characters, text that is not UTF-8, and nesting deeper than kMaxDepth.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace meshplan {

inline constexpr std::size_t kMaxDepth = 64;
inline constexpr std::size_t kMaxFileBytes = std::size_t{16} << 20;

struct YamlEntry;

struct YamlNode {
  enum class Kind { kNull, kScalar, kSequence, kMap };

  Kind kind = Kind::kNull;
  std::string text;                // of a scalar
  bool quoted = false;             // a scalar in quotes is text, never a number or a flag
  int line = 0;                    // from 1
  int column = 0;                  // from 1, in characters
  int length = 1;                  // characters that a caret underlines
  std::vector<YamlNode> items;     // of a sequence
  std::vector<YamlEntry> entries;  // of a map, in the order of the text

  // The value of a key of a map; null if there is none.
  [[nodiscard]] const YamlNode* find(std::string_view key) const;
};

// A key of a map and its value: a type of its own, since a pair of nodes needs the node complete.
struct YamlEntry {
  YamlNode first, second;
};

// The root of the only document. `file` is how diagnostics call the text.
Result<YamlNode> parse_yaml(std::string_view text, const std::string& file);

// The text as parse_yaml sees it: without byte order mark, lines ending in '\n'.
[[nodiscard]] std::string normalised_lines(std::string_view text);

// Line `number` (from 1) of a normalised text; empty beyond its end.
[[nodiscard]] std::string line_of(std::string_view text, int number);

// Offset of the first byte that is not part of valid UTF-8.
[[nodiscard]] std::optional<std::size_t> first_invalid_utf8(std::string_view text);

// Line and column (in characters) of a byte offset of a text.
[[nodiscard]] std::pair<int, int> position_of(std::string_view text, std::size_t offset);

}  // namespace meshplan
