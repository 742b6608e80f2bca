// Precision in exports for Megatron-Bridge: what is written acts, and comes back.
#include "launch/bridge_precision.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "launch/bridge_script.hpp"
#include "launch/plans.hpp"
#include "launch/targets.hpp"
#include "spec/strategy_keys.hpp"

using namespace meshplan;
using Catch::Matchers::Contains;
using meshplan::test::plan_of;

namespace {

Result<MegatronRun> read_precision(const std::string& text) {
  RunContext context;
  context.model = test::shipped_model("llama-3.1-8b");
  context.shell.variables["BRIDGE_PATH"] = "/bridge";
  context.shell.variables["RECIPE"] = "some_recipe";
  return read_bridge_script({"train.sh", text}, context);
}

Result<MegatronRun> started_with(const std::string& overrides) {
  return read_precision(
      "torchrun --nproc-per-node 8 run_recipe.py --recipe a train.global_batch_size=32 " +
      overrides + "\n");
}

std::vector<std::string> written(const LaunchPlan& p) {
  const LaunchCommand command = bridge_command(p);
  std::vector<std::string> words;
  for (const auto& line : command.sections.at(0).lines) words.push_back(line.at(0));
  return words;
}

}  // namespace

TEST_CASE("every precision comes back from an export for Megatron-Bridge") {
  struct Base {
    const char* cluster;
    const char* keys;
  };
  const auto base =
      GENERATE(values<Base>({{"dgx-h100", "precision=bf16"},
                             {"dgx-h100", "precision=fp16"},
                             {"dgx-h100", "precision=fp8,kernels.fp8_recipe=delayed"},
                             {"dgx-h100", "precision=fp8,kernels.fp8_recipe=tensorwise"},
                             {"dgx-h100", "precision=fp8,kernels.fp8_recipe=blockwise"},
                             {"dgx-b200", "precision=fp8,kernels.fp8_recipe=mxfp8"},
                             {"dgx-b200", "precision=nvfp4"}}));
  const std::string keys = base.keys;
  const bool few_bits = keys.find("16") == std::string::npos;
  const bool fp8 = keys.find("fp8") != std::string::npos;
  const std::string own = keys == "precision=fp16" ? "fp16" : "bf16";
  const bool attention = GENERATE(false, true);
  const bool gathers = GENERATE(false, true);
  const auto ends = GENERATE(values<std::pair<int, int>>({{0, 0}, {1, 1}, {2, 2}, {0, 14}}));
  if ((attention && !fp8) || (!few_bits && (gathers || ends.first + ends.second > 0))) return;
  for (const std::string& gradients : {std::string("fp32"), own}) {
    std::string all = "tp=2," + keys + ",grad_dtype=" + gradients;
    if (attention) all += ",kernels.fp8_attention=true";
    if (gathers) all += ",runtime.fp8_param_gather=true";
    if (few_bits) {
      all += ",kernels.num_layers_at_start_in_bf16=" + std::to_string(ends.first) +
             ",kernels.num_layers_at_end_in_bf16=" + std::to_string(ends.second);
    }
    const LaunchPlan p = plan_of("llama-3.1-8b", base.cluster, 8, all);
    const std::string text = node_script(p, bridge_command(p));
    CAPTURE(all, text);
    const Result<MegatronRun> run = read_precision(text);
    INFO((run.ok() ? "" : to_text(run.errors())));
    REQUIRE(run.ok());
    CHECK(std::none_of(run->options.begin(), run->options.end(), [](const ReadOption& option) {
      return option.name.starts_with("model.") || option.name.starts_with("ddp.");
    }));
    const Strategy read = complete(run->strategy, p.model, p.cluster);
    for (const char* key :
         {"precision", "grad_dtype", "kernels.fp8_attention", "runtime.fp8_param_gather",
          "kernels.num_layers_at_start_in_bf16", "kernels.num_layers_at_end_in_bf16"}) {
      CAPTURE(key);
      CHECK(value_text(read, key) == value_text(p.strategy, key));
    }
    const Architecture a = p.cluster.device.architecture;
    CHECK(scaling_recipe(read, a) == scaling_recipe(p.strategy, a));
  }
}

