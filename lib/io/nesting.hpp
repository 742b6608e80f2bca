#pragma once
// How much a YAML text asks of its parser, before it is parsed: the parser recurses, and its
// scanner keeps every token of an open bracket, so that a few megabytes of '[' or of "1," would
// exhaust the stack, the memory or the patience.
#include <cstddef>
#include <optional>
#include <string_view>

namespace meshplan {

// Values and keys of a text, roughly: a plans file of a hundred plans has half as many.
inline constexpr std::size_t kMostMarks = 300'000;
// Bytes of one value.
inline constexpr std::size_t kLongestText = std::size_t{64} << 10;

enum class Excess { kDepth, kValues, kText };

struct ExcessAt {
  std::size_t offset = 0;
  Excess what = Excess::kDepth;
};

// The first place where brackets or indentation nest deeper than `limit`, where there are too many
// values, or where one is too long.
[[nodiscard]] std::optional<ExcessAt> find_excess(std::string_view text, std::size_t limit);

}  // namespace meshplan
