#include "cost/deferral.hpp"

#include "cost/block.hpp"
#include "cost/step.hpp"
#include "cost/support.hpp"
#include "cost/timeline.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

constexpr std::int64_t kMicrobatches = 8;

Strategy deferring(std::int64_t pp, std::int64_t limit = 0) {
  Strategy s = plain_strategy(2, pp, 1);
  s.sequence_parallel = true;
  s.global_batch = kMicrobatches;
  s.runtime.defer_embedding_wgrad_compute = true;
  s.runtime.wgrad_deferral_limit = limit;
  return s;
}

constexpr std::string_view kName = "waiting for the output layer's weight gradients";

}  // namespace

TEST_CASE("[F-DEFER-1] all microbatches' weight gradients wait, or as many as the limit says") {
  CHECK(deferred_microbatches(deferring(4)) == kMicrobatches);
  CHECK(deferred_microbatches(deferring(4, 3)) == 3);
  CHECK(deferred_microbatches(deferring(4, 100)) == kMicrobatches);
  CHECK(deferred_microbatches(deferring(1)) == 0);  // there is no pipeline to wait for
  Strategy s = deferring(4);
  s.schedule = Schedule::kZbH1;  // its weight gradients wait by themselves
  CHECK(deferred_microbatches(s) == 0);
  s = deferring(4);
  s.runtime.defer_embedding_wgrad_compute = false;
  CHECK(deferred_microbatches(s) == 0);
}

TEST_CASE("[F-DEFER-1] the weight gradients leave the passes and come behind them") {
  const ModelSpec m = plain_gpt(16);
  const ClusterSpec c = plain_cluster(8);
  Strategy at_once = deferring(4);
  at_once.runtime.defer_embedding_wgrad_compute = false;
  const PassTime whole = block_costs(m, c, at_once).head().backward_weight;
  REQUIRE(whole.compute.si() > 0);
  const auto limit = GENERATE(std::int64_t{0}, std::int64_t{2});
  const double share = limit == 0 ? 1 : 2.0 / kMicrobatches;
  const BlockCost head = block_costs(m, c, deferring(4, limit)).head();
  CHECK(head.deferred_weight.compute.si() == Approx(whole.compute.si() * share));
  CHECK(head.backward_weight.compute.si() == Approx(whole.compute.si() * (1 - share)));
  CHECK(head.backward_input == block_costs(m, c, at_once).head().backward_input);
}

// The first rank is the last to finish: behind it the last one has time for what waited.
TEST_CASE("[F-DEFER-1] what waited is done while ranks before it are still at work") {
  const ModelSpec m = plain_gpt(16);
  const ClusterSpec c = plain_cluster(8);
  const auto limit = GENERATE(std::int64_t{0}, std::int64_t{2});
  const Strategy late = complete(deferring(4, limit), m, c);
  Strategy at_once = late;
  at_once.runtime.defer_embedding_wgrad_compute = false;
  const PlanCost a = cost_of(m, c, at_once), b = cost_of(m, c, late);
  CHECK(b.step_time < a.step_time);
  CHECK(total(b.time).si() == Approx(b.step_time.si()).epsilon(1e-12));
  CHECK(b.stages.back().backward < a.stages.back().backward);
  CHECK(b.stages.front().backward == a.stages.front().backward);
  const StepTimeline t = step_timeline(m, c, late);
  CHECK(t.step_time.si() == Approx(b.step_time.si()).epsilon(1e-12));
  const Seconds waited = block_costs(m, c, late).head().deferred_weight.total();
  const auto behind = [](const StepTimeline& all) {  // the last pass, its message apart
    return all.ranks.back().reduction.start - all.ranks.back().tasks.back().end;
  };
  CHECK((behind(t) - behind(step_timeline(m, c, at_once))).si() ==
        Approx(waited.si() * static_cast<double>(kMicrobatches)));
}

// Where it is the last to finish, the step ends with it.
TEST_CASE("[F-DEFER-1] the step of a long output layer has the same work whenever it is done") {
  ModelSpec m = plain_gpt(16);
  m.vocab_size = 1'000'000;
  const ClusterSpec c = plain_cluster(8);
  const Strategy late = complete(deferring(4), m, c);
  Strategy at_once = late;
  at_once.runtime.defer_embedding_wgrad_compute = false;
  const PlanCost a = cost_of(m, c, at_once), b = cost_of(m, c, late);
  REQUIRE(b.last_stage == 3);
  const Seconds waited = block_costs(m, c, late).head().deferred_weight.compute * kMicrobatches;
  CHECK(waited.si() > 0.1 * b.time.compute.si());
  CHECK(b.time.compute.si() > waited.si());
  CHECK(b.step_time <= a.step_time);
}

// Published CI runs of two waiting microbatches of 4 x 1,024 tokens and 25,152 words a rank hold
// 415 to 430 MiB more than is predicted without: 2 x (196.5 + 2 to 4).
TEST_CASE("[F-MEM-17] gradients of logits and inputs wait on the rank with the output layer") {
  const ModelSpec m = plain_gpt(16);
  const ClusterSpec c = plain_cluster(8);
  const LocalShape l = local_shape(m, deferring(4));
  const std::int64_t each = 2 * (l.tokens * l.vocab + l.norm_tokens * l.hidden);
  const auto waiting = [&](std::int64_t limit, std::size_t rank) {
    const PlanCost cost = cost_of(m, c, complete(deferring(4, limit), m, c));
    const StageCost& stage = cost.stages[rank];
    // Two entries, of the loss' moment and of the layers'.
    const std::int64_t held = bytes_named(stage.ledger, kName).count();
    Bytes most;
    for (const MomentBytes& at : stage.ledger.moments) most = std::max(most, at.allocated);
    CHECK(most == stage.memory.allocated());
    return held;
  };
  CHECK(waiting(2, 3) == 2 * each + 2 * each);
  CHECK(waiting(0, 3) == (kMicrobatches - 1) * each + kMicrobatches * each);
  CHECK(waiting(0, 0) == 0);
  Strategy at_once = deferring(4);
  at_once.runtime.defer_embedding_wgrad_compute = false;
  const Bytes without = cost_of(m, c, complete(at_once, m, c)).stages[3].memory.allocated();
  const Bytes with = cost_of(m, c, complete(deferring(4, 2), m, c)).stages[3].memory.allocated();
  CHECK((with - without).count() == 2 * each);
}
