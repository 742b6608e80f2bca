#include "study/sensitivity.hpp"

#include "cost/uncertainty.hpp"
#include "frameworks/preset.hpp"
#include "search/cases.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

PlanCost timed(double seconds, double tokens) {
  PlanCost p;
  p.step_time = Seconds{seconds};
  p.tokens_per_step = tokens;
  return p;
}

bool more_is_slower(Lever lever) { return lever == Lever::kLatency || lever == Lever::kHostTime; }

}  // namespace

TEST_CASE("[F-SENS-1] changes compare the time per token") {
  CHECK(relative_change(timed(12, 100), timed(10, 100)) == Approx(0.2));
  CHECK(relative_change(timed(12, 120), timed(10, 100)) == Approx(0.0).margin(1e-15));
  CHECK(relative_change(timed(10, 80), timed(10, 100)) == Approx(0.25));
}

TEST_CASE("a scenario changes what it names and nothing else") {
  ClusterSpec c = small_cluster(2, 4, Bytes{40 * kGiB});
  c.collectives.push_back({Collective::kAllReduce,
                           "inside",
                           4,
                           1,
                           {{Bytes{1000}, Seconds{10e-6}}, {Bytes{1'000'000}, Seconds{110e-6}}}});
  const ClusterSpec wide = changed(c, {Lever::kBandwidth, 0, 2});
  CHECK(wide.levels[0].bandwidth.si() == 500e9);
  CHECK(wide.levels[1] == c.levels[1]);
  CHECK(wide.collectives[0].points[0].second.si() == Approx(10e-6));
  CHECK(wide.collectives[0].points[1].second.si() == Approx(60e-6));
  const ClusterSpec slow = changed(c, {Lever::kLatency, 0, 2});
  CHECK(slow.levels[0].latency.si() == Approx(6e-6));
  CHECK(slow.collectives[0].points[0].second.si() == Approx(20e-6));
  CHECK(slow.collectives[0].points[1].second.si() == Approx(120e-6));
  CHECK(changed(c, {Lever::kBandwidth, 1, 2}).collectives == c.collectives);
  CHECK(changed(c, {Lever::kMemory, 0, 0.5}).device.memory == Bytes{20 * kGiB});
  CHECK(changed(c, {Lever::kMemoryBandwidth, 0, 2}).device.memory_bandwidth.si() == 3e12);
  CHECK(changed(c, {Lever::kHostLink, 0, 2}).device.host_link.si() == 40e9);
  CHECK(changed(c, {Lever::kHostTime, 0, 2}).device.launch_gap.si() == Approx(4e-6));
  CHECK(peak_rate(changed(c, {Lever::kFlops, 0, 2}).device, Precision::kBf16).si() ==
        Approx(600e12));
  CHECK(changed(c, {Lever::kBatch, 0, 2}) == c);
}

TEST_CASE("a scenario that is out of range is one that nothing can be said about") {
  Case c = random_case(1);
  c.cluster.device.memory = Bytes{40 * kGiB};
  c.cluster.device.context = Bytes{39 * kGiB};  // a fifth less memory holds no context
  c.request.ignore_activations = false;
  PlanCost base = timed(1, 100);
  base.strategy = c.request.base;
  base.strategy.dp = num_gpus(c.cluster);
  base.strategy.global_batch = 1'000'000'000;  // the most that is accepted
  const Result<Sensitivity> result = sensitivity(c.model, c.cluster, c.request, base, 0.2);
  REQUIRE(result.ok());
  int out_of_range = 0;
  for (const SensitivityRow& row : result->rows) {
    for (const Change* change : {&row.less, &row.more}) {
      const bool less_memory = change->scenario.lever == Lever::kMemory && change == &row.less;
      const bool more_batch = change->scenario.lever == Lever::kBatch && change == &row.more;
      if (!less_memory && !more_batch) continue;
      CHECK_FALSE(change->best);
      CHECK_FALSE(change->kept_is_legal);
      ++out_of_range;
    }
  }
  CHECK(out_of_range == 2);
}

TEST_CASE("a better machine never slows the plan down, a worse one never speeds it up") {
  int rows = 0;
  for (unsigned seed = 0; seed < 25; ++seed) {
    Case c = random_case(seed);
    const Result<SearchResult> found = search(c.model, c.cluster, c.request);
    REQUIRE(found.ok());
    if (found->plans.empty()) continue;
    const Result<Sensitivity> s =
        sensitivity(c.model, c.cluster, c.request, found->plans.front(), 0.2);
    REQUIRE(s.ok());
    for (const SensitivityRow& row : s->rows) {
      if (row.less.scenario.lever == Lever::kBatch) continue;
      CAPTURE(seed, row.name);
      ++rows;
      const Change& better = more_is_slower(row.more.scenario.lever) ? row.less : row.more;
      const Change& worse = more_is_slower(row.more.scenario.lever) ? row.more : row.less;
      REQUIRE(better.kept);
      REQUIRE(better.best);
      constexpr double kRounding = 1e-9;
      CHECK(relative_change(*better.kept, s->base) <= kRounding);
      CHECK(relative_change(*better.best, s->base) <= kRounding);
      CHECK(relative_change(*better.best, *better.kept) <= kRounding);
      if (worse.best) CHECK(relative_change(*worse.best, s->base) >= -kRounding);
      if (worse.kept) CHECK(relative_change(*worse.kept, s->base) >= -kRounding);
      if (worse.kept && worse.best) CHECK(relative_change(*worse.best, *worse.kept) <= kRounding);
      if (worse.kept) CHECK(worse.best);
    }
  }
  CHECK(rows > 100);
}

