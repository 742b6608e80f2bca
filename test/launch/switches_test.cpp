// Options of Megatron-LM's continuous integration that stand for themselves, read and written.
#include "launch/megatron_reading.hpp"
#include "launch/plans.hpp"
#include "launch/targets.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

using Catch::Matchers::Contains;
using test::plan_of;
using test::small_run;

Strategy launched(const std::string& before, const std::string& options) {
  RunContext context;
  const Result<MegatronRun> run = read_megatron_run(
      "#!/bin/bash\n" + before +
          "torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 4 --hidden-size 512 "
          "--num-attention-heads 8 --bf16 " +
          options,
      "train.sh", context);
  INFO((run.ok() ? "" : to_text(run.errors())));
  REQUIRE(run.ok());
  return run->strategy;
}

bool says(const MegatronRun& run, std::string_view part) {
  return std::any_of(run.notes.begin(), run.notes.end(),
                     [&](const std::string& note) { return note.find(part) != std::string::npos; });
}

OptionEffect effect(const MegatronRun& run, std::string_view name) {
  for (const ReadOption& o : run.options) {
    if (o.name == name) return o.effect;
  }
  FAIL("not read");
  return OptionEffect::kNotModelled;
}

}  // namespace

TEST_CASE("deterministic training is of an option, attention's of Transformer Engine too") {
  CHECK_FALSE(launched("", "").runtime.deterministic_attention);
  const std::string set = "export NVTE_ALLOW_NONDETERMINISTIC_ALGO=0\n";
  CHECK(launched(set, "").runtime.deterministic_attention);
  CHECK_FALSE(launched(set, "").runtime.deterministic_mode);
  CHECK_FALSE(
      launched("export NVTE_ALLOW_NONDETERMINISTIC_ALGO=1\n", "").runtime.deterministic_attention);
  CHECK(launched("", "--deterministic-mode").runtime.deterministic_mode);
  CHECK(launched("", "--deterministic-mode").runtime.deterministic_attention);
}

TEST_CASE("a mask that the data loader makes is counted, and named where its copy shows") {
  const auto noted = [](const std::string& options, bool made = true) {
    RunContext context;
    const Result<MegatronRun> run = read_megatron_run(
        "torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 4 --hidden-size 512 "
        "--num-attention-heads 8 --bf16 --max-position-embeddings 8192 " +
            options,
        "train.sh", context);
    REQUIRE(run.ok());
    CHECK(run->strategy.runtime.create_attention_mask_in_dataloader == made);
    return says(*run, "makes a mask of");
  };
  CHECK(noted("--seq-length 4096 --micro-batch-size 2"));  // 32 MiB
  CHECK_FALSE(noted("--seq-length 4096"));
  CHECK_FALSE(noted("--seq-length 8192 --no-create-attention-mask-in-dataloader", false));
  // Files of other trainers become arguments of no program.
  const MegatronRun other = small_run("--seq-length 8192");
  CHECK_FALSE(says(other, "makes a mask of"));
  CHECK_FALSE(other.strategy.runtime.create_attention_mask_in_dataloader);
}

TEST_CASE("losses and gradients are looked at unless an option says otherwise") {
  const std::string off = "--no-check-for-nan-in-loss-and-grad";
  CHECK(small_run("").strategy.runtime.check_for_nan_in_loss_and_grad);
  const MegatronRun run = small_run(off);
  CHECK_FALSE(run.strategy.runtime.check_for_nan_in_loss_and_grad);
  CHECK(effect(run, off) == OptionEffect::kModelled);
}

TEST_CASE("switches of optimizer and loss are read") {
  CHECK(small_run("--calculate-per-token-loss").strategy.runtime.calculate_per_token_loss);
  CHECK(small_run("--overlap-param-gather-with-optimizer-step")
            .strategy.overlap.param_gather_with_optimizer_step);
  CHECK(small_run("--optimizer muon").strategy.runtime.layer_wise_param_layout);
  CHECK_FALSE(small_run("--optimizer muon --no-use-layer-wise-param-layout")
                  .strategy.runtime.layer_wise_param_layout);
  const std::string mixture = "--num-experts 8 --moe-router-topk 2 --squared-relu ";
  CHECK(says(small_run(mixture), "--use-fused-weighted-squared-relu"));
  CHECK_FALSE(says(small_run(mixture + "--use-fused-weighted-squared-relu"),
                   "--use-fused-weighted-squared-relu"));
}

