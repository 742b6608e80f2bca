// What makes a strategy illegal: one row per rule, spoiling a legal strategy.
#include <algorithm>

#include "frameworks/preset.hpp"
#include "spec/findings.hpp"
#include "spec/legal.hpp"
#include "spec/strategy.hpp"
#include "support/catch.hpp"

namespace meshplan {

TEST_CASE("A legal strategy breaks no rule") {
  CHECK(to_text(validate(legal(), model(), cluster(64))).empty());
  Strategy s = legal();
  s.ep = 4;
  CHECK(to_text(validate(s, experts(), cluster(64))).empty());
  s.etp = 2;
  CHECK(to_text(validate(s, experts(), cluster(64))).empty());
}

TEST_CASE("Rules of devices, heads and widths") {
  const auto row = GENERATE(values<RuleCase>({
      {"product", [](Strategy& s, ModelSpec&, ClusterSpec&) { s.dp = 4; },
       "error: tp * pp * cp * dp = 4 * 2 * 1 * 4 = 32 devices, but the cluster has 64\n"
       "  hint: dp=8 would use all of them\n"},
      {"too many",
       [](Strategy& s, ModelSpec&, ClusterSpec& c) {
         s.global_batch = 8;
         c = cluster(8);
       },
       "error: tp * pp * cp * dp = 4 * 2 * 1 * 8 = 64 devices, but the cluster has 8\n"
       "  hint: dp=1 would use all of them\n"},
      {"heads",
       [](Strategy&, ModelSpec& m, ClusterSpec&) {
         m.num_attention_heads = m.num_query_groups = 30;
       },
       "error: 'tp' must divide the 30 attention heads, got 4\n"
       "error: 'tp' must divide the 30 query groups or be a multiple of them, got 4\n"},
      {"groups",
       [](Strategy&, ModelSpec& m, ClusterSpec&) {
         m.num_attention_heads = 36, m.num_query_groups = 6;
       },
       "error: 'tp' must divide the 6 query groups or be a multiple of them, got 4\n"},
      {"ffn", [](Strategy&, ModelSpec& m, ClusterSpec&) { m.ffn_hidden_size = 10'002; },
       "error: 'tp' must divide the 10002 columns of 'ffn_hidden_size', got 4\n"},
      {"experts of a dense model", [](Strategy& s, ModelSpec&, ClusterSpec&) { s.ep = 2; },
       "error: 'ep' is 2, but the model has no experts\n  hint: ep=1\n"},
      {"etp of a dense model", [](Strategy& s, ModelSpec&, ClusterSpec&) { s.etp = 2; },
       "error: 'etp' is 2, but the model has no experts\n  hint: etp=1\n"},
  }));
  INFO(row.why);
  CHECK(text_after(row) == row.message);
}

TEST_CASE("Fewer query groups than tensor ranks are copied, in whole copies") {
  Strategy s = legal();
  ModelSpec m = model();
  m.num_query_groups = 2;
  CHECK(validate(s, m, cluster(64)).empty());
  m.num_query_groups = 1;
  CHECK(validate(s, m, cluster(64)).empty());
}

TEST_CASE("Rules of experts") {
  const auto row = GENERATE(values<RuleCase>({
      {"ep", [](Strategy& s, ModelSpec& m, ClusterSpec&) { m = experts(), s.ep = 16; },
       "error: 'ep' must divide the 8 experts, got 16\n"},
      {"etp width",
       [](Strategy& s, ModelSpec& m, ClusterSpec&) {
         m = experts(), m.moe->expert_ffn_hidden_size = 1023, s.etp = 2;
       },
       "error: 'etp' must divide the 1023 columns of 'moe.expert_ffn_hidden_size', got 2\n"},
      {"shared width",
       [](Strategy&, ModelSpec& m, ClusterSpec&) {
         m = experts(), m.moe->shared_expert_ffn_hidden_size = 1022;
       },
       "error: 'tp' must divide the 1022 columns of 'moe.shared_expert_ffn_hidden_size', got 4\n"},
      {"etp over tp", [](Strategy& s, ModelSpec& m, ClusterSpec&) { m = experts(), s.etp = 8; },
       "error: 'etp' is more than 'tp': 8 > 4\n"},
      {"ranks",
       [](Strategy& s, ModelSpec& m, ClusterSpec&) {
         m = experts(), m.moe->num_experts = 6, s.ep = 6;
       },
       "error: etp * ep = 6 must divide tp * cp * dp = 32\n"},
      {"experts' ranks inside of a pipeline",
       [](Strategy& s, ModelSpec& m, ClusterSpec&) {
         m = experts(), s.ep = 2;
         s.order = {Axis::kTp, Axis::kCp, Axis::kEp, Axis::kPp, Axis::kDp};
       },
       "error: 'order' tp-cp-ep-pp-dp with etp=1 and ep=2 would put a device on two pipeline "
       "ranks: "
       "inside of 'pp' experts must have as many ranks as the rest has\n"
       "  hint: order=tp-cp-ep-dp-pp\n"},
      {"sequence",
       [](Strategy& s, ModelSpec& m, ClusterSpec&) {
         m = experts(), s.ep = 2, s.sequence_parallel = false;
       },
       "error: 'ep' with 'tp' over 1 needs 'sequence_parallel'\n  hint: sequence_parallel=true\n"},
      {"bias",
       [](Strategy& s, ModelSpec& m, ClusterSpec&) {
         m = experts(), m.expert_bias = true, s.etp = 2;
       },
       "error: 'etp' must be 1: the experts have biases, got 2\n  hint: etp=1\n"},
      {"bias in releases that split it",
       [](Strategy& s, ModelSpec& m, ClusterSpec&) {
         m = experts(), m.expert_bias = true, s.etp = 2;
         s.runtime.split_expert_biases = true;
       },
       ""},
  }));
  INFO(row.why);
  CHECK(text_after(row) == row.message);
}

TEST_CASE("Rules of stages and microbatches") {
  const auto row = GENERATE(values<RuleCase>({
      {"batch", [](Strategy& s, ModelSpec&, ClusterSpec&) { s.global_batch = 60; },
       "error: 'global_batch' must be a multiple of micro_batch * dp = 1 * 8 = 8, got 60\n"},
      {"layers", [](Strategy&, ModelSpec& m, ClusterSpec&) { m.num_layers = 1; },
       "error: pp * vp = 2 chunks need as many layers, but the model has 1\n"},
      {"stage count",
       [](Strategy& s, ModelSpec&, ClusterSpec&) {
         s.stage_layers = {8, 8, 8};
       },
       "error: 'stage_layers' lists 3 pipeline ranks, but 'pp' is 2\n"},
      {"stage sum",
       [](Strategy& s, ModelSpec&, ClusterSpec&) {
         s.stage_layers = {12, 11};
       },
       "error: 'stage_layers' adds up to 23 layers, but the model has 24\n"},
      {"empty stage",
       [](Strategy& s, ModelSpec&, ClusterSpec&) {
         s.stage_layers = {25, -1};
       },
       "error: 'stage_layers' must hold 1 or more layers per pipeline rank (0 or more on the first "
       "and the last), got -1\n"},
      {"chunks of a schedule without", [](Strategy& s, ModelSpec&, ClusterSpec&) { s.vp = 2; },
       "error: schedule 1f1b has one chunk per rank, but 'vp' is 2\n"
       "  hint: schedule=interleaved, or vp=1\n"},
      {"interleaved without chunks",
       [](Strategy& s, ModelSpec&, ClusterSpec&) { s.schedule = Schedule::kInterleaved; },
       "error: schedule interleaved needs 'vp' over 1\n  hint: schedule=1f1b\n"},
      {"interleaved microbatches",
       [](Strategy& s, ModelSpec&, ClusterSpec&) {
         s.schedule = Schedule::kInterleaved, s.vp = 2, s.global_batch = 72;
       },
       "error: schedule interleaved needs a multiple of 'pp' 2 microbatches, got 9\n"},
      {"interleaved without pipeline",
       [](Strategy& s, ModelSpec&, ClusterSpec&) {
         s.schedule = Schedule::kInterleaved, s.pp = 1, s.dp = 16;
       },
       "error: schedule interleaved needs 'pp' over 1\n  hint: schedule=1f1b\n"},
      {"zb-v", [](Strategy& s, ModelSpec&, ClusterSpec&) { s.schedule = Schedule::kZbV; },
       "error: schedule zb-v has two chunks per rank, but 'vp' is 1\n  hint: vp=2\n"},
      {"dualpipe",
       [](Strategy& s, ModelSpec&, ClusterSpec&) {
         s.schedule = Schedule::kDualPipe, s.vp = 2, s.global_batch = 16;
       },
       "error: schedule dualpipe needs an even 'pp' and an even number of microbatches, 2 * pp or "
       "more; got pp 2 and 2 microbatches\n"},
      {"uneven chunks",
       [](Strategy& s, ModelSpec&, ClusterSpec&) { s.schedule = Schedule::kInterleaved, s.vp = 5; },
       "error: 'vp' must divide the 24 layers, got 5\n"
       "  hint: state the layout: stage_layers=[12,12]\n"},
      {"recompute count", [](Strategy& s, ModelSpec&, ClusterSpec&) { s.recompute_layers = {1}; },
       "error: 'recompute_layers' lists 1 pipeline ranks, but 'pp' is 2\n"},
      {"recompute more than there is",
       [](Strategy& s, ModelSpec&, ClusterSpec&) {
         s.recompute_layers = {12, 13};
       },
       "error: 'recompute_layers' asks for 13 layers of pipeline rank 1, which has 12\n"},
  }));
  INFO(row.why);
  CHECK(text_after(row) == row.message);
}

TEST_CASE("A stated layout may have unequal chunks, but none without work") {
  Strategy s = legal();
  ModelSpec m = model();
  m.num_layers = 22;
  s.schedule = Schedule::kInterleaved;
  s.vp = 12;
  s.stage_layers = {11, 11};  // the embedding and the head each fill a chunk
  CHECK(to_text(validate(s, m, cluster(64))).empty());
  s.stage_layers = {10, 12};
  CHECK(to_text(validate(s, m, cluster(64))) ==
        "error: pipeline rank 0 needs 11 or more layers for vp=12, got 10\n");
}

TEST_CASE("Rules of the sequence") {
  const auto row = GENERATE(values<RuleCase>({
      {"nothing to split over", [](Strategy& s, ModelSpec&, ClusterSpec&) { s.tp = 1, s.dp = 32; },
       "error: 'sequence_parallel' needs 'tp' over 1\n  hint: sequence_parallel=false\n"},
      {"tokens over tensor ranks", [](Strategy& s, ModelSpec&, ClusterSpec&) { s.seq_len = 4094; },
       "error: 'seq_len' must be a multiple of tp * cp = 4 with 'sequence_parallel', got 4094\n"},
      {"halves of the ring",
       [](Strategy& s, ModelSpec&, ClusterSpec&) {
         s.cp = 8, s.dp = 1, s.seq_len = 8 * 4 * 3 + 8, s.sequence_parallel = false;
       },
       "error: 'seq_len' must be a multiple of 16 for cp=8, got 104\n"},
      {"ulysses heads",
       [](Strategy& s, ModelSpec&, ClusterSpec&) {
         s.cp = 4, s.dp = 2, s.cp_kind = CpKind::kUlysses;
       },
       "error: cp_kind ulysses needs tp * cp = 16 to divide the 32 attention heads and the 8 query "
       "groups\n  hint: cp_kind=ring\n"},
      {"positions", [](Strategy& s, ModelSpec&, ClusterSpec&) { s.seq_len = 8192; },
       "warning: 'seq_len' 8192 is more than the model's 'max_seq_length' 4096\n"},
  }));
  INFO(row.why);
  CHECK(text_after(row) == row.message);
}

TEST_CASE("Rules of sharded states, overlap and precision") {
  const auto row = GENERATE(values<RuleCase>({
      {"stage", [](Strategy& s, ModelSpec&, ClusterSpec&) { s.zero = 4; },
       "error: 'zero' must be from 0 to 3, got 4\n"},
      {"group", [](Strategy& s, ModelSpec&, ClusterSpec&) { s.zero_group = 3; },
       "error: 'zero_group' must divide the 8 ranks of dp * cp, got 3\n"},
      {"group of nothing",
       [](Strategy& s, ModelSpec&, ClusterSpec&) { s.zero = 0, s.zero_group = 4; },
       "error: 'zero_group' needs 'zero' of 1 or more\n"},
      {"pipeline of DeepSpeed",
       [](Strategy& s, ModelSpec&, ClusterSpec&) {
         s.framework = Framework::kDeepspeed, s.zero = 2;
         s.runtime.sharded_pipeline = false;
       },
       "error: deepspeed cannot combine zero=2 with pp=2\n  hint: zero=1, or pp=1\n"},
      {"overlap", [](Strategy& s, ModelSpec&, ClusterSpec&) { s.overlap.grad_reduce = false; },
       "error: 'overlap.param_gather' needs 'overlap.grad_reduce'\n"},
      {"fp8", [](Strategy& s, ModelSpec&, ClusterSpec&) { s.precision = Precision::kFp8; },
       "error: a100 does not compute in fp8\n  hint: precision=bf16\n"},
      {"nvfp4", [](Strategy& s, ModelSpec&, ClusterSpec&) { s.precision = Precision::kNvfp4; },
       "error: a100 does not compute in nvfp4\n  hint: precision=bf16\n"},
      {"nvfp4 of Hopper",
       [](Strategy& s, ModelSpec&, ClusterSpec& c) {
         c.device.peak[static_cast<std::size_t>(Precision::kFp8)] = FlopsPerSecond{624e12};
         s.precision = Precision::kNvfp4;
       },
       "error: a100 does not compute in nvfp4\n  hint: precision=fp8\n"},
      {"scales of 16-bit products",
       [](Strategy& s, ModelSpec&, ClusterSpec&) { s.runtime.fp8_recipe = ScalingRecipe::kMxfp8; },
       "warning: 'kernels.fp8_recipe' does nothing: products are not in fp8 but bf16\n"},
      {"scales that the units lack",
       [](Strategy& s, ModelSpec&, ClusterSpec& c) {
         c.device.architecture = Architecture::kHopper;
         c.device.peak[static_cast<std::size_t>(Precision::kFp8)] = FlopsPerSecond{624e12};
         s.precision = Precision::kFp8, s.runtime.fp8_recipe = ScalingRecipe::kMxfp8;
       },
       "error: a100 has no products with scales of mxfp8\n  hint: kernels.fp8_recipe=tensorwise\n"},
      {"weights of 16-bit products",
       [](Strategy& s, ModelSpec&, ClusterSpec&) { s.runtime.fp8_param_gather = true; },
       "warning: 'runtime.fp8_param_gather' does nothing: products are in bf16\n"},
      {"layers in bf16 among others",
       [](Strategy& s, ModelSpec&, ClusterSpec&) { s.runtime.num_layers_at_end_in_bf16 = 1; },
       "error: 'kernels.num_layers_at_end_in_bf16' leaves layers in bf16 where others are in fp8 "
       "or nvfp4: products are in bf16\n  hint: kernels.num_layers_at_end_in_bf16=0\n"},
      {"more layers in bf16 than there are",
       [](Strategy& s, ModelSpec& m, ClusterSpec& c) {
         c.device.peak[static_cast<std::size_t>(Precision::kFp8)] = FlopsPerSecond{624e12};
         s.precision = Precision::kFp8, m.num_layers = 8;
         s.runtime.num_layers_at_start_in_bf16 = 5, s.runtime.num_layers_at_end_in_bf16 = 4;
       },
       "error: 5 first and 4 last layers in bf16 are more than the model's 8\n"
       "  hint: precision=bf16\n"},
      {"fewer layers in bf16 than none",
       [](Strategy& s, ModelSpec&, ClusterSpec&) { s.runtime.num_layers_at_start_in_bf16 = -1; },
       "error: 'kernels.num_layers_at_start_in_bf16' must be from 0 to 1,000,000,000, got -1\n"},
      {"an optimizer of own types that is not sharded",
       [](Strategy& s, ModelSpec&, ClusterSpec&) {
         s.zero = 0, s.runtime.precision_aware_optimizer = true;
       },
       "error: 'runtime.precision_aware_optimizer' is Adam with fp32 weights beside 16-bit ones, "
       "sharded by zero=1\n  hint: runtime.precision_aware_optimizer=false\n"},
      {"an optimizer of own types on the host",
       [](Strategy& s, ModelSpec&, ClusterSpec& c) {
         c.device.host_link = BytesPerSecond{25e9};
         s.offload.optimizer = s.runtime.precision_aware_optimizer = true;
       },
       "warning: 'runtime.precision_aware_optimizer' does nothing with 'offload.optimizer': "
       "'offload.master_weights' says where that one's fp32 weights are\n"},
      {"fused experts of 16 bits",
       [](Strategy& s, ModelSpec& m, ClusterSpec&) {
         m.moe = MoeSpec{.num_experts = 8, .top_k = 2, .expert_ffn_hidden_size = 1024};
         s.runtime.fused_experts = true;
       },
       "warning: 'kernels.fused_experts' does nothing: its kernels are those of precision=fp8 with "
       "kernels.fp8_recipe=mxfp8\n"},
      {"an input in 8 bits of an activation that is not gated",
       [](Strategy& s, ModelSpec&, ClusterSpec&) {
         s.runtime.activation_func_fp8_input_store = true;
       },
       "warning: 'kernels.activation_func_fp8_input_store' does nothing: it is of SwiGLU's fused "
       "kernel\n"},
      {"blocks before Hopper",
       [](Strategy& s, ModelSpec&, ClusterSpec& c) {
         c.device.peak[static_cast<std::size_t>(Precision::kFp8)] = FlopsPerSecond{624e12};
         s.precision = Precision::kFp8, s.runtime.fp8_recipe = ScalingRecipe::kBlockwise;
       },
       "error: a100 has no products with scales of blockwise\n"
       "  hint: kernels.fp8_recipe=tensorwise\n"},
      {"tf32", [](Strategy& s, ModelSpec&, ClusterSpec&) { s.precision = Precision::kTf32; },
       "warning: a100 has no tf32: it computes in fp32\n"},
      {"bf16 of Volta",
       [](Strategy&, ModelSpec&, ClusterSpec& c) {
         c.device.name = "v100";
         c.device.architecture = Architecture::kVolta;
         c.device.peak[static_cast<std::size_t>(Precision::kBf16)] = FlopsPerSecond{0};
       },
       "error: v100 does not compute in bf16\n  hint: precision=fp16\n"},
      {"fp8 gradients", [](Strategy& s, ModelSpec&, ClusterSpec&) { s.grad_dtype = Dtype::kFp8; },
       "error: 'grad_dtype' must be fp32, fp16 or bf16, got fp8\n"},
      {"order", [](Strategy& s, ModelSpec&, ClusterSpec&) { s.order[1] = Axis::kTp; },
       "error: 'order' must list each of tp, cp, ep, dp and pp once, got tp-tp-ep-dp-pp\n"},
      {"dp not stated", [](Strategy& s, ModelSpec&, ClusterSpec&) { s.dp = 0; },
       "error: 'dp' must be from 1 to 16,777,216, got 0\n"},
  }));
  INFO(row.why);
  CHECK(text_after(row) == row.message);
}

TEST_CASE("Megatron-FSDP and torchtitan combine sharded weights with pipelines") {
  Strategy s = legal();
  s.zero = 3;
  CHECK(validate(s, model(), cluster(64)).empty());
  s.framework = Framework::kTorchtitan;
  CHECK(validate(s, model(), cluster(64)).empty());
}

TEST_CASE("Sizes whose activations cannot be counted in 64 bits are refused, not wrapped") {
  Strategy s = legal();
  ModelSpec m = model();
  s.micro_batch = std::int64_t{1} << 26;
  s.global_batch = std::int64_t{1} << 29;
  m.max_seq_length = s.seq_len = 1 << 30;
  const Diagnostics all = validate(s, m, cluster(64));
  REQUIRE(all.size() == 1);
  CHECK(all.front().message.find("more than the 10000.0 T that can be planned for") !=
        std::string::npos);
}

TEST_CASE("What a pipeline rank holds of many microbatches is counted too") {
  Strategy s = legal();
  ModelSpec m = model();
  m.max_seq_length = s.seq_len = 1 << 30;
  s.pp = 2, s.dp = 64 / (s.tp * s.cp * 2);
  s.global_batch = s.dp * (1 << 20);
  const auto says = [&] { return to_text(validate(s, m, cluster(64))); };
  CHECK(says().find("that a pipeline rank may hold") == std::string::npos);  // one or two in flight
  s.schedule = Schedule::kGpipe;                                             // all of them
  CHECK(says().find("that a pipeline rank may hold") != std::string::npos);
}

TEST_CASE("Every width of a layer counts") {
  Strategy s = legal();
  s.micro_batch = 1 << 20, s.global_batch = std::int64_t{1} << 29;
  s.dp = 1, s.tp = 8, s.seq_len = 4096;
  ModelSpec m = model();
  const auto refused = [&](const ModelSpec& spec) {
    return to_text(validate(s, spec, cluster(8))).find("that can be planned for") !=
           std::string::npos;
  };
  m.num_layers = 2, m.hidden_size = 64, m.ffn_hidden_size = 256, m.vocab_size = 1000;
  CHECK_FALSE(refused(m));
  ModelSpec latent = m;
  latent.attention = AttentionKind::kMla;
  latent.mla = MlaSpec{.v_head_dim = 1 << 16};
  latent.num_attention_heads = 1 << 16;
  CHECK(refused(latent));
  latent.num_attention_heads = 8, latent.mla = MlaSpec{.kv_lora_rank = std::int64_t{1} << 31};
  CHECK(refused(latent));
  ModelSpec experts = m;
  experts.moe = MoeSpec{.num_experts = 8, .top_k = 1, .expert_ffn_hidden_size = 64};
  CHECK_FALSE(refused(experts));
  experts.moe->shared_expert_ffn_hidden_size = std::int64_t{1} << 31;
  CHECK(refused(experts));
  experts.moe->shared_expert_ffn_hidden_size = 0, experts.moe->num_experts = std::int64_t{1} << 31;
  CHECK(refused(experts));
}

TEST_CASE("Pipelines deeper than can be planned for are refused") {
  const auto says = [](std::int64_t pp, std::int64_t vp) {
    Strategy s = legal();
    s.pp = pp, s.vp = vp;
    return to_text(findings(s).diagnostics());
  };
  CHECK(says(2048, 1).empty());
  CHECK(says(16, 128).empty());
  CHECK(says(32, 128).find("pp * vp = 4,096 chunks are more than the 2,048") != std::string::npos);
  CHECK(says(2049, 1).find("'pp' must be from 1 to 2,048") != std::string::npos);
  CHECK(says(1, 129).find("'vp' must be from 1 to 128") != std::string::npos);
}

TEST_CASE("Degrees at their limits multiply without overflow") {
  Strategy s = legal();
  s.tp = s.cp = s.dp = 1 << 24;
  s.pp = 100'000;
  const Diagnostics all = validate(s, model(), cluster(64));
  CHECK(has_errors(all));
}

TEST_CASE("Every broken rule is reported, not only the first") {
  Strategy s = legal();
  s.dp = 4;
  s.global_batch = 61;
  s.precision = Precision::kFp8;
  CHECK(validate(s, model(), cluster(64)).size() == 3);
}

TEST_CASE("kinds of layers with a state say what tensor and context ranks must divide") {
  const auto said = [](const Mixer& mixer, std::int64_t tp, std::int64_t cp) {
    ModelSpec m = model();
    m.layers = {{24, {mixer, DenseMlpSpec{16384}}}};
    Strategy s = legal();
    s.tp = tp, s.cp = cp, s.pp = 1, s.dp = 64 / tp / cp;
    s.sequence_parallel = tp > 1;
    return to_text(validate(s, m, cluster(64)));
  };
  const auto has = [](const std::string& text, const std::string& part) {
    CAPTURE(text);
    return text.find(part) != std::string::npos;
  };
  const Mamba2Spec mamba{.num_heads = 24, .head_dim = 64, .state_size = 128, .num_groups = 4};
  CHECK(said(mamba, 4, 2).empty());
  CHECK(has(said(mamba, 16, 1), "'tp' must divide the 24 Mamba heads, got 16"));
  CHECK(has(said(mamba, 8, 1), "'tp' must divide the 4 Mamba groups, got 8"));
  CHECK(has(said(mamba, 2, 16), "tp * cp = 32 must divide the 24 Mamba heads"));
  const GatedDeltaNetSpec delta{4, 8, 128, 128};
  CHECK(said(delta, 4, 1).empty());
  CHECK(has(said(delta, 8, 1), "'tp' must divide the 4 key heads of linear attention, got 8"));
  CHECK(has(said(delta, 2, 4), "tp * cp = 8 must divide the 4 key heads"));
  CHECK(has(said(LightningSpec{12, 64}, 8, 1), "'tp' must divide the 12 heads"));
  CHECK(has(said(MambaSpec{.inner_size = 1000, .dt_rank = 16}, 16, 1),
            "'tp' must divide the 1000 channels of Mamba"));
}

TEST_CASE("a plan of a model that sees images says how many it is for") {
  ModelSpec m = model();
  m.encoder = EncoderSpec{.num_layers = 27,
                          .hidden_size = 1152,
                          .num_attention_heads = 16,
                          .ffn_hidden_size = 4304,
                          .patches_per_image = 2304};
  const Diagnostics said = validate(legal(), m, cluster(64));
  REQUIRE(said.size() == 1);
  CHECK(said[0].severity == Severity::kWarning);
  CHECK(said[0].message.find("planned for 1 image of 2304 patches in each sequence") == 0);
}

}  // namespace meshplan
