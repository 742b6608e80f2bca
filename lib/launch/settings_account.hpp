#pragma once
// What becomes of each setting that DeepSpeed's and torchtitan's files state.
#include <functional>
#include <string_view>

#include "launch/recipe_keys.hpp"

namespace meshplan {

[[nodiscard]] RecipeKeys deepspeed_keys();   // DeepSpeed 0.19, runtime/config.py and zero/config.py
[[nodiscard]] RecipeKeys torchtitan_keys();  // v0.2.2, config/job_config.py

// Into run.options: what was read is modelled; of the others those are without effect that `keys`
// says to be, or `idle_here`. Settings that another account has are `elsewhere`.
struct SettingsAccount {
  RecipeKeys keys;
  std::string_view whose;
  std::function<bool(std::string_view)> idle_here, elsewhere;
};
void account_settings(const Settings& settings, const SettingsAccount& how, SettingsRun& run);

}  // namespace meshplan
