// Scripts that start recipes of Megatron-Bridge, read.
#include "launch/bridge_script.hpp"

#include <algorithm>
#include <array>

#include "launch/plans.hpp"
#include "launch/shell.hpp"
#include "launch/targets.hpp"
#include "spec/strategy_keys.hpp"

using namespace meshplan;
using Catch::Matchers::Contains;
using meshplan::test::plan_of;

namespace {

constexpr std::array kBridgeKeys{"tp",
                                 "pp",
                                 "vp",
                                 "cp",
                                 "cp_kind",
                                 "ep",
                                 "etp",
                                 "dp",
                                 "zero",
                                 "seq_len",
                                 "sequence_parallel",
                                 "micro_batch",
                                 "global_batch",
                                 "schedule",
                                 "stage_layers",
                                 "recompute",
                                 "recompute_layers",
                                 "precision",
                                 "grad_dtype",
                                 "order",
                                 "optimizer_dtype",
                                 "overlap.grad_reduce",
                                 "overlap.param_gather",
                                 "overlap.ep",
                                 "overlap.delay_wgrad_compute",
                                 "lora.rank",
                                 "lora.targets",
                                 "lora.dropout",
                                 "kernels.flex_dispatcher",
                                 "kernels.num_layers_at_start_in_bf16",
                                 "kernels.num_layers_at_end_in_bf16",
                                 "kernels.cuda_graph",
                                 "runtime.expandable_segments",
                                 "kernels.cuda_graph_modules",
                                 "offload.optimizer"};

Result<MegatronRun> read_started(const std::string& text, const RunContext& given = {}) {
  RunContext context = given;
  context.shell.variables["BRIDGE_PATH"] = "/bridge";
  context.shell.variables.try_emplace("RECIPE", "some_recipe");
  return read_bridge_script({"train.sh", text}, context);
}

std::string started_errors(const std::string& text) {
  RunContext context;
  context.model = test::shipped_model("llama-3.1-8b");
  const Result<MegatronRun> run = read_started(text, context);
  return run ? "none" : to_text(run.errors());
}

}  // namespace

TEST_CASE("a plan comes back from the script that is written for Megatron-Bridge") {
  struct Row {
    const char* model;
    std::int64_t gpus;
    const char* keys;
  };
  const auto row = GENERATE(values<Row>({
      {"llama-3.1-70b", 64, "tp=4,pp=4,vp=5,schedule=interleaved,sequence_parallel=true"},
      {"llama-3.1-70b", 64, "tp=4,pp=4,stage_layers=[19,21,21,19],recompute=selective"},
      {"llama-3.1-405b", 128, "tp=8,pp=16,sequence_parallel=true,overlap.tp=true,recompute=full"},
      {"llama-2-7b", 8, "pp=2,vp=2,schedule=interleaved,stage_layers=[15,17]"},
      {"llama-2-7b", 16, "zero=3,recompute=full,recompute_layers=[8]"},
      {"llama-2-7b", 8, "recompute=selective,recompute_modules=[layernorm,mlp]"},
      {"mixtral-8x7b", 64, "tp=2,sequence_parallel=true,pp=2,ep=8,cp=2,cp_kind=ulysses"},
      {"mixtral-8x7b", 64, "pp=2,vp=2,schedule=interleaved,ep=8,overlap.ep=true"},
      {"mixtral-8x7b", 64, "ep=8,overlap.ep=true,overlap.delay_wgrad_compute=true"},
      {"mixtral-8x7b", 64, "ep=8,kernels.flex_dispatcher=true"},
      {"mixtral-8x7b", 64,
       "ep=8,kernels.cuda_graph=layer,kernels.cuda_graph_modules=[attn,moe_router,moe_preprocess],"
       "runtime.expandable_segments=true"},
      {"qwen3-32b", 32, "tp=2,precision=fp8,optimizer_dtype=bf16"},
      {"qwen3-32b", 32,
       "tp=2,precision=fp8,kernels.num_layers_at_start_in_bf16=1,"
       "kernels.num_layers_at_end_in_bf16=1"},
      {"qwen3-32b", 32, "tp=2,precision=fp8,kernels.num_layers_at_end_in_bf16=4"},
      {"llama-3.1-8b", 8, "tp=2,lora.rank=16,lora.dropout=0.1,lora.targets=[linear_qkv]"},
      {"llama-3.1-8b", 8, "lora.rank=8"},
  }));
  CAPTURE(row.model, row.keys);
  const LaunchPlan p = plan_of(row.model, "dgx-h100", row.gpus, row.keys);
  const std::string text = node_script(p, bridge_command(p));
  CAPTURE(text);
  RunContext context;
  context.model = p.model;
  const Result<MegatronRun> run = read_started(text, context);
  INFO((run.ok() ? "" : to_text(run.errors())));
  REQUIRE(run.ok());
  CHECK(run->world_size == row.gpus);
  const Strategy read = complete(run->strategy, p.model, p.cluster);
  if (!p.strategy.recompute_modules.empty()) {
    CHECK(read.recompute_modules == p.strategy.recompute_modules);
  }
  if (p.strategy.sequence_parallel) CHECK(read.overlap.tp == p.strategy.overlap.tp);
  for (const char* key : kBridgeKeys) {
    CAPTURE(key);
    CHECK(value_text(read, key) == value_text(p.strategy, key));
  }
}

