#include "study/sweep.hpp"

#include "search/cases.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

SweepPoint point(std::int64_t gpus, double seconds) {
  SweepPoint p;
  p.gpus = gpus;
  PlanCost plan;
  plan.step_time = Seconds{seconds};
  p.result.plans.push_back(plan);
  return p;
}

Sweep scaled(std::vector<SweepPoint> points) {
  Sweep s;
  s.points = std::move(points);
  fill_scaling(s);
  return s;
}

}  // namespace

TEST_CASE("[F-SWEEP-1] speedup and efficiency refer to the smallest size that fits") {
  SweepPoint nothing;
  nothing.gpus = 4;
  const Sweep s = scaled({nothing, point(8, 100), point(16, 50), point(32, 40), point(96, 25)});
  REQUIRE(s.base == 1u);
  CHECK(s.points[1].speedup == 1);
  CHECK(s.points[1].efficiency == 1);
  CHECK(s.points[2].speedup == 2);
  CHECK(s.points[2].efficiency == 1);
  CHECK(s.points[3].speedup == 2.5);
  CHECK(s.points[3].efficiency == 0.625);
  CHECK(s.points[4].speedup == 4);
  CHECK(s.points[4].efficiency == Approx(1.0 / 3));
}

TEST_CASE("[F-SWEEP-2] the knee is where efficiency over time is largest") {
  // E / T: 1 / 100, 1 / 50, 0.833 / 30, 0.5 / 25: the third.
  CHECK(scaled({point(1, 100), point(2, 50), point(4, 30), point(8, 25)}).knee == 2u);
  CHECK_FALSE(scaled({}).knee);
}

// T = s + (1 - s) / n: n T^2 is smallest at n = (1 - s) / s.
TEST_CASE("[F-SWEEP-2] the knee of Amdahl's law lies at parallel over serial share") {
  const auto [parallel, index] =
      GENERATE(std::pair<double, std::size_t>{8, 3}, std::pair<double, std::size_t>{32, 5});
  const double serial = 1 / (1 + parallel);
  std::vector<SweepPoint> points;
  for (std::int64_t n = 1; n <= 128; n *= 2) {
    points.push_back(point(n, serial + (1 - serial) / static_cast<double>(n)));
  }
  CHECK(scaled(std::move(points)).knee == index);
}

TEST_CASE("linear scaling has its knee at the largest size") {
  CHECK(scaled({point(1, 8), point(2, 4), point(4, 2), point(8, 1)}).knee == 3u);
}

TEST_CASE("a sweep holds what a search of each size finds") {
  Case c = random_case(3);
  c.cluster = small_cluster(4, 4, Bytes{40 * kGiB});
  c.request.base.global_batch = 32;
  const std::vector<std::int64_t> sizes{2, 4, 8, 16};
  const Result<Sweep> swept = sweep(c.model, c.cluster, c.request, sizes, {});
  REQUIRE(swept.ok());
  REQUIRE(swept->points.size() == sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const Result<SearchResult> alone = search(c.model, with_gpus(c.cluster, sizes[i]), c.request);
    REQUIRE(alone.ok());
    const SweepPoint& p = swept->points[i];
    CHECK(p.gpus == sizes[i]);
    REQUIRE(p.result.plans.size() == alone->plans.size());
    if (p.fits()) CHECK(p.result.plans.front().step_time == alone->plans.front().step_time);
  }
}

TEST_CASE("the cheapest size is the smallest of those with the fewest device-seconds") {
  SweepPoint nothing;
  nothing.gpus = 4;
  const Sweep s = scaled({nothing, point(8, 100), point(16, 40), point(32, 20), point(64, 15)});
  CHECK(s.cheapest == 2u);
  CHECK(s.recommended == s.knee);
  CHECK_FALSE(scaled({nothing}).cheapest);
}

TEST_CASE("where the cost is the objective a sweep recommends the cheapest size") {
  Case c = random_case(3);
  c.cluster = small_cluster(4, 4, Bytes{40 * kGiB});
  c.request.base.global_batch = 32;
  c.request.objective = Objective::kCost;
  const Result<Sweep> swept = sweep(c.model, c.cluster, c.request, {2, 4, 8, 16}, {});
  REQUIRE(swept.ok());
  REQUIRE(swept->cheapest);
  CHECK(swept->recommended == swept->cheapest);
}

TEST_CASE("a time limit is for all sizes of a sweep") {
  Case c = random_case(3);
  c.cluster = small_cluster(4, 4, Bytes{40 * kGiB});
  c.request.base.global_batch = 32;
  c.request.time_limit = Seconds{60};
  const std::vector<std::int64_t> sizes{2, 4, 8, 16};
  const Result<Sweep> swept = sweep(c.model, c.cluster, c.request, sizes, {});
  REQUIRE(swept.ok());
  for (const SweepPoint& p : swept->points) CHECK(p.result.proof.exact);
  c.request.time_limit = Seconds{1e-9};
  const Result<Sweep> none = sweep(c.model, c.cluster, c.request, sizes, {});
  REQUIRE(none.ok());
  CHECK(none->points.size() == sizes.size());
}

TEST_CASE("failures bring the knee forward") {
  // Nearly linear in steps, but a job of many devices fails all the time.
  std::vector<SweepPoint> points;
  for (std::int64_t n = 1; n <= 64; n *= 2)
    points.push_back(point(n, 64.0 / static_cast<double>(n)));
  CHECK(scaled(points).knee == 6u);
  for (SweepPoint& p : points) {
    const Seconds m = time_between_failures(1, p.gpus), d{200}, r{300};
    p.goodput = Goodput{};
    p.goodput->shares = wall_shares(daly_interval(d, m), d, r, m);
  }
  const Sweep s = scaled(points);
  REQUIRE(s.knee);
  CHECK(*s.knee < 6);
  CHECK(s.points[0].efficiency == 1);
  CHECK(s.points[6].efficiency < 0.6);
}
