#include "study/pareto.hpp"

#include <algorithm>

#include "frameworks/preset.hpp"
#include "search/brute_force.hpp"
#include "search/cases.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

struct Plain {
  double time = 0;
  std::int64_t peak = 0;
};

bool beats(const Plain& a, const Plain& b) {
  return a.time <= b.time && a.peak <= b.peak && (a.time < b.time || a.peak < b.peak);
}

std::vector<Plain> plain(const ParetoFront& front) {
  std::vector<Plain> all;
  for (const ParetoPoint& p : front.points) {
    all.push_back({p.plan.step_time.si(), p.plan.memory().peak.count()});
  }
  return all;
}

ParetoFront exact_front(const Case& c) {
  const std::vector<std::int64_t> sizes{num_gpus(c.cluster)};
  Result<ParetoFront> front = pareto_front(c.model, c.cluster, c.request, sizes, Bytes{1});
  REQUIRE(front.ok());
  REQUIRE(front->exact);
  return std::move(front).value();
}

// Every legal strategy without a pipeline, with every number of recomputed layers.
std::vector<Plain> all_without_pipeline(const Case& c) {
  std::vector<Plain> all;
  Strategy s = c.request.base;
  const std::int64_t gpus = num_gpus(c.cluster);
  const auto evaluate_one = [&](const Strategy& one) {
    EvaluateOptions options;
    options.with_remedies = false;
    const Verdict v = evaluate(c.model, c.cluster, one, options);
    if (v.feasible()) all.push_back({v.cost().step_time.si(), v.cost().memory().peak.count()});
  };
  for (s.tp = 1; s.tp <= gpus; s.tp *= 2) {
    for (const bool sequence_parallel : {false, true}) {
      s.sequence_parallel = sequence_parallel;
      for (s.micro_batch = 1; s.micro_batch <= s.global_batch; ++s.micro_batch) {
        for (s.zero = 0; s.zero <= 3; ++s.zero) {
          s.dp = gpus / s.tp;
          if (s.dp == 1 && s.zero > 0) continue;  // nothing to shard: the space knows one spelling
          s.recompute_layers.clear();
          s.recompute = Recompute::kNone;
          evaluate_one(s);
          s.recompute = Recompute::kSelective;
          evaluate_one(s);
          s.recompute = Recompute::kFull;
          for (std::int64_t n = 1; n <= c.model.num_layers; ++n) {
            s.recompute_layers = {n};
            evaluate_one(s);
          }
        }
      }
    }
  }
  return all;
}

}  // namespace

TEST_CASE("the filter keeps what no other point beats") {
  Dice dice(5);
  for (int round = 0; round < 50; ++round) {
    std::vector<ParetoPoint> points;
    for (int i = 0; i < 60; ++i) {
      ParetoPoint p;
      p.gpus = std::int64_t{1} << dice.between(0, 3);
      p.plan.step_time = Seconds{static_cast<double>(dice.between(1, 12))};
      p.plan.stages.resize(1);
      p.plan.stages[0].memory.capacity = Bytes{100};
      p.plan.stages[0].memory.peak = Bytes{dice.between(1, 12)};
      points.push_back(p);
    }
    const auto value = [](const ParetoPoint& p) {
      return std::tuple(p.plan.step_time.si(), p.gpus, p.plan.memory().peak.count());
    };
    std::vector<std::tuple<double, std::int64_t, std::int64_t>> expected;
    for (const ParetoPoint& p : points) {
      const bool beaten = std::any_of(points.begin(), points.end(), [&](const ParetoPoint& q) {
        const auto [t, n, m] = value(p);
        const auto [u, k, l] = value(q);
        return u <= t && k <= n && l <= m && value(q) != value(p);
      });
      if (!beaten) expected.push_back(value(p));
    }
    std::sort(expected.begin(), expected.end());
    expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
    std::vector<std::tuple<double, std::int64_t, std::int64_t>> got;
    for (const ParetoPoint& p : non_dominated(points)) got.push_back(value(p));
    CHECK(got == expected);
  }
}

TEST_CASE("[F-PARETO-1] the front is the filter of all strategies") {
  int points = 0;
  for (unsigned seed = 0; seed < 12; ++seed) {
    Dice dice(seed);
    Case c;
    c.model = small_model(dice.between(2, 5), 1024 * dice.between(2, 4));
    c.cluster = small_cluster(1, 4, Bytes{dice.between(8, 40) * kGiB});
    c.request.base = framework_preset(Framework::kMegatron);
    c.request.base.global_batch = 8, c.request.base.seq_len = 2048;
    c.request.limits = {only("pp", {"1"}), only("cp", {"1"}), only("zero_group", {"0"}),
                        only("offload.optimizer", {"false"}),
                        only("offload.activations", {"false"})};
    const std::vector<Plain> all = all_without_pipeline(c);
    std::vector<Plain> expected;
    for (const Plain& p : all) {
      if (std::none_of(all.begin(), all.end(), [&](const Plain& q) { return beats(q, p); })) {
        expected.push_back(p);
      }
    }
    const auto order = [](const Plain& a, const Plain& b) { return a.time < b.time; };
    const auto same = [](const Plain& a, const Plain& b) {
      return a.time == b.time && a.peak == b.peak;
    };
    std::sort(expected.begin(), expected.end(), order);
    expected.erase(std::unique(expected.begin(), expected.end(), same), expected.end());
    const std::vector<Plain> got = plain(exact_front(c));
    CAPTURE(seed, all.size(), expected.size(), got.size());
    REQUIRE(got.size() == expected.size());
    CHECK(std::equal(got.begin(), got.end(), expected.begin(), same));
    points += static_cast<int>(got.size());
  }
  CHECK(points > 40);
}

