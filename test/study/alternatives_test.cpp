#include "study/alternatives.hpp"

#include "cost/uncertainty.hpp"
#include "frameworks/preset.hpp"
#include "search/cases.hpp"
#include "study/studies.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

Case case_of(std::int64_t memory_gib) {
  Case c;
  c.model = small_model(4, 2048);
  c.cluster = small_cluster(1, 4, Bytes{memory_gib * kGiB});
  c.request.base = framework_preset(Framework::kMegatron);
  c.request.base.global_batch = 16, c.request.base.seq_len = 4096;
  c.request.space = Space::kMegatron;
  c.request.memory_risk = 0.1;
  c.request.with_closest_miss = true;
  return c;
}

Answer answer(const Case& c) {
  Result<Answer> found = answer(c.model, c.cluster, c.request, StudyRequest{});
  REQUIRE(found.ok());
  return std::move(found).value();
}

SearchResult search_of(const Case& c) {
  Result<SearchResult> found = search(c.model, c.cluster, c.request);
  REQUIRE(found.ok());
  return std::move(found).value();
}

}  // namespace

TEST_CASE(
    "what more risk or more than a framework runs would bring is the best of those searches") {
  int faster = 0;
  for (const std::int64_t memory : {6, 8, 10, 14, 20, 40}) {
    CAPTURE(memory);
    const Case c = case_of(memory);
    const Answer a = answer(c);
    if (a.result.plans.empty()) continue;
    const PlanCost& best = a.result.plans.front();
    CHECK(out_of_memory_probability(best.memory()) <= 0.1);
    const Alternatives& others = a.studies.alternatives;
    for (const bool risky : {true, false}) {
      Case wide = c;
      if (risky) {
        wide.request.memory_risk = 1;
      } else {
        wide.request.space = Space::kFull;
      }
      const PlanCost other = search_of(wide).plans.front();
      const std::optional<Alternative>& named = risky ? others.fastest : others.unbuilt;
      REQUIRE(named.has_value());
      CHECK(named->exact);
      CHECK(named->memory_risk == wide.request.memory_risk);
      CHECK(named->space == wide.request.space);
      REQUIRE(named->plan.has_value() == (other.step_time < best.step_time));
      if (!named->plan) continue;
      ++faster;
      CHECK(named->plan->step_time == other.step_time);
      CHECK(named->out_of_memory == out_of_memory_probability(named->plan->memory()));
      CHECK(*named->slowdown == Approx(other.step_time / best.step_time));
    }
  }
  CHECK(faster >= 2);
}

TEST_CASE(
    "where nothing is as safe, the fastest that fits is named, and where nothing fits, what "
    "misses") {
  Case c = case_of(6);
  c.request.memory_risk = 1e-6;
  c.request.limits = {only("recompute", {"none"}), only("micro_batch", {"1"})};
  const Answer strict = answer(c);
  CHECK(strict.result.plans.empty());
  CHECK_FALSE(strict.result.closest_miss.has_value());
  REQUIRE(strict.studies.alternatives.fastest.has_value());
  REQUIRE(strict.studies.alternatives.fastest->plan.has_value());
  CHECK_FALSE(strict.studies.alternatives.fastest->slowdown.has_value());
  c.cluster.device.memory = Bytes{kGiB};
  const Answer none = answer(c);
  CHECK(none.result.plans.empty());
  CHECK(none.result.closest_miss.has_value());
  REQUIRE(none.studies.alternatives.fastest.has_value());
  CHECK_FALSE(none.studies.alternatives.fastest->plan.has_value());
}

TEST_CASE("a request for everything has no alternatives") {
  Case c = case_of(10);
  c.request.memory_risk = 1, c.request.space = Space::kFull;
  const Answer all = answer(c);
  CHECK_FALSE(all.studies.alternatives.fastest.has_value());
  CHECK_FALSE(all.studies.alternatives.unbuilt.has_value());
  c = case_of(10);
  c.request.ignore_activations = true;
  CHECK_FALSE(answer(c).studies.alternatives.fastest.has_value());
}
