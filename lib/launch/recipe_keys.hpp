#pragma once
// The keys of recipes that say nothing about a step, or something that the estimate leaves out, and
// the account of all of a recipe's.
#include <span>
#include <string>
#include <string_view>

#include "launch/settings.hpp"

namespace meshplan {

// A key that changes time or memory and that the estimate counts otherwise: what it does instead.
struct NotModelledKey {
  std::string_view key, instead;
};

// A key ends in '*' where all that begin so are meant.
struct RecipeKeys {
  std::span<const std::string_view> without_effect;
  std::span<const NotModelledKey> not_modelled;
};
[[nodiscard]] RecipeKeys trainer_keys();  // axolotl, LLaMA-Factory, programs with Transformers
[[nodiscard]] RecipeKeys torchtune_keys();
[[nodiscard]] RecipeKeys accelerate_keys();                                // of `accelerate launch`
[[nodiscard]] bool is_idle(const RecipeKeys& keys, std::string_view key);  // without effect
// What the estimate does instead; empty where that is not said.
[[nodiscard]] std::string_view instead_of(const RecipeKeys& keys, std::string_view key);
[[nodiscard]] bool is_off(const YamlNode& value);

// The context's model, or the shipped one of the name that `key` states; else a problem.
void take_model(Settings& settings, const std::string& key, const std::string& stated,
                const RunContext& context, SettingsRun& run);

// That documents count as full sequences, and what says otherwise.
void note_full_sequences(SettingsRun& run);

// Every key is modelled (it was read), named as without effect, named as counted otherwise, or
// unknown: a problem, unless lenient.
void account_recipe(Settings& settings, const RecipeKeys& keys, bool lenient, SettingsRun& run);

}  // namespace meshplan
