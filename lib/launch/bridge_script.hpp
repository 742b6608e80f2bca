#pragma once
// Scripts that start a recipe of Megatron-Bridge (scripts/training/run_recipe.py --recipe NAME)
// with fields of its configuration set on the command line.
#include <string>
#include <vector>

#include "launch/imported_run.hpp"
#include "launch/megatron_import.hpp"

namespace meshplan {

[[nodiscard]] bool starts_bridge_recipe(const ShellScript& script);

// "llama31_8b" of "llama31_8b_pretrain_config"; empty where the script does not say the recipe.
[[nodiscard]] std::string bridge_recipe_model(const ShellScript& script);

// The run, of the model in `context`. What the script does not set is the recipe's, which is not
// known: Megatron-LM's defaults stand for it, and that is said among what is assumed. Fails where a
// value is not known or a field none.
[[nodiscard]] Result<MegatronRun> read_bridge_script(const NamedText& file,
                                                     const RunContext& context);

}  // namespace meshplan
