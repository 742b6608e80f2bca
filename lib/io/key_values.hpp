#pragma once
// "tp=8,pp=16,stage_layers=[7,8,8,7]" and "tp<=8,schedule=1f1b|interleaved": items of the command
// line, with positions.
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "io/yaml_tree.hpp"

namespace meshplan {

struct KeyItem {
  YamlNode key;
  std::string op;                // =, <=, >=, < or >
  std::vector<YamlNode> values;  // alternatives, separated by '|'
};

// `flag` is how diagnostics call the text, for example "--strategy".
Result<std::vector<KeyItem>> parse_key_items(std::string_view text, const std::string& flag);

}  // namespace meshplan
