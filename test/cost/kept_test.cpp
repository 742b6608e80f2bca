// What stays allocated from step to step beside weights, gradients and optimizer states, and the
// ledger that names everything.
#include "cost/ledger.hpp"
#include "cost/memory.hpp"
#include "cost/step.hpp"
#include "cost/support.hpp"
#include "cost/timeline.hpp"
#include "frameworks/preset.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

// Of the last rank.
KeptBuffers kept_of(const ModelSpec& m, const ClusterSpec& c, const Strategy& s) {
  const BlockCosts blocks = block_costs(m, c, s);
  return kept_buffers(memory_rates(m, c, s), blocks, chunk_plan(m, s).back());
}

Strategy megatron(std::int64_t tp, std::int64_t pp, const ModelSpec& m, const ClusterSpec& c) {
  Strategy s = plain_strategy(tp, pp, 1);
  s.runtime = framework_preset(Framework::kMegatron).runtime;
  return complete(s, m, c);
}

}  // namespace

TEST_CASE("[F-MEM-7] workspaces for cuBLAS are those of the device, the script and the layers") {
  const ModelSpec m = plain_gpt(4);
  ClusterSpec c = plain_cluster(1);
  Strategy s = megatron(1, 1, m, c);
  const auto sum = [&] {
    const KeptBuffers kept = kept_of(m, c, s);
    return kept[Kept::kMathWorkspace] + kept[Kept::kEngineWorkspace] +
           kept[Kept::kGroupedWorkspace];
  };
  c.device.architecture = Architecture::kHopper;
  CHECK(sum() == Bytes{96 * kMiB});
  c.device.architecture = Architecture::kAmpere;
  CHECK(sum() == Bytes{(2 * 8 + 4) * kMiB + 2 * 128 * kKiB});
  s.runtime.cublas_workspace_bytes = 32 * kMiB;  // CUBLAS_WORKSPACE_CONFIG=:4096:8
  CHECK(sum() == Bytes{68 * kMiB});
  s.runtime.transformer_engine = false;
  CHECK(sum() == Bytes{64 * kMiB});
}

TEST_CASE("[F-MEM-7] experts' products have a workspace for each of four streams") {
  ModelSpec m = plain_gpt(4);
  m.moe = MoeSpec{.num_experts = 8, .top_k = 2, .expert_ffn_hidden_size = 1024};
  ClusterSpec c = plain_cluster(1);
  c.device.architecture = Architecture::kBlackwell;
  Strategy s = megatron(1, 1, m, c);
  CHECK(kept_of(m, c, s)[Kept::kGroupedWorkspace] == Bytes{128 * kMiB});
  s.runtime.grouped_gemm = false;
  CHECK(kept_of(m, c, s)[Kept::kGroupedWorkspace] == Bytes{});
}

TEST_CASE("[F-MEM-8] one buffer takes gathered inputs and the scores of unfused attention") {
  const ModelSpec m = plain_gpt(4);
  const ClusterSpec c = plain_cluster(4);
  Strategy s = megatron(2, 2, m, c);
  s.sequence_parallel = s.flash_attention = true;
  const LocalShape l = local_shape(m, s);
  const Bytes gathered{l.tokens * l.hidden * l.bytes};
  const auto first = [&] {
    const BlockCosts blocks = block_costs(m, c, s);
    return kept_buffers(memory_rates(m, c, s), blocks,
                        chunk_plan(m, s).front())[Kept::kGatheredInput];
  };
  CHECK(kept_of(m, c, s)[Kept::kGatheredInput] == gathered);
  CHECK(first() == Bytes{});  // Transformer Engine's layers free theirs
  s.runtime.transformer_engine = false;
  CHECK(first() == gathered);
  s.flash_attention = false;
  const std::int64_t heads = m.num_attention_heads / 2;
  const Bytes scores{s.micro_batch * heads * s.seq_len * s.seq_len * l.bytes};
  CHECK(first() == std::max(gathered, scores));
  s.runtime.kept_gather_buffer = false;
  CHECK(kept_of(m, c, s)[Kept::kGatheredInput] == Bytes{});
}

TEST_CASE("[F-MEM-9] a gradient that nobody reads is kept once for every shape of a weight") {
  ModelSpec m = plain_gpt(4);
  const ClusterSpec c = plain_cluster(1);
  Strategy s = megatron(1, 1, m, c);
  const KeptBuffers kept = kept_of(m, c, s);
  // qkv 3 h h, projection h h, MLP up and down f h each.
  const std::int64_t h = m.hidden_size, f = m.ffn_hidden_size;
  CHECK(kept[Kept::kLayerDummies] == Bytes{2 * (3 * h * h + h * h + 2 * f * h)});
  CHECK(kept[Kept::kHeadDummy] == Bytes{2 * padded_vocab(m, s) * h});
  m.mtp_layers = 1;
  CHECK(kept_of(m, c, s)[Kept::kHeadDummy] == Bytes{4 * padded_vocab(m, s) * h});
  s.runtime.fused_grad_accumulation = false;
  CHECK(kept_of(m, c, s)[Kept::kHeadDummy] == Bytes{});
  CHECK(kept_of(m, c, s)[Kept::kLayerDummies] == Bytes{});
}

