#pragma once
// Recipes of programs that fine-tune, axolotl's and LLaMA-Factory's YAML -> model and strategy.
#include <span>
#include <string_view>

#include "base/result.hpp"
#include "launch/settings.hpp"

namespace meshplan {

// Whether the text has the key that every such recipe begins with: base_model of axolotl,
// model_name_or_path of LLaMA-Factory.
[[nodiscard]] bool is_recipe(std::string_view text);

// One recipe. The model is the shipped one of the name that it states, or the context's. Fails on a
// key that neither program has (unless lenient), on preference training, and where the model is not
// known.
[[nodiscard]] Result<SettingsRun> read_recipe_run(std::span<const NamedText> files,
                                                  const RunContext& context);

}  // namespace meshplan
