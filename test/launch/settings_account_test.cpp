// What becomes of settings of DeepSpeed's and torchtitan's files that nothing here counts.
#include <algorithm>
#include <string>

#include "io/toml_tree.hpp"
#include "launch/deepspeed_import.hpp"
#include "launch/plans.hpp"
#include "launch/torchtitan_import.hpp"
#include "support/catch.hpp"

using namespace meshplan;

namespace {

SettingsRun deepspeed(const std::string& more) {
  RunContext context;
  context.gpus = 8, context.model = test::shipped_model("llama-2-7b"), context.seq_len = 2048;
  const std::string text =
      "{\"train_micro_batch_size_per_gpu\": 1, \"gradient_accumulation_steps\": 2, " + more + "}";
  const std::vector<NamedText> files{{"ds.json", text}};
  const Result<SettingsRun> run = read_deepspeed_run(files, context);
  INFO((run.ok() ? "" : to_text(run.errors())));
  REQUIRE(run.ok());
  return *run;
}

SettingsRun torchtitan(const std::string& more) {
  const std::vector<NamedText> files{
      {"job.toml", "[model]\nname = \"llama3\"\nflavor = \"8B\"\n" + more}};
  const Result<SettingsRun> run = read_torchtitan_run(files, {.model = {}, .gpus = 8});
  INFO((run.ok() ? "" : to_text(run.errors())));
  REQUIRE(run.ok());
  return *run;
}

const ReadOption& option(const SettingsRun& run, const std::string& name) {
  const auto at = std::find_if(run.options.begin(), run.options.end(),
                               [&](const ReadOption& o) { return o.name == name; });
  REQUIRE(at != run.options.end());
  return *at;
}

}  // namespace

TEST_CASE("DeepSpeed: what acts and is not counted is named, with what is counted instead") {
  const SettingsRun run = deepspeed(
      "\"gradient_clipping\": 1.0, \"steps_per_print\": 10, \"flops_profiler\": {\"enabled\": "
      "false}, \"zero_optimization\": {\"stage\": 3, \"zero_quantized_weights\": true, "
      "\"stage3_max_live_parameters\": 1000000000, \"contiguous_gradients\": true}, \"kittens\": "
      "3");
  CHECK(option(run, "gradient_clipping").effect == OptionEffect::kNoEffect);
  CHECK(option(run, "steps_per_print").effect == OptionEffect::kNoEffect);
  CHECK(option(run, "flops_profiler.enabled").effect == OptionEffect::kNoEffect);
  CHECK(option(run, "zero_optimization.contiguous_gradients").effect == OptionEffect::kNoEffect);
  CHECK(option(run, "zero_optimization.stage").effect == OptionEffect::kModelled);
  const ReadOption& quantised = option(run, "zero_optimization.zero_quantized_weights");
  CHECK(quantised.effect == OptionEffect::kNotModelled);
  CHECK(quantised.what == "the estimate gathers weights in 16 bits");
  CHECK(option(run, "zero_optimization.stage3_max_live_parameters").effect ==
        OptionEffect::kNotModelled);
  CHECK(option(run, "kittens").effect == OptionEffect::kNotModelled);
  // Of whole weights stage 3's settings are no matter.
  const SettingsRun whole =
      deepspeed("\"zero_optimization\": {\"stage\": 2, \"stage3_max_live_parameters\": 1000000}");
  CHECK(option(whole, "zero_optimization.stage3_max_live_parameters").effect ==
        OptionEffect::kNoEffect);
}

TEST_CASE("DeepSpeed: buckets are as large as it is told, and sums travel as it is told") {
  const SettingsRun run = deepspeed(
      "\"zero_optimization\": {\"stage\": 2, \"reduce_bucket_size\": 200000000, "
      "\"allgather_bucket_size\": 500000000}");
  CHECK(run.strategy.runtime.zero_bucket_size == 300'000'000);  // two of one, one of the other
  CHECK(option(run, "zero_optimization.reduce_bucket_size").effect == OptionEffect::kModelled);
  const SettingsRun wide =
      deepspeed("\"bf16\": {\"enabled\": true}, \"communication_data_type\": \"fp32\"");
  CHECK(option(wide, "communication_data_type").effect == OptionEffect::kNotModelled);
}

TEST_CASE("torchtitan: what acts and is not counted is named") {
  if (!reads_toml()) return;
  const SettingsRun run = torchtitan(
      "[profiling]\nenable_profiling = true\n[fault_tolerance]\nenable = true\n"
      "[parallelism]\ntensor_parallel_degree = 2\ndisable_loss_parallel = true\n"
      "[activation_checkpoint]\nmode = \"full\"\nearly_stop = true\n"
      "[debug]\ndeterministic = true\n");
  CHECK(option(run, "profiling.enable_profiling").effect == OptionEffect::kNoEffect);
  CHECK(option(run, "fault_tolerance.enable").effect == OptionEffect::kNotModelled);
  CHECK(run.strategy.runtime.gathered_logits);
  CHECK(run.strategy.runtime.recompute_early_stop);
  CHECK(run.strategy.runtime.deterministic_mode);
  CHECK(option(run, "debug.deterministic").effect == OptionEffect::kModelled);
  // Its name before the two were told apart.
  CHECK(torchtitan("[training]\ncompile = true\n").strategy.runtime.fused_norm);
}
