// Whether a recipe's checkpoints are reentrant, in the ways that recipes say it.
#include "launch/recipe_import.hpp"
#include "support/catch.hpp"

using namespace meshplan;

namespace {

bool stops_early(const std::string& more) {
  const NamedText file{"axolotl.yaml",
                       "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 4096\n"
                       "micro_batch_size: 1\ngradient_accumulation_steps: 4\nbf16: auto\n"
                       "gradient_checkpointing: true\n" +
                           more};
  RunContext context;
  context.gpus = 4;
  const Result<SettingsRun> run = read_recipe_run({&file, 1}, context);
  if (!run) FAIL(to_text(run.errors()));
  CHECK(run->strategy.recompute == Recompute::kFull);
  return run->strategy.runtime.recompute_early_stop;
}

}  // namespace

TEST_CASE("checkpoints are reentrant where a recipe says so") {
  CHECK(stops_early(""));
  CHECK_FALSE(stops_early("gradient_checkpointing_kwargs:\n  use_reentrant: true\n"));
  CHECK(stops_early("gradient_checkpointing_kwargs: {use_reentrant: false}\n"));
  // As a script passes it.
  CHECK_FALSE(stops_early(R"(gradient_checkpointing_kwargs: '{"use_reentrant": true, "x": false}')"
                          "\n"));
  CHECK(stops_early(R"(gradient_checkpointing_kwargs: '{"use_reentrant": false, "x": true}')"
                    "\n"));
}
