// Overlapped dispatch of tokens: which passes run beside another microbatch's, and what those that
// run beside none take.
#include <algorithm>

#include "cost/block.hpp"
#include "cost/host_time.hpp"
#include "cost/step.hpp"
#include "cost/support.hpp"
#include "cost/timeline.hpp"
#include "model/per_block.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

ModelSpec with_experts() {
  ModelSpec m = plain_gpt(16, 2048, 16);
  m.moe = MoeSpec{16, 4, 1024, 0, 0, 1, 1.0, false};
  return m;
}

Strategy sent(std::int64_t pp, std::int64_t vp, std::int64_t microbatches, bool overlap) {
  Strategy s = plain_strategy(1, pp, 8);
  s.ep = 8, s.vp = vp;
  if (vp > 1) s.schedule = Schedule::kInterleaved;
  s.runtime.flex_dispatcher = false;
  s.runtime.host_factor = 0;
  s.overlap.ep = overlap;
  s.global_batch = 8 * microbatches * s.micro_batch;
  return s;
}

Seconds step_of(const ModelSpec& m, const ClusterSpec& c, const Strategy& s) {
  return cost_of(m, c, complete(s, m, c)).step_time;
}

}  // namespace

TEST_CASE("[F-EP-18] a single microbatch overlaps nothing, each further one runs beside another") {
  const ModelSpec m = with_experts();
  ClusterSpec c = plain_cluster(8);
  c.device.overlap_slowdown = 1.25;
  const Seconds one = step_of(m, c, sent(1, 1, 1, true));
  CHECK(one.si() == Approx(step_of(m, c, sent(1, 1, 1, false)).si()));
  const Seconds two = step_of(m, c, sent(1, 1, 2, true)), ten = step_of(m, c, sent(1, 1, 10, true));
  CHECK((two - one).si() < 0.97 * one.si());
  CHECK((ten - two).si() == Approx(8 * (two - one).si()));
}

TEST_CASE("[F-EP-18] a pipeline's first forward and last backward pass run alone on every rank") {
  const ModelSpec m = with_experts();
  ClusterSpec c = plain_cluster(32);
  c.device.overlap_slowdown = 1.25;
  const std::int64_t pp = 4, vp = GENERATE(2, 4), microbatches = GENERATE(4, 12);
  const Strategy s = sent(pp, vp, microbatches, true);
  const BlockCost beside = block_costs(m, c, s)[kFirstLayerBlock];
  const BlockCost alone = block_costs(m, c, sent(pp, vp, microbatches, false))[kFirstLayerBlock];
  const auto both = [](const BlockCost& b) {
    return (b.forward.total() + b.backward_input.total() + b.backward_weight.total()).si();
  };
  REQUIRE(both(alone) > 1.02 * both(beside));
  CHECK(both(beside) + beside.unpaired.total().si() == Approx(both(alone)));
  // Layer by layer what a step takes more than one all of whose passes ran beside others: of the
  // last rank's (v - 1) p + 1 chunks before its first pair and of the p - 1 chunks before it.
  const PlanCost cost = cost_of(m, c, complete(s, m, c));
  const double chunk = 16.0 / static_cast<double>(pp * vp);
  const double passes = static_cast<double>((vp - 1) * pp + 1 + pp - 1);
  const double paired = static_cast<double>(microbatches * vp - (vp - 1) * pp - 1);
  const double layers = chunk * (passes * both(alone) + paired * both(beside));
  Strategy none = s;
  none.overlap.ep = false;
  const double plain = cost_of(m, c, complete(none, m, c)).step_time.si() -
                       chunk * (passes + paired) * both(alone);
  CHECK(cost.step_time.si() == Approx(plain + layers).epsilon(1e-6));
  const StepTimeline t = step_timeline(m, c, complete(s, m, c));
  CHECK(t.step_time.si() == Approx(cost.step_time.si()));
}

TEST_CASE("[F-EP-18] more microbatches a turn leave more passes alone") {
  const ModelSpec m = with_experts();
  const ClusterSpec c = plain_cluster(32);
  const Strategy s = sent(4, 2, 16, true);
  // What a step takes more than one whose passes all run beside others.
  const auto more = [&](std::int64_t group) {
    Strategy turns = s;
    turns.runtime.microbatch_group_size = group;
    return step_timeline(m, c, complete(turns, m, c)).unpaired;
  };
  const Span few = more(0), many = more(8);
  const BlockCost layer = block_costs(m, c, s)[kFirstLayerBlock];
  // 8 + 1 chunks before the first pair instead of 4 + 1, of two layers each.
  CHECK(((many.end - many.start) - (few.end - few.start)).si() ==
        Approx(4 * 2 * layer.unpaired.total().si()));
}

TEST_CASE("[F-HOST-8] what the device takes longer for one pass the host has for the other") {
  const ModelSpec m = with_experts();
  const ClusterSpec c = plain_cluster(8);
  Strategy s = sent(1, 1, 4, true);
  bool shared = false;
  for (const double factor : {0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 12.0, 40.0}) {
    s.runtime.host_factor = factor;
    CAPTURE(factor);
    const BlockCost layer = block_costs(m, c, s)[kFirstLayerBlock];
    const BlockOps ops = block_ops(m, c, s)[kFirstLayerBlock];
    const BlockContext x{m, c, s, local_shape(m, s)};
    const Seconds forward = host_time(ops, x, true), backward = host_time(ops, x, false);
    const Seconds device_forward = layer.forward.total() - layer.forward.launch;
    const Seconds device_backward = layer.backward_input.total() + layer.backward_weight.total() -
                                    layer.backward_input.launch;
    const double late = (forward - device_forward).si() + (backward - device_backward).si();
    const double launch = (layer.forward.launch + layer.backward_input.launch).si();
    CHECK(launch == Approx(std::max(0.0, late)).margin(1e-9));
    const double apart = std::max(0.0, (forward - device_forward).si()) +
                         std::max(0.0, (backward - device_backward).si());
    shared = shared || launch < apart - 1e-6;
  }
  CHECK(shared);
}
