#include "study/difference.hpp"

#include "frameworks/preset.hpp"
#include "search/cases.hpp"
#include "search/search.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

// The best plan of a random job, and strategies beside it.
struct Pair {
  Case job;
  PlanCost best;
  Strategy other;
};

std::vector<Pair> random_pairs() {
  std::vector<Pair> pairs;
  for (unsigned seed = 0; seed < 40; ++seed) {
    Case c = random_case(seed);
    c.request.top = 8;
    const Result<SearchResult> found = search(c.model, c.cluster, c.request);
    if (!found || found->plans.size() < 2) continue;
    const SearchResult& r = *found;
    for (const PlanCost& plan : r.plans) pairs.push_back({c, r.plans.front(), plan.strategy});
    Strategy plain = c.request.base;
    plain.dp = 0;
    pairs.push_back({c, r.plans.front(), plain});
  }
  return pairs;
}

}  // namespace

TEST_CASE("[F-DIFF-1] differences of the terms add up to the difference of the step times") {
  int compared = 0;
  for (const Pair& p : random_pairs()) {
    const Difference d = difference(p.job.model, p.job.cluster, p.best, p.other);
    if (!d.cost) continue;
    ++compared;
    CHECK(d.step_time == total(d.terms));
    CHECK(
        d.step_time.si() ==
        Approx((d.cost->step_time - p.best.step_time).si()).margin(1e-12 * d.cost->step_time.si()));
    CHECK(d.terms.compute == d.cost->time.compute - p.best.time.compute);
    CHECK(d.terms.pp_bubble == d.cost->time.pp_bubble - p.best.time.pp_bubble);
    CHECK(d.terms.other == d.cost->time.other - p.best.time.other);
  }
  CHECK(compared > 100);
}

TEST_CASE("the best plan differs from itself in nothing") {
  for (const Pair& p : random_pairs()) {
    const Difference d = difference(p.job.model, p.job.cluster, p.best, p.best.strategy);
    REQUIRE(d.cost);
    CHECK(d.step_time == Seconds{});
    CHECK(d.changes.empty());
  }
}

TEST_CASE("each change is what estimating the changed strategy says, the best first") {
  std::size_t changes = 0;
  for (const Pair& p : random_pairs()) {
    const Difference d = difference(p.job.model, p.job.cluster, p.best, p.other);
    double last = 0;
    for (const KeyChange& change : d.changes) {
      ++changes;
      CAPTURE(to_text(change.strategy));
      const Verdict again = evaluate(p.job.model, p.job.cluster, change.strategy);
      REQUIRE(again.feasible() == change.verdict.feasible());
      if (!again.feasible()) continue;
      CHECK(again.cost().step_time == change.verdict.cost().step_time);
      CHECK(change.verdict.cost().step_time.si() >= last);
      last = change.verdict.cost().step_time.si();
    }
  }
  CHECK(changes > 100);
}

TEST_CASE("a strategy that does not fit is still compared") {
  const ModelSpec m = small_model(6, 4096);
  const ClusterSpec c = small_cluster(1, 4, Bytes{16 * kGiB});
  SearchRequest request;
  request.base = framework_preset(Framework::kMegatron);
  request.base.global_batch = 8, request.base.seq_len = 2048;
  const Result<SearchResult> found = search(m, c, request);
  REQUIRE(found.ok());
  REQUIRE_FALSE(found->plans.empty());
  Strategy copies = request.base;
  copies.dp = 0, copies.zero = 0;
  const Difference d = difference(m, c, found->plans.front(), copies);
  REQUIRE_FALSE(d.verdict.feasible());
  REQUIRE(d.cost);
  CHECK(d.cost->memory().peak > c.device.memory);
  CHECK(d.step_time.si() == Approx((d.cost->step_time - d.best.step_time).si()));
}

TEST_CASE("an illegal strategy has nothing to compare") {
  const ModelSpec m = small_model(6, 1024);
  const ClusterSpec c = small_cluster(1, 4, Bytes{16 * kGiB});
  Strategy s = framework_preset(Framework::kMegatron);
  s.tp = 3, s.dp = 0, s.global_batch = 8, s.seq_len = 2048;
  const Difference d = difference(m, c, PlanCost{}, s);
  CHECK_FALSE(d.cost);
  CHECK(d.changes.empty());
  CHECK(d.verdict.infeasible().reason == InfeasibleReason::kIllegal);
}
