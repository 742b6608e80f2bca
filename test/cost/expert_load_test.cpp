// What an uneven load of the experts does to the cost of a block.
#include "spec/expert_load.hpp"

#include "cost/block.hpp"
#include "frameworks/preset.hpp"
#include "search/cases.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

ModelSpec uneven_model() {
  ModelSpec m = small_model(4, 2048);
  add_experts(m, 16, 0, 1);
  m.moe->load_zipf = 0.8;
  derive_loads(*m.moe);
  return m;
}

ModelSpec with_loads(ModelSpec m, double median, double p99) {
  for (RankLoad& load : m.moe->rank_loads) load.median = median, load.p99 = p99;
  return m;
}

Strategy spread(std::int64_t ep) {
  Strategy s = framework_preset(Framework::kMegatron);
  s.ep = ep, s.dp = 8, s.global_batch = 8, s.seq_len = 4096;
  s.runtime.flex_dispatcher = false;  // every copy of a token is sent
  return s;
}

// Of models whose layers all have experts.
const BlockCost& moe_block(const BlockCosts& all) { return all[kFirstLayerBlock]; }

}  // namespace

TEST_CASE("[F-MOE-3] with all experts on every rank no load is uneven") {
  const ClusterSpec c = small_cluster(1, 8, Bytes{80 * kGiB});
  ModelSpec even = small_model(4, 2048);
  add_experts(even, 16, 0, 1);
  ModelSpec plain = even;
  plain.moe->imbalance = 3;
  const BlockCost expected = moe_block(block_costs(even, c, spread(1)));
  CHECK(moe_block(block_costs(plain, c, spread(1))) == expected);
  CHECK(moe_block(block_costs(uneven_model(), c, spread(1))) == expected);
  CHECK(moe_block(block_costs(plain, c, spread(8))).forward.total() >
        moe_block(block_costs(even, c, spread(8))).forward.total());
}

TEST_CASE("[F-EP-1] times follow the median, memory the 99th percentile") {
  const ClusterSpec c = small_cluster(1, 8, Bytes{80 * kGiB});
  const ModelSpec m = uneven_model();
  const Strategy s = spread(8);
  const RankLoad load = rank_load(*m.moe, 8);
  REQUIRE(load.p99 > load.median);
  const BlockCost cost = moe_block(block_costs(m, c, s));
  const BlockCost usual = moe_block(block_costs(with_loads(m, load.median, load.median), c, s));
  const BlockCost bad = moe_block(block_costs(with_loads(m, load.p99, load.p99), c, s));
  CHECK(cost.forward == usual.forward);
  CHECK(cost.backward_input == usual.backward_input);
  CHECK(cost.saved == bad.saved);
  CHECK(cost.working_set == bad.working_set);
  CHECK(bad.forward.total() > usual.forward.total());
  CHECK(bad.saved.none > usual.saved.none);
}

TEST_CASE("[F-EP-1] dispatch carries the busiest rank's tokens") {
  const ClusterSpec c = small_cluster(1, 8, Bytes{80 * kGiB});
  const ModelSpec m = uneven_model();
  for (const std::int64_t ep : {2, 4, 8}) {
    const BlockCost cost = moe_block(block_costs(m, c, spread(ep)));
    bool found = false;
    for (const CommEntry& entry : cost.communication) {
      if (entry.operation != Collective::kAllToAll || entry.bytes < Bytes{kMiB}) continue;
      found = true;
      // 4,096 tokens of 2 copies of 2,048 bf16 elements, times the busiest rank's load.
      CHECK(entry.bytes == ceil_bytes(4096.0 * 2 * 2048 * 2 * rank_load(*m.moe, ep).median));
    }
    CHECK(found);
  }
}
