#include "study/expert_spread.hpp"

#include "cost/step.hpp"
#include "frameworks/preset.hpp"
#include "search/cases.hpp"
#include "search/search.hpp"
#include "spec/expert_load.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

ModelSpec mixture(double exponent) {
  ModelSpec m = small_model(4, 2048);
  add_experts(m, 16, 0, 1);
  m.moe->load_zipf = exponent;
  derive_loads(*m.moe);
  return m;
}

Strategy spread(std::int64_t ep) {
  Strategy s = framework_preset(Framework::kMegatron);
  s.ep = ep, s.dp = 0, s.global_batch = 32, s.seq_len = 4096;
  return s;
}

}  // namespace

TEST_CASE(
    "the spread encloses the plan: its time at the median, its memory at the 99th percentile") {
  const ClusterSpec c = small_cluster(1, 8, Bytes{80 * kGiB});
  const ModelSpec m = mixture(0.8);
  const Verdict v = evaluate(m, c, spread(8));
  REQUIRE(v.feasible());
  const std::optional<ExpertSpread> s = expert_spread(m, c, v.cost());
  REQUIRE(s);
  CHECK(s->load == rank_load(*m.moe, 8));
  CHECK(s->step_median == v.cost().step_time);
  CHECK(s->step_p99 > s->step_median);
  CHECK(s->peak_p99 == v.cost().memory().peak);
  CHECK(s->peak_median < s->peak_p99);
}

TEST_CASE("where loads are even, or one number, there is no spread") {
  const ClusterSpec c = small_cluster(1, 8, Bytes{80 * kGiB});
  ModelSpec plain = small_model(4, 2048);
  add_experts(plain, 16, 0, 1);
  plain.moe->imbalance = 1.5;
  const Verdict v = evaluate(plain, c, spread(8));
  REQUIRE(v.feasible());
  CHECK_FALSE(expert_spread(plain, c, v.cost()));
  const ModelSpec even = mixture(0);
  const std::optional<ExpertSpread> s = expert_spread(even, c, evaluate(even, c, spread(8)).cost());
  REQUIRE(s);
  CHECK(s->step_p99.si() == Approx(s->step_median.si()));
  CHECK(s->peak_p99 == s->peak_median);
}

// Few tokens for many experts: spread, an expert's products are large enough to be efficient; but
// then every rank waits for the busiest.
TEST_CASE("uneven experts make the search spread them less") {
  const ClusterSpec c = small_cluster(1, 8, Bytes{80 * kGiB});
  SearchRequest request;
  request.base = framework_preset(Framework::kMegatron);
  request.base.global_batch = 32, request.base.seq_len = 1024;
  request.limits = {only("tp", {"1"}), only("pp", {"1"}), only("cp", {"1"}),
                    only("micro_batch", {"1"})};
  request.top = 1;
  const auto chosen = [&](double exponent) {
    ModelSpec m = small_model(4, 2048);
    add_experts(m, 64, 0, 1);
    m.moe->top_k = 4;
    m.moe->load_zipf = exponent;
    derive_loads(*m.moe);
    const Result<SearchResult> found = search(m, c, request);
    REQUIRE(found.ok());
    REQUIRE_FALSE(found->plans.empty());
    return found->plans.front().strategy.ep;
  };
  const std::int64_t even = chosen(0), uneven = chosen(1.5);
  CAPTURE(even, uneven);
  CHECK(uneven < even);
}
