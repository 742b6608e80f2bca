#include "study/safer.hpp"

#include "cost/uncertainty.hpp"
#include "frameworks/preset.hpp"
#include "search/cases.hpp"
#include "study/pareto.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

struct Answer {
  SearchResult found;
  std::optional<SaferPlan> safer;
};

Answer answer(const Case& c, double risk) {
  Result<SearchResult> found = search(c.model, c.cluster, c.request);
  REQUIRE(found.ok());
  Result<std::optional<SaferPlan>> safer = safer_plan(c.model, c.cluster, c.request, *found, risk);
  REQUIRE(safer.ok());
  return {std::move(found).value(), std::move(safer).value()};
}

Case case_of(std::int64_t memory_gib) {
  Case c;
  c.model = small_model(4, 2048);
  c.cluster = small_cluster(1, 4, Bytes{memory_gib * kGiB});
  c.request.base = framework_preset(Framework::kMegatron);
  c.request.base.global_batch = 16, c.request.base.seq_len = 4096;
  return c;
}

}  // namespace

TEST_CASE("the safe budget is where the chance of running out of memory is the accepted one") {
  const Answer a = answer(case_of(12), 1);
  REQUIRE_FALSE(a.found.plans.empty());
  MemoryBreakdown m = a.found.plans.front().memory();
  for (const double risk : {0.02, 0.1, 0.5}) {
    // The same parts on a device that is larger by what the budget is smaller.
    const Bytes budget = safe_budget(m, risk);
    MemoryBreakdown larger = m;
    larger.capacity = ceil_bytes(m.peak.si() * (m.capacity.si() / budget.si()));
    CHECK(out_of_memory_probability(larger) == Approx(risk).epsilon(0.01));
  }
}

TEST_CASE("a safer plan keeps the accepted risk and is the best of its memory") {
  int safer_found = 0, unsafe = 0;
  for (const std::int64_t memory : {6, 8, 10, 14, 20, 40}) {
    const Case c = case_of(memory);
    const Answer a = answer(c, 0.1);
    if (a.found.plans.empty()) continue;
    const PlanCost& best = a.found.plans.front();
    const bool risky = out_of_memory_probability(best.memory()) > 0.1;
    REQUIRE(a.safer.has_value() == risky);
    if (!risky) continue;
    ++unsafe;
    if (!a.safer->plan) continue;
    ++safer_found;
    const PlanCost& plan = *a.safer->plan;
    CHECK(a.safer->exact);
    CHECK(out_of_memory_probability(plan.memory()) <= 0.1);
    CHECK(a.safer->out_of_memory == out_of_memory_probability(plan.memory()));
    CHECK(plan.memory().capacity == c.cluster.device.memory);
    CHECK(a.safer->slowdown == Approx(plan.step_time / best.step_time));
    CHECK(a.safer->slowdown >= 1);
    // No point of the front takes less memory and less time.
    const std::vector<std::int64_t> sizes{num_gpus(c.cluster)};
    const auto front = pareto_front(c.model, c.cluster, c.request, sizes, Bytes{kMiB});
    REQUIRE(front.ok());
    for (const ParetoPoint& p : front->points) {
      const bool beats =
          p.plan.step_time < plan.step_time * 0.999999 && p.plan.memory().peak < plan.memory().peak;
      CHECK_FALSE(beats);
    }
  }
  CHECK(safer_found >= 2);
  CHECK(unsafe >= safer_found);
}

TEST_CASE("where nothing is as safe, a safer plan says so") {
  Case c = case_of(6);
  c.request.limits = {only("recompute", {"none"}), only("micro_batch", {"1"})};
  const Answer loose = answer(c, 1);
  REQUIRE_FALSE(loose.found.plans.empty());
  CHECK_FALSE(loose.safer.has_value());
  const Answer strict = answer(c, 1e-6);
  REQUIRE(strict.safer.has_value());
  CHECK_FALSE(strict.safer->plan.has_value());
}

TEST_CASE("memory that is not counted needs no safer plan") {
  Case c = case_of(6);
  c.request.ignore_activations = true;
  CHECK_FALSE(answer(c, 1e-6).safer.has_value());
}
