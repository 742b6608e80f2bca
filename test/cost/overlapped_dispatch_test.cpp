// How much of the dispatch of tokens hides behind another microbatch's layers.
#include "cost/block.hpp"
#include "cost/support.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

TEST_CASE(
    "[F-EP-3] overlapped dispatch hides behind the kernels of its turn as far as these last") {
  ModelSpec m = plain_gpt();
  m.moe = MoeSpec{8, 2, 4096, 0, 0, 1, 1.0, false};
  ClusterSpec c = plain_cluster(8);
  Strategy s = plain_strategy(1, 1, 8);
  s.ep = 8;
  const auto moe = [&] { return block_costs(m, c, s)[kFirstLayerBlock]; };
  const auto exposed = [](const BlockCost& b) { return b.forward.ep + b.backward_input.ep; };
  const BlockCost apart = moe();
  s.overlap.ep = true;
  // The first of eight forward passes and the last backward pass run alone.
  CHECK(exposed(moe()).si() == Approx(exposed(apart).si() / 8));
  CHECK(moe().forward.compute == apart.forward.compute);
  s.global_batch = 8000;
  CHECK(exposed(moe()).si() == Approx(exposed(apart).si() / 1000));
  // On links a thousand times slower the messages outlast the kernels of every turn by far: what is
  // left of a thousand pairs is their difference.
  c.levels[0].bandwidth = BytesPerSecond{300e6};
  s.overlap.ep = false;
  const BlockCost slow = moe();
  const Seconds kernels =
      slow.forward.compute + slow.backward_input.compute + slow.backward_weight.compute;
  s.overlap.ep = true;
  CHECK(exposed(moe()).si() == Approx((exposed(slow) - kernels * 0.999).si()));
  // Twenty times: both dispatches outlast the experts, and hide no more behind attention.
  c.levels[0].bandwidth = BytesPerSecond{15e9};
  s.overlap.ep = false;
  const BlockCost between = moe();
  REQUIRE(exposed(between) < kernels);
  s.overlap.ep = true;
  CHECK(exposed(moe()).si() > 0.05 * exposed(between).si());
}

TEST_CASE("[F-EP-3] passes that fill and drain an interleaved pipeline hide no dispatch") {
  ModelSpec m = plain_gpt();
  m.moe = MoeSpec{8, 2, 4096, 0, 0, 1, 1.0, false};
  const ClusterSpec c = plain_cluster(16);
  Strategy s = plain_strategy(1, 2, 8);
  s.ep = 8, s.vp = 2, s.schedule = Schedule::kInterleaved;
  const auto exposed = [&] {
    const BlockCost b = block_costs(m, c, s)[kFirstLayerBlock];
    return (b.forward.ep + b.backward_input.ep).si();
  };
  const double all = exposed();
  s.overlap.ep = true;
  // Of 8 x 2 passes of a rank, 2 (p - r - 1) + (v - 1) p + 1: 5 on the first rank and 3 on the
  // last.
  CHECK(exposed() == Approx(all * 4 / 16));
  s.global_batch = 8;  // one microbatch fills and drains
  CHECK(exposed() == Approx(all));
}
