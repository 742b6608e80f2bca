#pragma once
// TOML 1.0 text as the same tree of values with positions that YAML text gives (io/yaml_tree.hpp):
// tables are maps, strings are quoted scalars, numbers, flags and dates plain ones. Refused besides
// what TOML forbids: arrays of tables, and nesting deeper than kMaxDepth.
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "io/yaml_tree.hpp"

namespace meshplan {

// The table of the whole text. `file` is how diagnostics call it.
Result<YamlNode> parse_toml(std::string_view text, const std::string& file);

}  // namespace meshplan
