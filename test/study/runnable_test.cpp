#include "study/runnable.hpp"

#include "frameworks/target.hpp"
#include "spec/strategy_keys.hpp"
#include "study/fixed_case.hpp"
#include "study/studies.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

struct Searched {
  SearchResult found;
  std::optional<RunnablePlan> runnable;
};

Searched searched(const Case& c) {
  Result<SearchResult> found = search(c.model, c.cluster, c.request);
  REQUIRE(found.ok());
  REQUIRE_FALSE(found->plans.empty());
  Result<std::optional<RunnablePlan>> runnable =
      runnable_plan(c.model, c.cluster, c.request, *found);
  REQUIRE(runnable.ok());
  return {std::move(found).value(), std::move(runnable).value()};
}

}  // namespace

TEST_CASE("where the framework cannot run the best plan, the best that it can is named") {
  // Megatron-LM has no zero-bubble schedules, and 5 layers do not divide by 2 without a layout.
  const Case c = fixed_case(5, "megatron", "pp=2,schedule=1f1b|zb-h1");
  const Searched a = searched(c);
  const PlanCost& best = a.found.plans.front();
  REQUIRE(best.strategy.schedule == Schedule::kZbH1);
  REQUIRE(a.runnable.has_value());
  CHECK(a.runnable->space == Space::kMegatron);
  CHECK(a.runnable->exact);
  REQUIRE(a.runnable->plan.has_value());
  const PlanCost& plan = *a.runnable->plan;
  CHECK(plan.strategy.schedule == Schedule::k1f1b);
  CHECK(inexpressible(plan.strategy, c.model, c.cluster).empty());
  CHECK(a.runnable->slowdown == Approx(plan.step_time / best.step_time));
  CHECK(a.runnable->slowdown >= 1);
  Case narrow = c;
  narrow.request.space = Space::kMegatron;
  CHECK(searched(narrow).found.plans.front().strategy == plan.strategy);
}

TEST_CASE("no decision is said to cost more than the plan that can be run, which takes it too") {
  int compared = 0;
  for (const char* fixed : {"pp=2,schedule=1f1b|zb-h1", "pp=4,schedule=1f1b|zb-v", "pp=4", "tp=2",
                            "pp=2,schedule=1f1b|zb-v", "zero=1"}) {
    CAPTURE(fixed);
    const Case c = fixed_case(5, "megatron", fixed);
    const Result<Answer> a = answer(c.model, c.cluster, c.request, StudyRequest{});
    REQUIRE(a.ok());
    const std::optional<RunnablePlan>& runnable = a->studies.runnable;
    if (!runnable || !runnable->plan) continue;
    for (const Rival& rival : a->studies.rivals) {
      if (value_text(runnable->plan->strategy, rival.key) != rival.value) continue;
      CAPTURE(rival.key, rival.value);
      REQUIRE(rival.plan.has_value());
      CHECK(rival.plan->step_time <= runnable->plan->step_time);
      ++compared;
    }
  }
  CHECK(compared > 3);
}

TEST_CASE("a plan that its framework can run needs no other") {
  Case c = fixed_case(5, "megatron", "pp=1,order=tp-cp-ep-dp-pp");
  CHECK_FALSE(searched(c).runnable.has_value());
  c = fixed_case(5, "megatron", "pp=2");
  c.request.space = Space::kMegatron;
  CHECK_FALSE(searched(c).runnable.has_value());
}

TEST_CASE("a framework that cannot be told what is fixed has no plan to name") {
  const Searched a = searched(fixed_case(5, "megatron", "pp=2,schedule=zb-h1"));
  REQUIRE(a.runnable.has_value());
  CHECK_FALSE(a.runnable->plan.has_value());
}

TEST_CASE("presets without a space of their own are left alone") {
  CHECK_FALSE(searched(fixed_case(5, "nanotron", "pp=2,schedule=zb-h1")).runnable.has_value());
}