TEST_CASE("a recipe of precision says which layers it leaves in bf16") {
  RunContext context;
  context.model = test::shipped_model("llama-3.1-8b");
  const auto ends = [&](const std::string& precision) {
    const Result<MegatronRun> run = read_started(
        "torchrun --nproc-per-node 8 run_recipe.py --recipe a train.global_batch_size=32 " +
            precision + "\n",
        context);
    INFO((run.ok() ? "" : to_text(run.errors())));
    REQUIRE(run.ok());
    const Runtime& k = run->strategy.runtime;
    return std::pair{k.num_layers_at_start_in_bf16, k.num_layers_at_end_in_bf16};
  };
  using Ends = std::pair<std::int64_t, std::int64_t>;
  CHECK(ends("mixed_precision=bf16_with_fp8_current_scaling_mixed") == Ends{1, 1});
  CHECK(ends("mixed_precision=bf16-with-fp8-current-scaling-mixed") == Ends{1, 1});
  CHECK(ends("mixed_precision=nemotron_h_bf16_with_fp8_current_scaling_mixed") == Ends{2, 2});
  CHECK(ends("mixed_precision=nanov2_bf16_with_fp8_current_scaling_mixed") == Ends{2, 2});
  CHECK(ends("mixed_precision=nemotron_3_super_bf16_with_nvfp4_mixed") == Ends{0, 14});
  CHECK(ends("mixed_precision=bf16_with_nvfp4_mixed") == Ends{0, 0});
  CHECK(ends("mixed_precision=bf16_with_mxfp8_mixed") == Ends{0, 0});
  // The recipe's fields replace the model's.
  CHECK(ends("mixed_precision=bf16_with_mxfp8_mixed model.first_last_layers_bf16=true") ==
        Ends{0, 0});
  const std::string fp8 = "mixed_precision.fp8=hybrid mixed_precision.fp8_recipe=tensorwise ";
  CHECK(ends("mixed_precision.bf16=true " + fp8 +
             "mixed_precision.first_last_layers_bf16=true "
             "mixed_precision.num_layers_at_end_in_bf16=4") == Ends{0, 4});
}

TEST_CASE("fields of a precision act, are named, or are refused") {
  RunContext context;
  context.model = test::shipped_model("llama-3.1-8b");
  const auto read = [&](const std::string& fields) {
    return read_started(
        "torchrun --nproc-per-node 8 run_recipe.py --recipe a train.global_batch_size=32 "
        "mixed_precision.bf16=true mixed_precision.fp8=hybrid " +
            fields + "\n",
        context);
  };
  const Result<MegatronRun> run = read(
      "mixed_precision.fp8_param=true mixed_precision.fp8_wgrad=true "
      "mixed_precision.grad_reduce_in_fp32=false mixed_precision.autocast_enabled=false");
  INFO((run.ok() ? "" : to_text(run.errors())));
  REQUIRE(run.ok());
  CHECK(run->strategy.runtime.fp8_param_gather);
  CHECK(run->strategy.grad_dtype == Dtype::kBf16);
  const Result<MegatronRun> wide = read("mixed_precision.fp8_wgrad=false");
  REQUIRE(wide.ok());
  CHECK(std::any_of(wide->options.begin(), wide->options.end(),
                    [](const ReadOption& option) { return option.name == "--no-fp8-wgrad"; }));
  CHECK_FALSE(read("mixed_precision.fp8_reciep=tensorwise").ok());
}

