#pragma once
// Plans that were written as a recipe, read again.
#include "launch/recipe_import.hpp"
#include "plans.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan::test {

// The recipe says every key of the plan, and whatever it says acts.
inline void check_comes_back(const LaunchPlan& plan, const std::string& text,
                             const std::string& name) {
  CAPTURE(text);
  const NamedText file{name, text};
  RunContext context;
  context.gpus = num_gpus(plan.strategy);
  const Result<SettingsRun> run = read_recipe_run({&file, 1}, context);
  if (!run) FAIL(to_text(run.errors()));
  CHECK(run->model.name == plan.model.name);
  const Strategy read = complete(run->strategy, plan.model, plan.cluster);
  for (const std::string_view key : strategy_keys()) {
    CAPTURE(key);
    CHECK(value_text(read, key) == value_text(plan.strategy, key));
  }
  for (const ReadOption& option : run->options) {
    CAPTURE(option.name);
    CHECK(option.effect != OptionEffect::kNotModelled);
  }
}

}  // namespace meshplan::test
