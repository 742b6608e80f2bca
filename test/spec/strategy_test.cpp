// Derived numbers of a strategy, the presets, and its text.
#include "spec/strategy.hpp"

#include <numeric>
#include <set>

#include "base/check.hpp"
#include "frameworks/preset.hpp"
#include "spec/limits.hpp"
#include "spec/strategy_keys.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

ModelSpec layers(std::int64_t n) {
  ModelSpec m;
  m.num_layers = n;
  return m;
}

Strategy pipeline(std::int64_t pp, std::int64_t vp = 1) {
  Strategy s;
  s.pp = pp;
  s.vp = vp;
  return s;
}

}  // namespace

TEST_CASE("Devices, microbatches and expert ranks follow Megatron-Core's arithmetic") {
  Strategy s;
  s.tp = 8, s.pp = 16, s.cp = 2, s.dp = 8;
  s.ep = 4, s.etp = 2;
  s.micro_batch = 2, s.global_batch = 512;
  CHECK(num_gpus(s) == 2048);        // expert parallelism reuses ranks
  CHECK(num_microbatches(s) == 32);  // 512 / (2 * 8)
  CHECK(expert_dp(s) == 16);         // 8 * 2 * 8 / (2 * 4)
  CHECK(shard_group(s) == 16);       // dp * cp
  s.zero_group = 8;
  CHECK(shard_group(s) == 8);
}

TEST_CASE("A data-parallel degree that is not stated is what the cluster leaves") {
  Strategy s;
  s.tp = 8, s.pp = 4, s.dp = 0;
  CHECK(with_derived_dp(s, 256).dp == 8);
  CHECK(with_derived_dp(s, 100).dp == 3);  // rounded down: validate() reports the product
  CHECK(with_derived_dp(s, 8).dp == 1);
  s.dp = 5;
  CHECK(with_derived_dp(s, 256).dp == 5);
}

