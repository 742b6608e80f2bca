#pragma once
// Recipes given as text, and what is said of them.
#include <algorithm>
#include <string>
#include <string_view>

#include "launch/recipe_import.hpp"

namespace meshplan::test {

inline NamedText file(std::string_view text) { return {"recipe.yaml", std::string(text)}; }

inline Result<SettingsRun> read(std::string_view text, const RunContext& context = {}) {
  const NamedText one = file(text);
  return read_recipe_run({&one, 1}, context);
}

inline std::string errors_of(std::string text) {
  const Result<SettingsRun> run = read(text);
  return run ? "none" : to_text(run.errors());
}

inline bool is_about(const ImportedRun& run, std::string_view name, OptionEffect effect) {
  return std::any_of(run.options.begin(), run.options.end(),
                     [&](const ReadOption& o) { return o.name == name && o.effect == effect; });
}

}  // namespace meshplan::test
