#include "cost/timeline.hpp"

#include <algorithm>

#include "cost/step.hpp"
#include "cost/support.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

struct Case {
  Schedule schedule;
  std::int64_t pp, vp;
};

Strategy strategy_of(const Case& row) {
  Strategy s = plain_strategy(1, row.pp, 2);
  s.schedule = row.schedule;
  s.vp = row.vp;
  s.global_batch = 32;
  return s;
}

const auto kCases = {Case{Schedule::kGpipe, 4, 1},       Case{Schedule::k1f1b, 1, 1},
                     Case{Schedule::k1f1b, 4, 1},        Case{Schedule::kZbH1, 4, 1},
                     Case{Schedule::kInterleaved, 4, 2}, Case{Schedule::kZbV, 4, 2},
                     Case{Schedule::kDualPipe, 4, 2}};

}  // namespace

TEST_CASE("a step's timeline ends when its cost says, with tied embeddings and offloading too") {
  const Case row = GENERATE(values(kCases));
  const bool tied = GENERATE(false, true);
  ModelSpec m = plain_gpt(16);
  m.tied_embeddings = tied;
  const ClusterSpec c = plain_cluster(row.pp * 2);
  Strategy s = strategy_of(row);
  s.offload.optimizer = tied;
  s = complete(s, m, c);
  const PlanCost cost = cost_of(m, c, s);
  const StepTimeline t = step_timeline(m, c, s);
  CHECK(t.step_time.si() == Approx(cost.step_time.si()).epsilon(1e-12));
  CHECK((t.optimizer.end - t.optimizer.start).si() == Approx(cost.time.optimizer.si()));
  CHECK((t.tied_embedding.end > t.tied_embedding.start) == (tied && row.pp > 1));
  CHECK((t.offload.end > t.offload.start) == tied);
}

TEST_CASE("every microbatch passes every chunk, and a rank does one thing at a time") {
  const Case row = GENERATE(values(kCases));
  const ModelSpec m = plain_gpt(16);
  const ClusterSpec c = plain_cluster(row.pp * 2);
  const Strategy s = complete(strategy_of(row), m, c);
  const StepTimeline t = step_timeline(m, c, s);
  REQUIRE(t.ranks.size() == static_cast<std::size_t>(row.pp));
  std::int64_t forwards = 0;
  for (const RankTimeline& rank : t.ranks) {
    for (std::size_t i = 0; i < rank.tasks.size(); ++i) {
      forwards += rank.tasks[i].task.kind == TaskKind::kForward ? 1 : 0;
      CHECK(rank.tasks[i].end > rank.tasks[i].start);
      if (i > 0) CHECK(rank.tasks[i].start >= rank.tasks[i - 1].end);
    }
    CHECK(rank.reduction.start >= rank.tasks.back().end);
  }
  CHECK(forwards == num_microbatches(s) * num_chunks(t.shape));
}

TEST_CASE(
    "a message leaves after the task that makes it and arrives before the one that needs it") {
  const Case row = GENERATE(values({Case{Schedule::k1f1b, 4, 1}, Case{Schedule::kInterleaved, 4, 2},
                                    Case{Schedule::kZbV, 4, 2}}));
  const ModelSpec m = plain_gpt(16);
  const ClusterSpec c = plain_cluster(row.pp * 2);
  const Strategy s = complete(strategy_of(row), m, c);
  const StepTimeline t = step_timeline(m, c, s);
  // The task of a chunk and a microbatch, forward or (input) backward, on a rank.
  const auto task = [&](std::int32_t rank, bool backward, std::int32_t chunk, std::int32_t mb) {
    const auto& tasks = t.ranks[static_cast<std::size_t>(rank)].tasks;
    const auto found = std::find_if(tasks.begin(), tasks.end(), [&](const TimelineEntry& e) {
      return (e.task.kind == TaskKind::kForward) != backward &&
             e.task.kind != TaskKind::kBackwardWeight && e.task.chunk == chunk &&
             e.task.microbatch == mb;
    });
    REQUIRE(found != tasks.end());
    return *found;
  };
  std::int64_t messages = 0;
  for (const RankTimeline& rank : t.ranks) {
    for (const TimedMessage& send : rank.sends) {
      ++messages;
      const std::int32_t above = send.boundary, below = send.boundary + 1;
      const std::int32_t made = send.backward ? below : above;
      const std::int32_t used = send.backward ? above : below;
      CHECK(send.start >= task(send.from, send.backward, made, send.microbatch).end);
      CHECK(send.end <= task(send.to, send.backward, used, send.microbatch).start);
    }
  }
  // Boundaries that lie between ranks, both ways; the V turns on one rank.
  const std::int64_t boundaries = num_chunks(t.shape) - (row.schedule == Schedule::kZbV ? 2 : 1);
  CHECK(messages == 2 * num_microbatches(s) * boundaries);
}
