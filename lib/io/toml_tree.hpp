#pragma once
// TOML 1.0 text, read by toml++, as the same tree of values with positions that YAML text gives
// (io/yaml_tree.hpp): tables are maps, arrays of tables sequences of maps, strings quoted scalars,
// numbers, flags and dates plain ones. Refused besides what TOML forbids: what toml_limits.hpp
// counts, and tables of more than kMostTomlKeys.
#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "io/yaml_tree.hpp"

namespace meshplan {

// Readers look for keys one by one: no file that people write comes near it.
inline constexpr std::size_t kMostTomlKeys = 4096;

// Whether this program was built with toml++. Without it parse_toml says how to get it.
[[nodiscard]] bool reads_toml();

// The table of the whole text. `file` is how diagnostics call it.
Result<YamlNode> parse_toml(std::string_view text, const std::string& file);

}  // namespace meshplan
