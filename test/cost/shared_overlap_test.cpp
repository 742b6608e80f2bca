// Tokens on their way beside the experts that every token passes.
#include "cost/block.hpp"
#include "cost/support.hpp"
#include "model/parts.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

ModelSpec with_shared(std::int64_t width) {
  ModelSpec m = plain_gpt(4);
  m.moe = MoeSpec{16, 2, 1024, width, 0, 1, 1.0, false};
  return m;
}

Strategy beside(bool overlap) {
  Strategy s = plain_strategy(1, 1, 8);
  s.ep = 8;
  s.runtime.flex_dispatcher = false;
  s.overlap.shared_experts = overlap;
  return s;
}

struct Sums {
  Seconds messages, hidden, slowdown, kernels;  // of one direction
};

Sums sums_of(const ModelSpec& m, const ClusterSpec& c, const Strategy& s, bool forward) {
  const BlockOps ops = block_ops(m, c, s)[kFirstLayerBlock];
  Sums sums;
  for (const CommOp& op : ops.comm) {
    if (op.dimension != CommDimension::kEp || (op.pass == Pass::kForward) != forward) continue;
    if (op.awaited > Seconds{}) {
      CHECK(op.hidden == Seconds{});
      continue;
    }
    sums.messages += op.time_each * op.count, sums.hidden += op.hidden * op.count;
    sums.slowdown += op.slowdown * op.count;
  }
  for (const KernelOp& op : ops.kernels) {
    const bool shared = op.name.starts_with("shared expert");
    if (shared && (op.pass == Pass::kForward) == forward) sums.kernels += op.time;
  }
  return sums;
}

}  // namespace

TEST_CASE("[F-EP-15] messages hide behind the shared experts' same pass, as far as these last") {
  ClusterSpec c = plain_cluster(8);
  c.device.overlap_slowdown = 1.25;
  for (const bool forward : {true, false}) {
    const Sums narrow = sums_of(with_shared(128), c, beside(true), forward);
    CHECK(narrow.hidden.si() >= narrow.kernels.si());  // activations count too
    CHECK(narrow.hidden.si() < 0.9 * narrow.messages.si());
    CHECK(narrow.slowdown.si() == Approx(0.25 * narrow.hidden.si()));
    const Sums wide = sums_of(with_shared(32'768), c, beside(true), forward);
    CHECK(wide.hidden.si() == Approx(wide.messages.si()));
    CHECK(sums_of(with_shared(32'768), c, beside(false), forward).hidden == Seconds{});
    CHECK(sums_of(with_shared(0), c, beside(true), forward).hidden == Seconds{});
  }
}

TEST_CASE("[F-EP-15] what is hidden leaves the layer's time") {
  const ClusterSpec c = plain_cluster(8);
  const ModelSpec m = with_shared(4096);
  const BlockCost before = block_costs(m, c, beside(false))[kFirstLayerBlock];
  const BlockCost after = block_costs(m, c, beside(true))[kFirstLayerBlock];
  CHECK(after.forward.ep < before.forward.ep);
  CHECK(after.backward_input.ep < before.backward_input.ep);
  CHECK(after.saved == before.saved);
}
