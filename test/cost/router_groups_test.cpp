// Routers that choose groups of experts before experts, as DeepSeek-V3's.
#include <utility>

#include "cost/block.hpp"
#include "cost/support.hpp"
#include "model/parts.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

double first_dispatch(const ModelSpec& m, std::int64_t ep) {
  Strategy s = plain_strategy(1, 1, ep);
  s.ep = ep;
  const BlockCosts blocks = block_costs(m, plain_cluster(ep), s);
  for (const CommEntry& e : blocks[kFirstLayerBlock].communication) {
    if (e.dimension == CommDimension::kEp) return e.bytes.si();
  }
  FAIL("no dispatch");
  return 0;
}

}  // namespace

// Counted: 3,000 tokens with random scores, groups by the sum of their two best, then eight
// experts.
TEST_CASE("[F-EP-20] a router that chooses groups first reaches fewer ranks and nodes") {
  ModelSpec m = plain_gpt();
  m.moe = MoeSpec{256, 8, 4096, 0, 0, 1, 1.0, false};
  m.moe->router_num_groups = 8, m.moe->router_group_top_k = 4;
  const double token = 2.0 * 2048 * 4096;
  // Four and eight ranks of a node, then 16 and 32 nodes of eight.
  for (const auto& [ranks, counted] : {std::pair{4, 3.12}, {8, 3.97}, {128, 5.74}, {256, 6.84}}) {
    CHECK(first_dispatch(m, ranks) / token == Approx(counted).epsilon(0.045));
  }
  m.moe->router_group_top_k = 8;  // all of them
  const double all = first_dispatch(m, 8);
  m.moe->router_num_groups = m.moe->router_group_top_k = 0;
  CHECK(all == first_dispatch(m, 8));
}
