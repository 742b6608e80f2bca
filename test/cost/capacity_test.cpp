// Experts that take a share of the tokens at most.
#include "cost/block.hpp"
#include "cost/step.hpp"
#include "cost/support.hpp"
#include "model/parts.hpp"
#include "spec/expert_load.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

ModelSpec uneven_mixture(double imbalance) {
  ModelSpec m = plain_gpt(4);
  m.moe = MoeSpec{16, 2, 1024, 0, 0, 1, imbalance, false};
  return m;
}

Strategy capped(double factor, bool pads) {
  Strategy s = plain_strategy(1, 1, 8);
  s.ep = 8;
  s.runtime.flex_dispatcher = false;
  s.runtime.expert_capacity_factor = factor, s.runtime.pad_to_capacity = pads;
  return s;
}

}  // namespace

TEST_CASE("[F-MOE-4] the busiest rank takes the capacity at most, and as much where it is padded") {
  const ModelSpec m = uneven_mixture(1.5);
  const auto load = [&](double factor, bool pads) {
    const RankLoad l = expert_load(*m.moe, capped(factor, pads));
    CHECK(l.median == l.p99);
    return l.median;
  };
  CHECK(load(0, false) == 1.5);
  CHECK(load(0, true) == 1.5);  // of no capacity
  CHECK(load(2, false) == 1.5);
  CHECK(load(1.25, false) == 1.25);
  CHECK(load(2, true) == 2);
  CHECK(load(1, true) == 1);
}

TEST_CASE("[F-MOE-4] what is sent, multiplied and saved follows the capacity") {
  const ModelSpec uneven = uneven_mixture(1.5), even = uneven_mixture(1.25);
  const ClusterSpec c = plain_cluster(8);
  const auto layer = [&](const ModelSpec& m, const Strategy& s) {
    return block_costs(m, c, s)[kFirstLayerBlock];
  };
  CHECK(layer(uneven, capped(1.25, false)) == layer(even, capped(0, false)));
  CHECK(layer(uneven, capped(1.25, false)).saved.none < layer(uneven, capped(0, false)).saved.none);
}

TEST_CASE("[F-MOE-4] no host waits for the number of tokens that are padded") {
  const ModelSpec m = uneven_mixture(1);
  const auto awaited = [&](bool pads) {
    const std::vector<BlockOps> blocks = block_ops(m, plain_cluster(8), capped(1, pads));
    return blocks[kFirstLayerBlock].host_wait.has_value();
  };
  CHECK(awaited(false));
  CHECK_FALSE(awaited(true));
}
