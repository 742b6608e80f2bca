// First and last layers whose products are in bf16 while the others' are in fp8 or nvfp4.
#include "cost/block.hpp"
#include "cost/chunks.hpp"
#include "cost/data_parallel.hpp"
#include "cost/memory.hpp"
#include "cost/placement.hpp"
#include "cost/step.hpp"
#include "frameworks/preset.hpp"
#include "search/cases.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

constexpr std::size_t kLow = kFirstLayerBlock, kWide = kFirstLayerBlock + 1;

ClusterSpec fp8_node() {
  ClusterSpec c = small_cluster(1, 8, Bytes{80 * kGiB});
  constexpr auto kFp8 = static_cast<std::size_t>(Precision::kFp8);
  c.device.peak[kFp8] = FlopsPerSecond{600e12};
  c.device.gemm.sustained[kFp8] = 0.8;
  return c;
}

Strategy in_precision(Precision p, std::int64_t first, std::int64_t last) {
  Strategy s = framework_preset(Framework::kMegatron);
  s.precision = p;
  s.tp = 2, s.dp = 4, s.global_batch = 8, s.seq_len = 4096;
  s.sequence_parallel = true;
  s.runtime.num_layers_at_start_in_bf16 = first;
  s.runtime.num_layers_at_end_in_bf16 = last;
  return s;
}

double all_bytes(const Reductions& all) {
  double sum = 0;
  for (std::size_t i = 0; i < all.count; ++i) sum += all.all[i].bytes;
  return sum;
}

// Gathered after the update by a rank with all layers.
double gathered_bytes(const ModelSpec& m, const ClusterSpec& c, const Strategy& s) {
  const BlockCosts blocks = block_costs(m, c, s);
  const BlockParameters p =
      held_parameters(memory_rates(m, c, s), blocks, chunk_plan(m, s).front());
  return all_bytes(Placement(m, c, s).end_of(m, c, p).weights);
}

Strategy whole_pipeline(Strategy s, const ModelSpec& m) {
  s.stage_layers.assign(1, m.num_layers);
  s.recompute_layers.assign(1, 0);
  return s;
}

}  // namespace

TEST_CASE("[F-FP8-6] a layer that is left in bf16 is that of a strategy in bf16") {
  ModelSpec m = small_model(6, 2048);
  m.mtp_layers = 1;
  const ClusterSpec c = fp8_node();
  const BlockCosts low = block_costs(m, c, in_precision(Precision::kFp8, 0, 0));
  const BlockCosts wide = block_costs(m, c, in_precision(Precision::kBf16, 0, 0));
  const BlockCosts both = block_costs(m, c, in_precision(Precision::kFp8, 1, 2));
  REQUIRE(both.size() == low.size() + 1);
  CHECK(both[kLow] == low[kLow]);
  CHECK(both.mtp() == low.mtp());  // Megatron-Core has one context for all of it
  CHECK(both.head() == low.head());
  BlockCost left = both[kWide];
  CHECK(left.weights == 0);  // no copies in fp8
  CHECK(left.parameters.dense_in_bf16 == left.parameters.dense);
  left.weights = wide[kLow].weights, left.parameters = wide[kLow].parameters;
  CHECK(left == wide[kLow]);
  CHECK(left.forward.compute > low[kLow].forward.compute);
  CHECK(left.saved.none > low[kLow].saved.none);
}

TEST_CASE("[F-FP8-6] copies and gathers in few bits are those of the other layers") {
  const ModelSpec m = small_model(6, 2048);
  const ClusterSpec c = fp8_node();
  Strategy s = whole_pipeline(in_precision(Precision::kFp8, 0, 0), m);
  const auto copies = [&](const Strategy& of) {
    const Chunk all = chunk_plan(m, of).front();
    return kept_buffers(memory_rates(m, c, of), block_costs(m, c, of), all)[Kept::kLowWeights];
  };
  Strategy some = s;
  some.runtime.num_layers_at_start_in_bf16 = 1, some.runtime.num_layers_at_end_in_bf16 = 2;
  CHECK(copies(some) * 2 == copies(s));
  // Weights that are stored in fp8 are gathered so, after the update and block by block.
  s.runtime.fp8_param_gather = some.runtime.fp8_param_gather = true;
  s.zero = some.zero = 1;
  Strategy none = s;
  none.runtime.num_layers_at_end_in_bf16 = 6;
  const double most = gathered_bytes(m, c, none), least = gathered_bytes(m, c, s);
  CHECK(most > least * 1.5);
  CHECK(gathered_bytes(m, c, some) == Approx((most + least) / 2));
  s.zero = some.zero = 3;
  const auto of_block = [&](const Strategy& of, std::size_t block) {
    const BlockCosts blocks = block_costs(m, c, of);
    for (const CommEntry& entry : blocks[block].communication) {
      if (entry.dimension == CommDimension::kDp) return entry.bytes;
    }
    return Bytes{};
  };
  CHECK(of_block(some, kLow) == of_block(s, kLow));
  CHECK(of_block(some, kWide) == of_block(s, kLow) * 2);
}

TEST_CASE("[F-FP8-6] with all layers in bf16 a step takes and holds what one in bf16 does") {
  const ModelSpec m = small_model(6, 2048);
  const ClusterSpec c = fp8_node();
  const auto step = [&](Precision p, std::int64_t first, std::int64_t last) {
    Strategy s = in_precision(p, first, last);
    s.pp = 2, s.dp = 2, s.recompute = Recompute::kFull;
    s.stage_layers = {3, 3}, s.recompute_layers = {1, 1};
    return cost_of(m, c, s);
  };
  const PlanCost wide = step(Precision::kBf16, 0, 0), low = step(Precision::kFp8, 0, 0);
  const PlanCost all = step(Precision::kFp8, 2, 4), some = step(Precision::kFp8, 1, 1);
  CHECK(all.step_time == wide.step_time);
  // But for user buffers, of which fp8 has a set of its own.
  CAPTURE(all.memory().allocated().si(), wide.memory().allocated().si());
  CHECK(all.memory().allocated() == wide.memory().allocated());
  CHECK(some.step_time < wide.step_time);
  CHECK(some.step_time > low.step_time);
  REQUIRE(some.stages.size() == 2);
  CHECK(some.stages[0].kinds ==
        std::vector<LayerKindCount>{{"gqa + dense", 2}, {"gqa + dense in bf16", 1}});
}