TEST_CASE("nothing changes if nothing is changed") {
  const Case c = random_case(2);
  const Result<SearchResult> found = search(c.model, c.cluster, c.request);
  REQUIRE(found.ok());
  REQUIRE_FALSE(found->plans.empty());
  const Result<Sensitivity> s = sensitivity(c.model, c.cluster, c.request, found->plans.front(), 0);
  REQUIRE(s.ok());
  for (const SensitivityRow& row : s->rows) {
    if (row.more.scenario.lever == Lever::kBatch) continue;
    CHECK(row.more.same_choice);
    CHECK(row.more.best->step_time == s->base.step_time);
    CHECK(row.less.kept->step_time == s->base.step_time);
  }
}

TEST_CASE(
    "where a change makes the plan too likely to run out of memory, the best safe one is named") {
  int replaced = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    Case c = random_case(seed);
    c.request.memory_risk = 0.1, c.request.ignore_activations = false;
    c.request.objective = Objective::kStepTime;
    const Result<SearchResult> found = search(c.model, c.cluster, c.request);
    if (!found || found->plans.empty()) continue;
    const PlanCost& base = found->plans.front();
    const Result<Sensitivity> result = sensitivity(c.model, c.cluster, c.request, base, 0.2);
    REQUIRE(result.ok());
    for (const SensitivityRow& row : result->rows) {
      const Change& less = row.less;
      if (less.scenario.lever != Lever::kMemory || !less.kept) continue;
      const bool safe = out_of_memory_probability(less.kept->memory()) <= 0.1;
      SearchRequest request = c.request;
      request.plans_only = true;
      const Result<SearchResult> again =
          search(c.model, changed(c.cluster, less.scenario), request);
      REQUIRE(again.ok());
      REQUIRE(less.best.has_value() == !again->plans.empty());
      if (!less.best) continue;
      CHECK(less.best->step_time.si() == Approx(again->plans.front().step_time.si()));
      CHECK(out_of_memory_probability(less.best->memory()) <= 0.1);
      replaced += safe ? 0 : 1;
    }
  }
  CHECK(replaced > 0);
}

TEST_CASE("another batch stays whole rounds of the best plan") {
  const Case c = random_case(2);
  const Result<SearchResult> found = search(c.model, c.cluster, c.request);
  REQUIRE(found.ok());
  const PlanCost& best = found->plans.front();
  const Result<Sensitivity> s = sensitivity(c.model, c.cluster, c.request, best, 0.2);
  REQUIRE(s.ok());
  const SensitivityRow& batch = s->rows.back();
  REQUIRE(batch.more.scenario.lever == Lever::kBatch);
  REQUIRE(batch.more.kept);
  const Strategy& then = batch.more.kept->strategy;
  CHECK(then.global_batch % (then.dp * then.micro_batch) == 0);
  CHECK(then.global_batch > best.strategy.global_batch);
  CHECK(batch.more.scenario.factor == Approx(static_cast<double>(then.global_batch) /
                                             static_cast<double>(best.strategy.global_batch)));
}

TEST_CASE("where the best plan has one round, the batch is halved and doubled") {
  const ModelSpec m = small_model(4, 2048);
  const ClusterSpec c = small_cluster(1, 8, Bytes{80 * kGiB});
  SearchRequest request;
  request.base = framework_preset(Framework::kMegatron);
  request.base.global_batch = 8, request.base.seq_len = 2048;
  request.limits = {only("dp", {"8"}), only("micro_batch", {"1"})};
  const Result<SearchResult> found = search(m, c, request);
  REQUIRE(found.ok());
  REQUIRE_FALSE(found->plans.empty());
  const Result<Sensitivity> s = sensitivity(m, c, request, found->plans.front(), 0.2);
  REQUIRE(s.ok());
  const SensitivityRow& batch = s->rows.back();
  CHECK(batch.less.scenario.factor == 0.5);
  CHECK_FALSE(batch.less.kept);  // 4 sequences for 8 replicas
  CHECK_FALSE(batch.less.kept_is_legal);
  CHECK(batch.more.scenario.factor == 2);
  CHECK(batch.more.kept);
}
