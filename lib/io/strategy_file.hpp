#pragma once
// Strategies as key=value text or files.
#include <set>
#include <string>

#include "base/result.hpp"
#include "io/yaml_reader.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

struct StrategyText {
  Strategy strategy;            // dp is 0 where the text does not state it
  std::set<std::string> given;  // the keys that the text states, dotted: "overlap.tp"
};

// As load_strategy (io/load.hpp), and which keys were stated. `flag` names key=value text in
// diagnostics.
Result<StrategyText> read_strategy(const std::string& text_or_path, const Strategy& defaults,
                                   const std::string& flag = "--strategy");

// Keys of `document` (a map whose keys may be nested or dotted) over the framework's preset.
[[nodiscard]] StrategyText read_strategy(Document& document, const Strategy& defaults);

bool read_value(Document& d, const std::string& key, const YamlNode& node, RankOrder& target);
// One name or a list of them, by any of lora_targets()'s names.
bool read_value(Document& d, const std::string& key, const YamlNode& node, LoraTargets& target);
// Their names must be known, an old name of a release is none of a framework's, and a release may
// be of any framework.
// A list of modules, or one of them.
bool read_value(Document& d, const std::string& key, const YamlNode& node,
                RecomputeModules& target);
bool read_value(Document& d, const std::string& key, const YamlNode& node,
                CudaGraphModules& target);
bool read_value(Document& d, const std::string& key, const YamlNode& node, OffloadModules& target);
bool read_value(Document& d, const std::string& key, const YamlNode& node, FrozenParts& target);
bool read_value(Document& d, const std::string& key, const YamlNode& node, Framework& target);
bool read_value(Document& d, const std::string& key, const YamlNode& node, Release& target);

}  // namespace meshplan
