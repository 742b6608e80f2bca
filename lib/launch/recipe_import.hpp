#pragma once
// Recipes of programs that fine-tune, axolotl's, LLaMA-Factory's and torchtune's YAML -> model and
// strategy.
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "launch/settings.hpp"

namespace meshplan {

// Whether the text has the key that every such recipe begins with: base_model of axolotl,
// model_name_or_path of LLaMA-Factory, a component of torchtune.models.
[[nodiscard]] bool is_recipe(std::string_view text);

// One recipe. The model is the shipped one of the name that it states, or the context's. Fails on a
// key that neither program has (unless lenient), on preference training, and where the model is not
// known.
[[nodiscard]] Result<SettingsRun> read_recipe_run(std::span<const NamedText> files,
                                                  const RunContext& context);

// A script that starts a program with Transformers' Trainer, with accelerate's YAML beside it or
// where the script names it.
[[nodiscard]] bool is_accelerate(std::string_view text);
[[nodiscard]] Result<SettingsRun> read_trainer_run(std::span<const NamedText> files,
                                                   const RunContext& context);
// ZeRO's stage by what people call DeepSpeed's files: zero3.json, ds_z2_config.json.
[[nodiscard]] std::optional<int> stage_of_name(const std::string& file);

[[nodiscard]] bool is_torchtune(std::string_view text);
[[nodiscard]] Result<SettingsRun> read_torchtune_recipe(const NamedText& file,
                                                        const RunContext& context);

}  // namespace meshplan