TEST_CASE("[F-MEM-10] products in 8 bits keep two copies of their weights") {
  const ModelSpec m = plain_gpt(4);
  const ClusterSpec c = plain_cluster(1);
  Strategy s = megatron(1, 1, m, c);
  CHECK(kept_of(m, c, s)[Kept::kLowWeights] == Bytes{});
  s.precision = Precision::kFp8;
  const std::int64_t h = m.hidden_size, layer = 4 * h * h + 2 * m.ffn_hidden_size * h;
  CHECK(kept_of(m, c, s)[Kept::kLowWeights] == Bytes{2 * m.num_layers * layer});
  s.runtime.fp8_recipe = ScalingRecipe::kMxfp8;  // a byte of scale for 32 elements
  CHECK(kept_of(m, c, s)[Kept::kLowWeights] == Bytes{2 * m.num_layers * layer * 33 / 32});
  s.precision = Precision::kNvfp4;  // one for 16 of half a byte
  CHECK(kept_of(m, c, s)[Kept::kLowWeights] == Bytes{m.num_layers * layer * 9 / 8});
  s.runtime.fp8_param_gather = true;
  CHECK(kept_of(m, c, s)[Kept::kLowWeights] == Bytes{});
}

TEST_CASE("[F-MEM-11] chunks hold their last input and its gradient between two steps") {
  const ModelSpec m = plain_gpt(8);
  const ClusterSpec c = plain_cluster(2);
  Strategy s = megatron(1, 2, m, c);
  s.global_batch = 8;
  const LocalShape l = local_shape(m, s);
  const Bytes message{l.norm_tokens * l.hidden * l.bytes};
  const auto held = [&](std::size_t rank) {
    return bytes_named(cost_of(m, c, s).stages[rank].ledger, "last inputs of chunks");
  };
  CHECK(held(0) == Bytes{});  // the embedding has none
  CHECK(held(1) == message * 2);
  s.vp = 2, s.schedule = Schedule::kInterleaved;
  CHECK(held(0) == message * 2);
  CHECK(held(1) == message * 4);
}

TEST_CASE("The ledger's entries make the peak, and what is allocated between two steps") {
  const auto framework = GENERATE(Framework::kMegatron, Framework::kFsdp, Framework::kDeepspeed);
  const auto precision = GENERATE(Precision::kBf16, Precision::kFp16);
  const auto microbatches = GENERATE(1, 8);
  const ModelSpec m = plain_gpt(8);
  const ClusterSpec c = plain_cluster(4);
  Strategy s = framework_preset(framework);
  s.pp = framework == Framework::kMegatron ? 2 : 1;
  s.dp = 4 / s.pp, s.seq_len = 1024, s.global_batch = s.dp * microbatches;
  s.precision = precision;
  if (precision == Precision::kFp16) s.grad_dtype = Dtype::kFp16;
  CAPTURE(static_cast<int>(precision), microbatches);
  const PlanCost cost = cost_of(m, c, complete(s, m, c));
  for (const StageCost& stage : cost.stages) {
    const Ledger& ledger = stage.ledger;
    Bytes most, between;
    for (const MomentBytes& moment : ledger.moments) {
      Bytes sum;
      for (const LedgerEntry& e : ledger.entries) {
        if (is_there(e.lifetime, moment.moment)) sum += e.bytes;
      }
      CHECK(sum == moment.allocated);
      most = std::max(most, sum);
      if (moment.moment == Moment::kBetweenSteps) between = sum;
      if (moment.moment == ledger.fullest) CHECK(stage.memory.allocated() == sum);
    }
    CHECK(most == stage.memory.allocated());
    const bool late = bytes_named(ledger, "gradients") > Bytes{} && framework == Framework::kFsdp &&
                      microbatches == 1;
    const Bytes gradients = late ? Bytes{} : stage.memory.gradients;
    CHECK(between ==
          stage.memory.weights + gradients + stage.memory.optimizer + stage.memory.persistent);
  }
}

TEST_CASE("What is allocated over a step reaches the ledger's backward peak and ends as it began") {
  const ModelSpec m = plain_gpt(8);
  const ClusterSpec c = plain_cluster(4);
  Strategy s = megatron(1, 4, m, c);
  s.global_batch = 8;
  const PlanCost cost = cost_of(m, c, s);
  const StepTimeline t = step_timeline(m, c, s);
  for (std::size_t r = 0; r < t.ranks.size(); ++r) {
    const std::vector<AllocatedAt>& all = t.ranks[r].allocated;
    Bytes most;
    for (std::size_t i = 0; i < all.size(); ++i) {
      most = std::max(most, all[i].bytes);
      if (i > 0) CHECK(all[i - 1].time <= all[i].time);
    }
    CHECK(most == cost.stages[r].memory.allocated());
    CHECK(all.front().bytes == all.back().bytes);
  }
}