TEST_CASE("Products of degrees that no cluster has do not wrap") {
  Strategy s;
  s.tp = s.cp = 1 << 24, s.pp = 65536, s.dp = 0;  // 2^64
  CHECK(with_derived_dp(s, 8).dp == 1);
  s.dp = 1 << 24;
  CHECK(num_gpus(s) == 1'000'000'000'000'000);
  CHECK(shard_group(s) > 0);
  CHECK(expert_dp(s) > 0);
  s.micro_batch = s.dp = std::int64_t{1} << 32;
  CHECK(num_microbatches(s) == 0);
}

TEST_CASE("Layers are as even as can be, and the ends give way first") {
  struct Row {
    std::int64_t layers, pp, vp;
    std::vector<std::int64_t> want;
  };
  const auto row = GENERATE(values<Row>({
      {32, 4, 1, {8, 8, 8, 8}},
      {126, 16, 1, {7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7}},  // Llama 3 405B
      {61, 4, 1, {15, 15, 16, 15}},
      {10, 4, 1, {2, 3, 3, 2}},
      {11, 4, 1, {3, 3, 3, 2}},
      {7, 2, 1, {4, 3}},
      {12, 2, 3, {6, 6}},
      {20, 4, 2, {4, 6, 6, 4}},
      {5, 1, 1, {5}},
  }));
  CHECK(stage_layers(pipeline(row.pp, row.vp), layers(row.layers)) == row.want);
}

TEST_CASE(
    "Every split adds up, differs by one chunk layer at most, and ends are never the largest") {
  for (std::int64_t n = 1; n <= 60; ++n) {
    for (std::int64_t pp = 1; pp <= n; ++pp) {
      for (std::int64_t vp = 1; pp * vp <= n; ++vp) {
        if (n % vp != 0) continue;
        const auto split = stage_layers(pipeline(pp, vp), layers(n));
        REQUIRE(std::accumulate(split.begin(), split.end(), std::int64_t{0}) == n);
        const auto [least, most] = std::minmax_element(split.begin(), split.end());
        REQUIRE(*most - *least <= vp);
        REQUIRE(split.back() == *least);
      }
    }
  }
}

TEST_CASE("A stated layout is taken as it is") {
  Strategy s = pipeline(2);
  s.stage_layers = {5, 3};
  CHECK(stage_layers(s, layers(8)) == std::vector<std::int64_t>{5, 3});
}

TEST_CASE("Presets are what the frameworks do by default") {
  const Strategy megatron = framework_preset(Framework::kMegatron);
  CHECK(megatron.zero == 1);
  CHECK(megatron.overlap.grad_reduce);
  CHECK(megatron.overlap.param_gather);
  CHECK(megatron.overlap.tp);
  CHECK(megatron.overlap.pp);
  CHECK(megatron.grad_dtype == Dtype::kFp32);
  CHECK(megatron.runtime == Runtime{.flex_dispatcher = true,
                                    .fused_router = true,
                                    .fused_permute = true,
                                    .host_factor = 11.0,
                                    .collective_launches = 2.4,
                                    .node_launches = 2.9 / 11.0,
                                    .interleaved_p2p_overlap = true,
                                    .fp32_grad_copies = true,
                                    .offload_margin = true,
                                    .transformer_engine = true,
                                    .grouped_gemm = true,
                                    .kept_gather_buffer = true,
                                    .kept_stage_inputs = true,
                                    .layer_dummy_gradients = true,
                                    .head_dummy_gradient = true,
                                    .engine_router = true,
                                    .layer_wise_optimizer = true});
  CHECK_FALSE(megatron.sequence_parallel);
  CHECK(framework_preset(Framework::kDeepspeed).zero == 3);
  CHECK(framework_preset(Framework::kFsdp).zero == 3);
  CHECK(framework_preset(Framework::kFsdp).grad_dtype == Dtype::kBf16);
  CHECK(framework_preset(Framework::kFsdp).pp == 1);
  CHECK(framework_preset(Framework::kTorchtitan).grad_dtype == Dtype::kFp32);
  CHECK(framework_preset(Framework::kTorchtitan).runtime.inplace_cross_entropy);  // compiled
  const Strategy bloom = framework_preset(Framework::kMegatronDeepspeed);
  CHECK(bloom.overlap == Overlap{.tp_backward = false});
  CHECK(bloom.framework == Framework::kMegatronDeepspeed);
}

TEST_CASE("A preset leaves what a framework does not decide") {
  Strategy s;
  s.tp = 4, s.global_batch = 64, s.seq_len = 2048, s.recompute = Recompute::kFull;
  const Strategy with = with_preset(s, Framework::kFsdp);
  CHECK(with.tp == 4);
  CHECK(with.global_batch == 64);
  CHECK(with.recompute == Recompute::kFull);
  CHECK(with.zero == 3);
}

TEST_CASE("A strategy's text holds the framework and what differs from its preset") {
  Strategy s = framework_preset(Framework::kMegatron);
  s.tp = 8, s.pp = 16, s.dp = 128;
  s.global_batch = 2048, s.seq_len = 8192;
  s.stage_layers = {7, 8, 7};
  s.overlap.tp = false;
  s.runtime.host_factor = 1.25;
  s.order = {Axis::kTp, Axis::kCp, Axis::kEp, Axis::kPp, Axis::kDp};
  CHECK(to_text(s) ==
        "framework=megatron,tp=8,pp=16,dp=128,global_batch=2048,seq_len=8192,"
        "stage_layers=[7,8,7],overlap.tp=false,kernels.host_factor=1.25,order=tp-cp-ep-pp-dp");
  CHECK(short_text(s) == "tp8 pp16 dp128 mbs1 zero1 1f1b layers[7,8,7] tp-cp-ep-pp-dp");
}

TEST_CASE("The short text tells plans apart") {
  Strategy s;
  s.tp = 4, s.pp = 2, s.vp = 2, s.cp = 2, s.ep = 8, s.etp = 1, s.dp = 16, s.micro_batch = 2;
  s.zero = 3, s.zero_group = 8;
  s.sequence_parallel = true;
  s.schedule = Schedule::kInterleaved;
  s.recompute = Recompute::kSelective;
  s.offload.optimizer = true;
  CHECK(short_text(s) ==
        "tp4 pp2 dp16 vp2 cp2 ep8 mbs2 zero3/8 sp recompute-selective "
        "offload-optimizer");
}

TEST_CASE("Every key has a name of its own and a value that can be asked for") {
  const auto keys = strategy_keys();
  CHECK(std::set<std::string_view>(keys.begin(), keys.end()).size() == keys.size());
  Strategy s;
  s.tp = 8;
  CHECK(value_text(s, "tp") == "8");
  CHECK(value_text(s, "precision") == "bf16");
  CHECK(value_text(s, "overlap.pp") == "false");
  CHECK(value_text(s, "order") == "tp-cp-ep-dp-pp");
  CHECK(value_text(s, "stage_layers") == "[]");
  CHECK_THROWS_AS(value_text(s, "tpp"), InternalError);
}

TEST_CASE("Limits compare numbers and match names") {
  Strategy s;
  s.tp = 8;
  s.schedule = Schedule::k1f1b;
  struct Row {
    Limit limit;
    bool want;
  };
  const auto row = GENERATE(values<Row>({
      {{"tp", LimitOp::kAtMost, {std::int64_t{8}}}, true},
      {{"tp", LimitOp::kBelow, {std::int64_t{8}}}, false},
      {{"tp", LimitOp::kAtLeast, {std::int64_t{8}}}, true},
      {{"tp", LimitOp::kAbove, {std::int64_t{8}}}, false},
      {{"tp", LimitOp::kAbove, {std::int64_t{7}}}, true},
      {{"tp", LimitOp::kEqual, {std::int64_t{4}, std::int64_t{8}}}, true},
      {{"tp", LimitOp::kEqual, {std::int64_t{4}}}, false},
      {{"schedule", LimitOp::kEqual, {Schedule::kGpipe, Schedule::k1f1b}}, true},
      {{"schedule", LimitOp::kEqual, {Schedule::kGpipe}}, false},
      {{"kernels.host_factor", LimitOp::kAtMost, {0.5}}, false},
  }));
  INFO(to_text(row.limit));
  CHECK(satisfies(s, row.limit) == row.want);
}

}  // namespace meshplan
