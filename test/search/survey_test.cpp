#include "search/survey.hpp"

#include <algorithm>

#include "frameworks/preset.hpp"
#include "search/cases.hpp"
#include "spec/limits.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

SearchResult searched(const Case& c) {
  Result<SearchResult> result = search(c.model, c.cluster, c.request);
  REQUIRE(result.ok());
  return std::move(result).value();
}

bool dominates(const SurveyedPlan& a, const SurveyedPlan& b) {
  const bool better = a.step_time < b.step_time || a.peak_memory < b.peak_memory;
  return a.fits && better && a.step_time <= b.step_time && a.peak_memory <= b.peak_memory;
}

}  // namespace

TEST_CASE("no surveyed plan that fits beats the plan that was proved best") {
  const auto seed = GENERATE(range(1u, 25u));
  const Case c = random_case(seed);
  const SearchResult result = searched(c);
  const std::vector<SurveyedPlan> all = survey(c.model, c.cluster, c.request, result, 200);
  for (const SurveyedPlan& plan : all) {
    INFO(to_text(plan.strategy));
    const double best = result.plans.empty() ? 0 : result.plans.front().step_time.si();
    if (plan.fits) CHECK(plan.step_time.si() >= best * (1 - 1e-12));
    CHECK((!plan.fits || !result.plans.empty()));
  }
}

TEST_CASE("every ranked plan is among the surveyed ones, once, with its rank") {
  const Case c = random_case(3);
  const SearchResult result = searched(c);
  REQUIRE(!result.plans.empty());
  const std::vector<SurveyedPlan> all = survey(c.model, c.cluster, c.request, result, 100);
  for (std::size_t i = 0; i < result.plans.size(); ++i) {
    CHECK(std::count_if(all.begin(), all.end(), [&](const SurveyedPlan& plan) {
            return plan.strategy == result.plans[i].strategy && plan.rank == i + 1;
          }) == 1);
  }
  CHECK(all.size() > result.plans.size());
  CHECK(all.size() <= result.plans.size() + 100);
}

TEST_CASE(
    "a surveyed plan costs what evaluating it says, keeps to the limits, and fits if it fits") {
  const auto seed = GENERATE(range(1u, 13u));
  const Case c = random_case(seed);
  const std::vector<SurveyedPlan> all = survey(c.model, c.cluster, c.request, searched(c), 100);
  for (const SurveyedPlan& plan : all) {
    INFO(to_text(plan.strategy));
    const Verdict verdict = evaluate(c.model, c.cluster, plan.strategy);
    CHECK(verdict.feasible() == plan.fits);
    if (verdict.feasible()) CHECK(verdict.cost().step_time == plan.step_time);
    for (const Limit& limit : c.request.limits) CHECK(satisfies(plan.strategy, limit));
  }
}

TEST_CASE("the front is what nothing that fits dominates") {
  const auto seed = GENERATE(range(1u, 13u));
  const Case c = random_case(seed);
  const std::vector<SurveyedPlan> all = survey(c.model, c.cluster, c.request, searched(c), 150);
  for (const SurveyedPlan& plan : all) {
    const bool dominated = std::any_of(
        all.begin(), all.end(), [&](const SurveyedPlan& other) { return dominates(other, plan); });
    // Of several that are equal in both, one is enough.
    if (plan.pareto) CHECK((plan.fits && !dominated));
    if (plan.fits && !dominated && !plan.pareto) {
      CHECK(std::any_of(all.begin(), all.end(), [&](const SurveyedPlan& other) {
        return other.pareto && other.step_time == plan.step_time &&
               other.peak_memory == plan.peak_memory;
      }));
    }
  }
}

TEST_CASE("a survey does not depend on the number of threads") {
  Case c = random_case(7);
  const SearchResult result = searched(c);
  const std::vector<SurveyedPlan> one = survey(c.model, c.cluster, c.request, result, 120);
  c.request.threads = 4;
  const std::vector<SurveyedPlan> four = survey(c.model, c.cluster, c.request, result, 120);
  REQUIRE(one.size() == four.size());
  for (std::size_t i = 0; i < one.size(); ++i) CHECK(one[i].strategy == four[i].strategy);
}