TEST_CASE("what lies between steps, or is looked at twice, has no effect on them") {
  const std::string every = "--check-weight-hash-across-dp-replicas-interval";
  const MegatronRun run = small_run(every + " 10 --check-for-large-grads");
  CHECK(effect(run, every) == OptionEffect::kNoEffect);
  CHECK(effect(run, "--check-for-large-grads") == OptionEffect::kNoEffect);
  CHECK(says(run, "behind every 10 steps"));
  const auto left_out = [&](const std::string& dtype) {
    return effect(small_run("--megatron-fsdp-grad-comm-dtype " + dtype),
                  "--megatron-fsdp-grad-comm-dtype") == OptionEffect::kNotModelled;
  };
  CHECK_FALSE(left_out("fp32"));  // as gradients are summed
  CHECK(left_out("bf16"));
}

TEST_CASE("they are exported as they were") {
  const char* keys = GENERATE(
      "pp=2,vp=2,schedule=interleaved,overlap.param_gather_with_optimizer_step=true,"
      "runtime.calculate_per_token_loss=true",
      "optimizer=muon,runtime.layer_wise_param_layout=false",
      "tp=2,sequence_parallel=true,runtime.deterministic_mode=true,"
      "runtime.deterministic_attention=true,overlap.tp=false,kernels.fused_cross_entropy=false",
      "kernels.cuda_graph=layer,kernels.cuda_graph_warmup_steps=5",
      "runtime.check_for_nan_in_loss_and_grad=true");
  CAPTURE(keys);
  const LaunchPlan p = plan_of("llama-2-7b", "dgx-h100", 8, keys);
  const Result<MegatronRun> run =
      read_megatron_run(arguments_text(p, megatron_command(p)), "train.sh");
  INFO((run.ok() ? "" : to_text(run.errors())));
  REQUIRE(run.ok());
  for (const char* key :
       {"overlap.param_gather_with_optimizer_step", "runtime.calculate_per_token_loss",
        "runtime.layer_wise_param_layout", "runtime.deterministic_mode",
        "runtime.deterministic_attention", "runtime.create_attention_mask_in_dataloader",
        "runtime.check_for_nan_in_loss_and_grad", "kernels.cuda_graph_warmup_steps"}) {
    CAPTURE(key);
    CHECK(value_text(run->strategy, key) == value_text(p.strategy, key));
  }
}

TEST_CASE("activations of so many layers are offloaded as the option says, and read back") {
  const auto read = [](const std::string& options) { return small_run(options).strategy.offload; };
  CHECK_FALSE(read("--cpu-offloading-num-layers 0").activations);
  CHECK(read("--cpu-offloading-num-layers 2").activations);
  CHECK(read("--cpu-offloading-num-layers 2").activation_layers == 2);
  CHECK(read("--cpu-offloading-num-layers 3").activation_layers == 0);  // all it can
  const auto layers = [](const std::string& keys) {
    const LaunchPlan p = plan_of("llama-2-7b", "dgx-h100", 8, keys);
    return std::pair(arguments_text(p, megatron_command(p)), node_script(p, bridge_command(p)));
  };
  const auto [some, bridge] = layers("offload.activations=true,offload.activation_layers=5");
  CHECK_THAT(some, Contains("--cpu-offloading-num-layers 5"));
  CHECK_THAT(bridge, Contains("model.cpu_offloading_num_layers=5"));
  CHECK_THAT(bridge, Contains("model.cpu_offloading=true"));
  CHECK_THAT(layers("offload.activations=true").first, Contains("--cpu-offloading-num-layers 31"));
}

TEST_CASE("deterministic training sets what older releases ask for") {
  const LaunchCommand command =
      megatron_command(plan_of("llama-2-7b", "dgx-h100", 8,
                               "runtime.deterministic_mode=true,overlap.tp=false,"
                               "kernels.fused_cross_entropy=false"));
  const auto variable = [&](std::string_view name) {
    for (const auto& [key, value] : command.environment) {
      if (key == name) return value;
    }
    return std::string("-");
  };
  CHECK(variable("NCCL_ALGO") == "Ring");
  CHECK(variable("NVTE_ALLOW_NONDETERMINISTIC_ALGO") == "0");
}

}  // namespace meshplan
