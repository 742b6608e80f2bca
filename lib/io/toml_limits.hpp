#pragma once
// How much a TOML text asks of its parser, before it is parsed: toml++ makes a table inside of a
// table for every part of a dotted key, and takes them apart again by recursion.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace meshplan {

// Tables and values of a text, roughly: no file that people write comes near it.
inline constexpr std::size_t kMostTomlValues = 20'000;

struct TomlExcess {
  std::size_t offset = 0;
  std::string message;
};

// The first place where brackets or the parts of a key nest deeper than kMaxDepth (yaml_tree.hpp),
// or where there are too many values. `text` is normalised.
[[nodiscard]] std::optional<TomlExcess> toml_excess(std::string_view text);

}  // namespace meshplan
