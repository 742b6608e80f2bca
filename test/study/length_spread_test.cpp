#include "study/length_spread.hpp"

#include "cost/step.hpp"
#include "frameworks/preset.hpp"
#include "search/cases.hpp"
#include "search/search.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

ModelSpec uneven_model() {
  ModelSpec m = small_model(4, 2048);
  m.max_seq_length = 8192;
  m.lengths = *parse_length_distribution("lognormal(900, 1200)");
  return m;
}

PlanCost plan_of(const ModelSpec& m, Packing packing) {
  const ClusterSpec c = small_cluster(1, 8, Bytes{80 * kGiB});
  Strategy s = framework_preset(Framework::kMegatron);
  s.dp = 0, s.global_batch = 64, s.seq_len = 8192, s.packing = packing;
  const Verdict v = evaluate(m, c, s);
  REQUIRE(v.feasible());
  return v.cost();
}

}  // namespace

TEST_CASE("steps of uneven documents lie around the plan's") {
  const ClusterSpec c = small_cluster(1, 8, Bytes{80 * kGiB});
  const ModelSpec m = uneven_model();
  for (const auto& choice : NameTable<Packing>::rows) {
    const PlanCost plan = plan_of(m, choice.value);
    const std::optional<LengthSpread> spread = length_spread(m, c, plan);
    REQUIRE(spread);
    INFO(choice.name);
    CHECK(spread->step_median.si() <= spread->step_p99.si() * (1 + 1e-12));
    CHECK(spread->step_p99.si() >= plan.step_time.si() * (1 - 1e-12));
    CHECK(spread->peak_median <= spread->peak_p99);
    CHECK(spread->peak_p99 <= plan.memory().peak);
    if (choice.value == Packing::kNone) {
      CHECK(spread->peak_median < spread->peak_p99);
    } else {
      CHECK(spread->peak_median == plan.memory().peak);
    }
  }
}

TEST_CASE(
    "packing gives more tokens of documents a second than padding, the plan's own is the plan") {
  const ClusterSpec c = small_cluster(1, 8, Bytes{80 * kGiB});
  const ModelSpec m = uneven_model();
  const PlanCost plan = plan_of(m, Packing::kPack);
  const std::vector<PackingChoice> all = packing_choices(m, c, plan);
  REQUIRE(all.size() == 4);
  const auto rate = [&](Packing p) {
    for (const PackingChoice& choice : all) {
      if (choice.packing == p) return choice.tokens_per_s;
    }
    return 0.0;
  };
  CHECK(rate(Packing::kPack) == plan.tokens_per_step / plan.step_time.si());
  CHECK(rate(Packing::kBalanced) > rate(Packing::kPack));
  CHECK(rate(Packing::kPack) > 3 * rate(Packing::kPad));
  CHECK_FALSE(length_spread(small_model(4, 2048), c, plan));
}

TEST_CASE("a search with documents finds what its estimate says") {
  const ClusterSpec c = small_cluster(1, 8, Bytes{20 * kGiB});
  const ModelSpec m = uneven_model();
  for (const auto& choice : NameTable<Packing>::rows) {
    SearchRequest request;
    request.base = framework_preset(Framework::kMegatron);
    request.base.global_batch = 64, request.base.seq_len = 8192;
    request.base.packing = choice.value;
    request.top = 3;
    const Result<SearchResult> found = search(m, c, request);
    REQUIRE(found);
    REQUIRE_FALSE(found->plans.empty());
    for (const PlanCost& plan : found->plans) {
      CHECK(plan.strategy.packing == choice.value);
      CHECK(evaluate(m, c, plan.strategy).cost().step_time == plan.step_time);
    }
  }
}
