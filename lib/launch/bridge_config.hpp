#pragma once
// The configuration that Megatron-Bridge writes beside its checkpoints (run_config.yaml) and prints
// where training begins: every field of every part, defaults too.
#include <string_view>

#include "base/result.hpp"
#include "io/yaml_tree.hpp"
#include "launch/imported_run.hpp"

namespace meshplan {

[[nodiscard]] bool is_bridge_config(std::string_view text);

// The configuration as Megatron-LM's arguments, each in the line where the YAML has it; names
// differ as the project's own guide says (docs/megatron-lm-to-megatron-bridge.md). LoRA comes as
// "--peft.dim" and the like. Fails where something is trained that neither says: other adapters,
// vision encoders.
[[nodiscard]] Result<NamedText> bridge_arguments(const NamedText& file);

// The same of fields that override a recipe's, as "section.field" makes a tree of them: the model
// is the recipe's, and a field that is not known is an option that is not known.
[[nodiscard]] Result<NamedText> bridge_overrides(const YamlNode& root, const std::string& file);

}  // namespace meshplan