TEST_CASE("a recipe's name is written where it says all of the precision") {
  const auto words = [](const std::string& keys) {
    return written(plan_of("llama-3.1-8b", "dgx-h100", 8, keys));
  };
  const auto holds = [](const std::vector<std::string>& all, const char* word) {
    return std::find(all.begin(), all.end(), word) != all.end();
  };
  // Fields of ddp and model would be replaced by those of the recipe.
  const auto replaced = [](const std::vector<std::string>& all) {
    return std::any_of(all.begin(), all.end(), [](const std::string& word) {
      return is_precision_field(word.substr(0, word.find('=')));
    });
  };
  const auto plain = words("precision=bf16");
  CHECK(holds(plain, "mixed_precision=bf16_mixed"));
  CHECK_FALSE(replaced(plain));
  const auto narrow = words("precision=bf16,grad_dtype=bf16");
  CHECK(holds(narrow, "mixed_precision.bf16=true"));
  CHECK(holds(narrow, "mixed_precision.grad_reduce_in_fp32=false"));
  CHECK(holds(narrow, "mixed_precision.fp8=null"));
  CHECK_FALSE(replaced(narrow));
  CHECK(holds(words("precision=fp16,grad_dtype=fp16"), "mixed_precision=fp16_mixed"));
  CHECK(holds(words("precision=fp16,grad_dtype=fp32"), "mixed_precision.fp16=true"));
  const std::string delayed = "precision=fp8,kernels.fp8_recipe=delayed,grad_dtype=fp32";
  CHECK(holds(words(delayed), "mixed_precision.fp8_param_gather=false"));
  CHECK(holds(words(delayed + ",runtime.fp8_param_gather=true"),
              "mixed_precision=bf16_with_fp8_delayed_scaling_mixed"));
  const auto attention =
      words(delayed + ",runtime.fp8_param_gather=true,kernels.fp8_attention=true");
  CHECK(holds(attention, "mixed_precision.fp8_dot_product_attention=true"));
  CHECK_FALSE(replaced(attention));
  // Without a recipe nothing is replaced.
  const auto none = words("precision=fp32");
  CHECK(holds(none, "mixed_precision=null"));
  CHECK(holds(none, "ddp.grad_reduce_in_fp32=true"));
}

TEST_CASE(
    "[F-MEM-14] Megatron-Bridge's optimizer holds remainders where its recipe of fp8 lets it") {
  const auto export_of = [](const std::string& keys) {
    return written(plan_of("llama-3.1-8b", "dgx-h100", 8, keys + ",optimizer_dtype=bf16"));
  };
  const auto holds = [](const std::vector<std::string>& all, const char* word) {
    return std::find(all.begin(), all.end(), word) != all.end();
  };
  // mixed_precision's fp8_recipe is tensorwise without fp8 too.
  const auto bf16 = export_of("precision=bf16");
  CHECK(holds(bf16, "mixed_precision.fp8_recipe=delayed"));
  CHECK(holds(bf16, "mixed_precision.fp8=null"));
  const auto whole = export_of("precision=bf16,runtime.param_remainders=false");
  CHECK(holds(whole, "mixed_precision=bf16_mixed"));
  CHECK(holds(whole, "optimizer.store_param_remainders=false"));
  for (const char* keys :
       {"precision=bf16", "precision=bf16,runtime.param_remainders=false", "precision=fp16",
        "precision=fp8,kernels.fp8_recipe=delayed",
        "precision=fp8,kernels.fp8_recipe=delayed,runtime.param_remainders=false",
        "precision=fp8,kernels.fp8_recipe=tensorwise"}) {
    for (const char* moments :
         {",optimizer_dtype=bf16", ",runtime.precision_aware_optimizer=true"}) {
      const LaunchPlan p = plan_of("llama-3.1-8b", "dgx-h100", 8, std::string(keys) + moments);
      const std::string text = node_script(p, bridge_command(p));
      CAPTURE(keys, moments, text);
      const Result<MegatronRun> run = read_precision(text);
      INFO((run.ok() ? "" : to_text(run.errors())));
      REQUIRE(run.ok());
      const Strategy read = complete(run->strategy, p.model, p.cluster);
      CHECK(is_precision_aware(read));
      CHECK(holds_param_remainders(read) == holds_param_remainders(p.strategy));
      CHECK(engine_holds_masters(read) == engine_holds_masters(p.strategy));
      CHECK(read.runtime.precision_aware_optimizer == p.strategy.runtime.precision_aware_optimizer);
    }
  }
  const auto named = started_with(
      "mixed_precision=bf16_mixed optimizer.use_precision_aware_optimizer=true "
      "ddp.use_distributed_optimizer=true");
  REQUIRE(named.ok());
  CHECK(is_precision_aware(named->strategy));
  CHECK_FALSE(named->strategy.runtime.param_remainders);
}