TEST_CASE("a script's environment goes before what its recipe sets there") {
  RunContext context;
  context.model = test::shipped_model("llama-3.1-8b"), context.gpus = 8;
  const auto grows = [&](const std::string& first, const std::string& set) {
    const Result<MegatronRun> run =
        read_started(first + "torchrun run_recipe.py --recipe llama31_8b " + set, context);
    REQUIRE(run.ok());
    return run->strategy.runtime.expandable_segments;
  };
  const std::string name = "PYTORCH_CUDA_ALLOC_CONF", on = "expandable_segments:True";
  CHECK_FALSE(grows("", ""));
  CHECK(grows("export " + name + "=" + on + "\n", ""));
  CHECK(grows("", "env_vars." + name + "=" + on));
  CHECK_FALSE(grows("export " + name + "=max_split_size_mb:512\n", "env_vars." + name + "=" + on));
}

TEST_CASE("a recipe's model is known by its name") {
  const auto model_of = [](const std::string& recipe) {
    return bridge_recipe_model(read_shell("torchrun --nproc-per-node 8 run_recipe.py --recipe " +
                                          recipe + " model.tensor_model_parallel_size=2\n"));
  };
  CHECK(model_of("llama31_8b_pretrain_config") == "llama31_8b");
  CHECK(model_of("qwen3_30b_a3b_sft_8gpu_h100_bf16_config") == "qwen3_30b_a3b");
  CHECK(model_of("megatron.bridge.recipes.qwen.qwen3_8b_sft_config") == "qwen3_8b");
  CHECK(model_of("llama3_70b_peft_config") == "llama3_70b");
  CHECK(model_of("\"$RECIPE\"").empty());
  CHECK(starts_bridge_recipe(read_shell("torchrun x.py train.global_batch_size=8\n")));
  CHECK_FALSE(starts_bridge_recipe(read_shell("torchrun x.py --global-batch-size 8\n")));
  CHECK_FALSE(
      starts_bridge_recipe(read_shell("python x.py model.micro_batch_size=8\n")));  // NeMo 1
}

TEST_CASE("what a script of Megatron-Bridge sets acts, is named, or is refused") {
  RunContext context;
  context.model = test::shipped_model("llama-3.1-8b");
  const Result<MegatronRun> run = read_started(
      "torchrun --nproc-per-node 8 run_recipe.py --recipe a train.global_batch_size=32 "
      "+logger.log_interval=1 optimizer.lr=1e-4 ddp.check_for_nan_in_grad=false\n",
      context);
  INFO((run.ok() ? "" : to_text(run.errors())));
  REQUIRE(run.ok());
  CHECK(run->strategy.global_batch == 32);
  CHECK(std::any_of(run->options.begin(), run->options.end(),
                    [](const ReadOption& option) { return option.name == "--lr"; }));
  CHECK(std::any_of(run->options.begin(), run->options.end(), [](const ReadOption& option) {
    return option.name == "logger.log_interval" && option.effect == OptionEffect::kNoEffect;
  }));
  const std::string start = "torchrun --nproc-per-node 8 run_recipe.py --recipe a ";
  CHECK_THAT(started_errors(start + "model.tensor_model_parallel_siez=2\n"),
             Contains("there is no option --tensor-model-parallel-siez"));
  CHECK_THAT(started_errors(start + "train.global_batch_siez=2\n"),
             Contains("there is no option --global-batch-siez"));
  CHECK_THAT(started_errors(start + "train.global_batch_size=2 traim.micro_batch_size=2\n"),
             Contains("no section 'traim'"));
  CHECK_THAT(started_errors(start + "model.tensor_model_parallel_size=$TP\n"),
             Contains("nothing says what 'model.tensor_model_parallel_size' is"));
  CHECK_THAT(started_errors(start + "mixed_precision=bf8 train.global_batch_size=8\n"),
             Contains("no recipe of precisions 'bf8'"));
  CHECK_THAT(
      started_errors("torchrun --nproc-per-node 8 run_recipe.py --recipe llama3_8b_peft_config "
                     "train.global_batch_size=8\n"),
      Contains("train.sh:1:52") && Contains("the recipe trains adapters"));
  const Result<MegatronRun> open = read_started(start + "train.global_batch_size=8\n");
  REQUIRE_FALSE(open.ok());
  CHECK_THAT(to_text(open.errors()), Contains("the recipe decides the model"));
}