TEST_CASE("[F-PARETO-1] no plan that a search ranks beats the front, or is missing from it") {
  int compared = 0;
  for (unsigned seed = 0; seed < 25; ++seed) {
    Case c = random_case(seed);
    c.request.objective = Objective::kStepTime;
    const std::vector<Plain> front = plain(exact_front(c));
    CAPTURE(seed, front.size());
    for (std::size_t i = 1; i < front.size(); ++i) {
      CHECK(front[i].time > front[i - 1].time);
      CHECK(front[i].peak < front[i - 1].peak);
    }
    for (const Found& plan : try_everything(c, false).plans) {
      const Plain p{plan.step_time.si(), plan.peak.count()};
      ++compared;
      CHECK(std::none_of(front.begin(), front.end(), [&](const Plain& f) { return beats(p, f); }));
      CHECK(std::any_of(front.begin(), front.end(),
                        [&](const Plain& f) { return f.time <= p.time && f.peak <= p.peak; }));
    }
  }
  CHECK(compared > 500);
}

namespace {

// A search from scratch for each budget.
std::vector<PlanCost> searched_front(const Case& c, Bytes resolution) {
  std::vector<PlanCost> all;
  SearchRequest request = c.request;
  request.top = 1;
  ClusterSpec limited = c.cluster;
  while (limited.device.memory > limited.device.context && !has_errors(validate(limited))) {
    const Result<SearchResult> found = search(c.model, limited, request);
    REQUIRE(found.ok());
    REQUIRE(found->proof.exact);
    if (found->plans.empty()) break;
    all.push_back(full_plan(c.model, c.cluster, found->plans.front().strategy));
    limited.device.memory = all.back().memory().peak - resolution;
  }
  return all;
}

// More layers and devices than can be tried one by one, pipelines among them.
Case larger_case(unsigned seed) {
  Dice dice(seed);
  Case c = random_case(seed);
  c.model = small_model(dice.between(7, 14), 1024 * dice.between(2, 5));
  if (dice.once_in(2)) add_experts(c.model, 8, dice.between(0, 2), 1);
  if (dice.once_in(3)) c.model.mtp_layers = 1;
  c.cluster = small_cluster(dice.between(2, 4), 4, Bytes{dice.between(12, 48) * kGiB});
  if (dice.once_in(3)) c.cluster.host_memory = Bytes{dice.between(32, 256) * kGiB};
  c.request.base.global_batch = num_gpus(c.cluster) * dice.between(1, 4);
  c.request.limits = {at_most("micro_batch", std::int64_t{2})};
  if (dice.once_in(4)) c.request.limits.push_back(any("order"));
  if (dice.once_in(4)) c.request.space = Space::kMegatron;
  return c;
}

}  // namespace

TEST_CASE("[F-PARETO-1] one search over falling budgets finds what searches from scratch find",
          "[long]") {
  std::size_t points = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    Case c = seed % 2 == 0 ? random_case(seed) : larger_case(seed);
    c.request.objective = Objective::kStepTime;
    const Bytes resolution{c.cluster.device.memory.count() / 30};
    const std::vector<PlanCost> expected = searched_front(c, resolution);
    const std::vector<std::int64_t> sizes{num_gpus(c.cluster)};
    const Result<ParetoFront> front =
        pareto_front(c.model, c.cluster, c.request, sizes, resolution);
    REQUIRE(front.ok());
    CHECK(front->exact);
    CAPTURE(seed, expected.size(), front->points.size());
    // Budgets that the same time answers are one point of the front.
    std::vector<ParetoPoint> all;
    for (const PlanCost& plan : expected) all.push_back({sizes.front(), plan});
    const std::vector<ParetoPoint> kept = non_dominated(all);
    REQUIRE(front->points.size() == kept.size());
    for (std::size_t i = 0; i < kept.size(); ++i) {
      CHECK(to_text(front->points[i].plan.strategy) == to_text(kept[i].plan.strategy));
      CHECK(front->points[i].plan.step_time == kept[i].plan.step_time);
    }
    points += kept.size();
  }
  CHECK(points > 300);
}

TEST_CASE("a coarse front is part of a fine one's shadow") {
  Case c = random_case(2);
  const std::vector<std::int64_t> sizes{num_gpus(c.cluster)};
  const std::vector<Plain> fine = plain(exact_front(c));
  const Result<ParetoFront> coarse = pareto_front(c.model, c.cluster, c.request, sizes,
                                                  Bytes{c.cluster.device.memory.count() / 10});
  REQUIRE(coarse.ok());
  CHECK(coarse->points.size() <= 11);
  for (const Plain& p : plain(*coarse)) {
    CHECK(std::any_of(fine.begin(), fine.end(),
                      [&](const Plain& f) { return f.time == p.time && f.peak <= p.peak; }));
  }
}

TEST_CASE("a front over sizes keeps the smaller ones that use fewer GPUs") {
  Case c = random_case(2);
  c.cluster = small_cluster(2, 4, Bytes{40 * kGiB});
  c.request.base.global_batch = 16;
  const std::vector<std::int64_t> sizes{2, 4, 8};
  const Result<ParetoFront> front = pareto_front(c.model, c.cluster, c.request, sizes,
                                                 Bytes{c.cluster.device.memory.count() / 20});
  REQUIRE(front.ok());
  for (const ParetoPoint& a : front->points) {
    for (const ParetoPoint& b : front->points) CHECK_FALSE(dominates(a, b));
  }
  for (const std::int64_t n : sizes) {
    CHECK(std::any_of(front->points.begin(), front->points.end(),
                      [n](const ParetoPoint& p) { return p.gpus == n; }));
  }
}
