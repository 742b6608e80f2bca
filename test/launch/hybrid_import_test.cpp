// Hybrids in Megatron-LM's arguments, as its functional tests write them
// (tests/functional_tests/test_cases/hybrid).
#include <string>

#include "frameworks/target.hpp"
#include "launch/megatron_import.hpp"
#include "launch/plans.hpp"
#include "launch/targets.hpp"
#include "support/catch.hpp"

using namespace meshplan;

namespace {

const std::string kSizes =
    "torchrun --nproc-per-node 8 pretrain_mamba.py --hidden-size 1024 --num-attention-heads 16 "
    "--group-query-attention --num-query-groups 8 --seq-length 1024 --micro-batch-size 4 "
    "--global-batch-size 32 --vocab-size 50257 --bf16 ";

MegatronRun read(const std::string& more) {
  const auto run = read_megatron_run(kSizes + more, "train.sh");
  if (!run.ok()) FAIL(to_text(run.errors()));
  return *run;
}

std::string refused(const std::string& more) {
  const auto run = read_megatron_run(kSizes + more, "train.sh");
  return run.ok() ? "read" : to_text(run.errors());
}

}  // namespace

TEST_CASE("a hybrid's pattern says its layers, with Megatron-LM's defaults of Mamba") {
  const MegatronRun run = read("--num-layers 6 --hybrid-override-pattern M-M*-M --is-hybrid-model");
  const ModelSpec& m = run.model;
  CHECK(m.num_layers == 6);
  const Mamba2Spec mamba{.num_heads = 32, .head_dim = 64, .state_size = 128, .num_groups = 8};
  CHECK(layer_spec(m, 0) == LayerSpec{mamba, NoneSpec{}});
  CHECK(layer_spec(m, 1) == LayerSpec{NoneSpec{}, DenseMlpSpec{4096}});
  CHECK(layer_spec(m, 3) == LayerSpec{AttentionSpec{16, 8, 64, 0}, NoneSpec{}});
}

TEST_CASE("a hybrid's stack of layers is what its pattern says, another is left out") {
  const auto effect = [](const std::string& spec) {
    const MegatronRun run = read("--num-layers 2 --hybrid-override-pattern M- --spec " + spec);
    for (const ReadOption& option : run.options) {
      if (option.name == "--spec") return option.effect;
    }
    return OptionEffect::kNoEffect;
  };
  CHECK(effect("megatron.core.models.mamba.mamba_layer_specs mamba_stack_spec") ==
        OptionEffect::kModelled);
  CHECK(effect("my.specs own_stack_spec") == OptionEffect::kNotModelled);
}

TEST_CASE("a hybrid's pattern says its stages and its passes of multi-token prediction") {
  const MegatronRun run = read(
      "--hybrid-layer-pattern 'M-M-|M*E-/*E/*E' --pipeline-model-parallel-size 2 --num-experts 8 "
      "--moe-ffn-hidden-size 512 --moe-latent-size 256 --mtp-num-layers 2 --mtp-use-repeated-layer "
      "--mamba-num-heads 16 --mamba-state-dim 64 --mamba-num-groups 4 --mamba-head-dim 32");
  const ModelSpec& m = run.model;
  CHECK(m.num_layers == 8);
  CHECK(run.strategy.stage_layers == std::vector<std::int64_t>{4, 4});
  const Mamba2Spec mamba{.num_heads = 16, .head_dim = 32, .state_size = 64, .num_groups = 4};
  CHECK(layer_spec(m, 0).mixer == Mixer{mamba});
  CHECK(experts_of(layer_spec(m, 6))->latent_size == 256);
  CHECK(m.mtp_layers == 2);
  CHECK(m.mtp_shared);
  REQUIRE(m.mtp_layer.has_value());
  CHECK(has_mixer(*m.mtp_layer));
  CHECK(experts_of(*m.mtp_layer) != nullptr);
}

TEST_CASE("linear attention takes all layers but every n-th") {
  const MegatronRun run = read(
      "--num-layers 6 --linear-attention-type gated_delta_net --linear-attention-freq 3 "
      "--linear-key-head-dim 64 --linear-value-head-dim 64 --linear-num-key-heads 4 "
      "--linear-num-value-heads 8 --attention-output-gate --rotary-percent 0.5");
  const GatedDeltaNetSpec delta{4, 8, 64, 64, 4, 0};
  for (std::int64_t i = 0; i < 6; ++i) {
    const LayerSpec layer = layer_spec(run.model, i);
    CHECK((layer.mixer == Mixer{delta}) == (i % 3 != 2));
    CHECK(layer.feed_forward == FeedForward{DenseMlpSpec{4096}});
  }
  CHECK(std::get<AttentionSpec>(layer_spec(run.model, 2).mixer).output_gate);
  CHECK(run.model.rotary_percent == 0.5);
  const MegatronRun listed = read(
      "--num-layers 4 --linear-attention-type gated_delta_net --linear-attention-freq "
      "'[1,0]*2'");
  CHECK(std::holds_alternative<GatedDeltaNetSpec>(layer_spec(listed.model, 2).mixer));
  CHECK(std::holds_alternative<AttentionSpec>(layer_spec(listed.model, 3).mixer));
}