TEST_CASE(
    "an activation's input in 8 bits is Megatron-Bridge's, and read back from its overrides") {
  const LaunchPlan p =
      plan_of("llama-3.1-8b", "dgx-h100", 8, "tp=2,kernels.activation_func_fp8_input_store=true");
  CHECK(target_of(p.strategy, p.model) == Target::kMegatronBridge);
  const std::string text = node_script(p, bridge_command(p));
  CAPTURE(text);
  CHECK_THAT(text, Contains("model.activation_func_fp8_input_store=true"));
  const Result<MegatronRun> run = read_precision(text);
  INFO((run.ok() ? "" : to_text(run.errors())));
  REQUIRE(run.ok());
  CHECK(run->strategy.runtime.activation_func_fp8_input_store);
  const auto titan = launch_files(LaunchFormat::kTorchtitan, p, "test");
  REQUIRE_FALSE(titan.ok());
  CHECK_THAT(to_text(titan.errors()), Contains("activation_func_fp8_input_store"));
}

TEST_CASE("fields that mixed_precision replaces are named, and do not act") {
  const auto wide = started_with(
      "mixed_precision=bf16_mixed ddp.grad_reduce_in_fp32=false "
      "model.fp8_dot_product_attention=true");
  INFO((wide.ok() ? "" : to_text(wide.errors())));
  REQUIRE(wide.ok());
  CHECK(wide->strategy.grad_dtype == Dtype::kFp32);
  CHECK_FALSE(wide->strategy.runtime.fp8_attention);
  for (const char* name : {"ddp.grad_reduce_in_fp32", "model.fp8_dot_product_attention"}) {
    CAPTURE(name);
    CHECK(std::any_of(wide->options.begin(), wide->options.end(), [&](const ReadOption& option) {
      return option.name == name && option.effect == OptionEffect::kNoEffect;
    }));
  }
  CHECK(started_with("mixed_precision=fp16_mixed")->strategy.grad_dtype == Dtype::kFp16);
  CHECK(started_with("mixed_precision=bf16_with_nvfp4_mixed")->strategy.runtime.fp8_param_gather);
  // Every recipe has one, of its own where the script names none.
  CHECK(started_with("ddp.grad_reduce_in_fp32=false")->options.size() ==
        started_with("model.fp8_param=true")->options.size());
  const auto none = started_with(
      "mixed_precision=null model.bf16=true "
      "ddp.grad_reduce_in_fp32=false");
  REQUIRE(none.ok());
  CHECK(none->strategy.precision == Precision::kBf16);
  CHECK(none->strategy.grad_dtype == Dtype::kBf16);
  CHECK_FALSE(is_precision_field("model.fp8_output_proj"));
  CHECK_FALSE(is_precision_field("model.recompute_granularity"));
  CHECK_FALSE(is_precision_field("train.bf16"));
}
