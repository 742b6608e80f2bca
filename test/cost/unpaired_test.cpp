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
  const double plain =
      cost_of(m, c, complete(none, m, c)).step_time.si() - chunk * (passes + paired) * both(alone);
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
    const Seconds device_backward =
        layer.backward_input.total() + layer.backward_weight.total() - layer.backward_input.launch;
    const double late = (forward - device_forward).si() + (backward - device_backward).si();
    const double launch = (layer.forward.launch + layer.backward_input.launch).si();
    CHECK(launch == Approx(std::max(0.0, late)).margin(1e-9));
    const double apart = std::max(0.0, (forward - device_forward).si()) +
                         std::max(0.0, (backward - device_backward).si());
    shared = shared || launch < apart - 1e-6;
  }
  CHECK(shared);
}

namespace {

// Seconds of a layer's nodes, as Megatron-Core's combined schedule runs them.
struct Nodes {
  double before_forward = 0, before_input = 0, before_weight = 0;
  double experts_forward = 0, experts_input = 0, experts_weight = 0;
  double dispatch = 0, combine = 0, gradients_out = 0, gradients_back = 0;
  double hidden = 0;
};

Nodes nodes_of(const BlockOps& ops) {
  Nodes n;
  const ExpertsSpan& span = ops.experts_span.value();
  for (std::size_t i = 0; i < ops.kernels.size(); ++i) {
    const bool shared = i >= span.shared_begin && i < span.shared_end;
    if (i >= span.returned && !shared) continue;
    const bool experts = i >= span.sent && i < span.returned;
    const double time = ops.kernels[i].time.si();
    switch (ops.kernels[i].pass) {
      case Pass::kForward:
        (experts ? n.experts_forward : n.before_forward) += time;
        break;
      case Pass::kBackwardInput:
        (experts ? n.experts_input : n.before_input) += time;
        break;
      case Pass::kBackwardWeight:
        (experts ? n.experts_weight : n.before_weight) += time;
        break;
    }
  }
  for (const CommOp& op : ops.comm) {
    const double time = (op.time_each * op.count).si();
    if (op.dimension != CommDimension::kEp) continue;
    n.hidden += (op.hidden * op.count).si();
    if (op.hidden == Seconds{}) {
      n.before_forward += time;  // counts of tokens
    } else if (op.pass == Pass::kForward) {
      (op.returns ? n.combine : n.dispatch) += time;
    } else {
      (op.returns ? n.gradients_back : n.gradients_out) += time;
    }
  }
  return n;
}

}  // namespace

TEST_CASE("[F-EP-3] messages hide behind the kernels that the combined schedule runs beside them") {
  ModelSpec m = with_experts();
  m.moe->expert_ffn_hidden_size = GENERATE(128, 1024, 8192);
  m.moe->shared_expert_ffn_hidden_size = GENERATE(0, 512);
  ClusterSpec c = plain_cluster(8);
  const Strategy s = sent(1, 1, 4, true);
  const Nodes n = nodes_of(block_ops(m, c, s)[kFirstLayerBlock]);
  const double hidden = std::min(n.gradients_out, n.before_forward) +
                        std::min(n.dispatch, n.experts_input + n.experts_weight) +
                        std::min(n.gradients_back, n.experts_forward) +
                        std::min(n.combine, n.before_input + n.before_weight);
  CHECK(n.hidden == Approx(hidden).epsilon(1e-6));
  Strategy delayed = s;
  delayed.overlap.delay_wgrad_compute = true;
  const Nodes later = nodes_of(block_ops(m, c, delayed)[kFirstLayerBlock]);
  CHECK(later.hidden >= n.hidden * (1 - 1e-9));
  // By no more than weight gradients can hide.
  CHECK(later.hidden <= n.hidden + n.before_weight + n.experts_weight);
}

TEST_CASE("[F-EP-3] delayed weight gradients hide what small experts leave of their messages") {
  ModelSpec m = with_experts();
  m.moe->expert_ffn_hidden_size = 128;
  ClusterSpec c = plain_cluster(8);
  c.levels[0].bandwidth = BytesPerSecond{40e9};
  Strategy s = sent(1, 1, 4, true);
  const double plain = nodes_of(block_ops(m, c, s)[kFirstLayerBlock]).hidden;
  s.overlap.delay_wgrad_compute = true;
  CHECK(nodes_of(block_ops(m, c, s)[kFirstLayerBlock]).hidden > 1.02 * plain);
}

TEST_CASE("[F-EP-19] nothing hides in a device's only queue") {
  const ModelSpec m = with_experts();
  const ClusterSpec c = plain_cluster(8);
  Strategy s = sent(1, 1, 4, true);
  s.runtime.single_device_connection = true;
  const BlockCost one = block_costs(m, c, s)[kFirstLayerBlock];
  const BlockCost none = block_costs(m, c, sent(1, 1, 4, false))[kFirstLayerBlock];
  CHECK(one.forward.ep.si() == Approx(none.forward.ep.si()));
  CHECK(one.backward_input.ep.si() == Approx(none.backward_input.ep.si()));
  CHECK(one.unpaired.ep.si() == Approx(0).margin(1e-12));
}

TEST_CASE("[F-TP-3] before Blackwell overlapped dispatch takes what orders tensor collectives") {
  const ModelSpec m = with_experts();
  ClusterSpec c = plain_cluster(8);
  const auto exposed = [&](bool overlap, bool one_queue) {
    Strategy s = plain_strategy(2, 1, 4);
    s.sequence_parallel = true;
    s.ep = 4;
    s.runtime.flex_dispatcher = false;
    s.overlap.ep = overlap, s.runtime.single_device_connection = one_queue;
    return block_costs(m, c, s)[kFirstLayerBlock].backward_input.tp;
  };
  const Seconds apart = exposed(false, false);
  CHECK(exposed(true, false).si() > 1.2 * apart.si());
  CHECK(exposed(true, true).si() == Approx(apart.si()));
  c.device.architecture = Architecture::kBlackwell;
  CHECK(exposed(true, false).si() == Approx(exposed(false, false).si()));
}