TEST_CASE("hyper-connections are read by either name, with what of them is recomputed") {
  const MegatronRun main = read(
      "--num-layers 4 --enable-mhc-connections --mhc-num-residual-streams 2 "
      "--mhc-sinkhorn-iterations 5");
  CHECK(main.model.mhc_num_residual_streams == 2);
  CHECK(main.model.mhc_sinkhorn_iterations == 5);
  CHECK_FALSE(main.strategy.runtime.fused_mhc);
  const MegatronRun dev = read(
      "--num-layers 4 --enable-hyper-connections --num-residual-streams 8 --use-fused-mhc "
      "--recompute-granularity selective --recompute-modules mhc --mhc-recompute-layer-num 2");
  CHECK(dev.model.mhc_num_residual_streams == 8);
  CHECK(dev.strategy.runtime.fused_mhc);
  CHECK_FALSE(dev.strategy.runtime.fp32_mhc);
  CHECK(dev.strategy.recompute_modules == RecomputeModules{RecomputeModule::kMhc});
  CHECK(dev.strategy.runtime.mhc_recompute_layers == 2);
  CHECK_FALSE(main.strategy.runtime.fp32_mhc);
  CHECK(read("--num-layers 4 --enable-hyper-connections").strategy.runtime.fp32_mhc);
  CHECK(read("--num-layers 4 --num-residual-streams 8").model.mhc_num_residual_streams == 1);
}

TEST_CASE("hybrids that cannot be described are refused where they are said") {
  CHECK(refused("--hybrid-layer-pattern MXM").find("'X' is no layer of a hybrid pattern") !=
        std::string::npos);
  CHECK(refused("--hybrid-layer-pattern ME").find("no section 'experts'") != std::string::npos);
  CHECK(refused("--num-layers 4 --is-hybrid-model").find("nothing says which layers are Mamba") !=
        std::string::npos);
  CHECK(refused("--num-layers 4 --linear-attention-type gated_delta_net --linear-attention-freq "
                "'[1,0]'")
            .find("says nothing of 4 layers") != std::string::npos);
}

TEST_CASE("an exported hybrid is read back, with its stages and prediction") {
  struct Row {
    const char* model;
    std::int64_t gpus;
    const char* keys;
  };
  const auto row = GENERATE(values<Row>(
      {{"nemotron-h-56b", 64, "tp=8,sequence_parallel=true,seq_len=8192"},
       {"nemotron-h-56b", 64, "tp=4,pp=4,sequence_parallel=true,stage_layers=[28,30,31,29]"},
       {"nemotron-3-nano-30b-a3b", 64, "pp=2,vp=2,schedule=interleaved,ep=8"},
       {"nemotron-3-super-120b-a12b", 128, "pp=4,ep=8,stage_layers=[24,22,22,20]"}}));
  INFO(row.model << " " << row.keys);
  const LaunchPlan p = test::plan_of(row.model, "dgx-h100", row.gpus, row.keys);
  CHECK(is_megatron_hybrid(p.model));
  const LaunchCommand command = megatron_command(p);
  CHECK(command.program.find("pretrain_hybrid.py") != std::string::npos);
  const Result<MegatronRun> run = read_megatron_run(arguments_text(p, command), "train.sh");
  if (!run.ok()) FAIL(to_text(run.errors()));
  CHECK(run->model.layers == p.model.layers);
  CHECK(run->model.mtp_layer == p.model.mtp_layer);
  CHECK(run->model.mtp_layers == p.model.mtp_layers);
  CHECK(run->strategy.vp == p.strategy.vp);
  if (p.strategy.pp > 1) CHECK(run->strategy.stage_layers == p.strategy.stage_layers);
}

TEST_CASE("what Megatron-LM's arguments do not say of a model is refused by name") {
  const auto refused = [](const std::string& model, const std::string& keys) {
    const LaunchPlan p = test::plan_of(model, "dgx-h100", 64, keys);
    return to_text(
        target_findings(Target::kMegatron, p.strategy, p.model, p.cluster).diagnostics());
  };
  CHECK(refused("gemma-3-27b", "tp=4").find("vision encoder") != std::string::npos);
  CHECK(refused("gemma-3-27b", "tp=4").find("norms behind attention") != std::string::npos);
  CHECK(refused("deepseek-v3.2", "ep=8,pp=4").find("index or output gate") != std::string::npos);
  CHECK(refused("qwen3-next-80b-a3b", "ep=8").find("'layers' of different sizes") !=
        std::string::npos);
  CHECK(refused("minimax-m2", "ep=8").empty());
}
