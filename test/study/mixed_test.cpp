#include "study/mixed.hpp"

#include <map>

#include "frameworks/preset.hpp"
#include "io/limits.hpp"
#include "search/brute_force.hpp"
#include "search/cases.hpp"
#include "spec/strategy_keys.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

ClusterSpec slower(ClusterSpec c, double by) {
  c.name = "slow-" + c.name;
  for (FlopsPerSecond& peak : c.device.peak) peak = FlopsPerSecond{peak.si() / by};
  c.device.memory_bandwidth = BytesPerSecond{c.device.memory_bandwidth.si() / by};
  return c;
}

SearchRequest request_of(std::int64_t batch, const std::string& fixed) {
  SearchRequest r;
  r.base = framework_preset(Framework::kMegatron);
  r.base.global_batch = batch, r.base.seq_len = 512;
  r.threads = 1;
  if (!fixed.empty()) r.limits = *parse_limits(fixed, "--fix");
  return r;
}

std::string text_without_batch(Strategy s) {
  s.global_batch = 0;
  std::string text;
  for (const std::string_view key : strategy_keys()) text += value_text(s, key) + ',';
  return text;
}

// Every plan of a kind whose replicas can lie within one group: times by their keys.
std::map<std::string, double> every_plan(const ModelSpec& m, const ClusterSpec& c,
                                         const SearchRequest& request, std::int64_t replicas,
                                         std::int64_t sequences, std::int64_t shared) {
  Case one{m, c, request};
  one.request.base.global_batch = sequences * replicas;
  std::map<std::string, double> times;
  for (const Found& found : Brute(one, false).run().plans) {
    const Strategy& s = found.strategy;
    const bool within = s.pp == 1 || s.order == kPipelineInside;
    if (s.dp != replicas || !within || shared % s.ep != 0) continue;
    times[text_without_batch(s)] = found.step_time.si();
  }
  return times;
}

// Nothing: no plan fits both.
std::optional<double> brute(const ModelSpec& m, const MixedClusters& own, const Mixed& joined,
                            const SearchRequest& request) {
  std::optional<double> best;
  const std::int64_t n0 = num_gpus(own[0]), n1 = num_gpus(own[1]);
  for (std::int64_t size = 1; size <= std::min(n0, n1); ++size) {
    if (n0 % size != 0 || n1 % size != 0) continue;
    for (std::int64_t b0 = 1; b0 < request.base.global_batch; ++b0) {
      const std::int64_t left = request.base.global_batch - n0 / size * b0;
      if (left <= 0 || left % (n1 / size) != 0) continue;
      const std::int64_t replicas = (n0 + n1) / size, shared = std::gcd(n0 / size, n1 / size);
      const auto first = every_plan(m, joined.clusters[0], request, replicas, b0, shared);
      const auto second =
          every_plan(m, joined.clusters[1], request, replicas, left / (n1 / size), shared);
      for (const auto& [keys, time] : first) {
        const auto same = second.find(keys);
        if (same == second.end()) continue;
        const double step = std::max(time, same->second);
        if (!best || step < *best) best = step;
      }
    }
  }
  return best;
}

}  // namespace

TEST_CASE("[F-MIX-1] the plan of two kinds of devices is the best of all") {
  struct Row {
    std::int64_t layers, gpus, others, batch;
    double slowdown;
    bool experts;
    const char* fixed;
  };
  // Two layers are divided over two stages in one way only, so that both groups divide them alike.
  const auto row = GENERATE(
      values<Row>({{2, 2, 2, 12, 2.0, false, "recompute=none,offload.optimizer=false"},
                   {2, 4, 2, 16, 3.0, false, "recompute=none,offload.optimizer=false,cp=1"},
                   {2, 2, 4, 20, 1.5, false, "recompute=none,offload.optimizer=false,cp=1"},
                   {2, 2, 2, 8, 2.5, true, "recompute=none,offload.optimizer=false,cp=1"},
                   {1, 4, 4, 24, 2.0, false, "recompute=none,offload.optimizer=false,cp=1"}}));
  CAPTURE(row.layers, row.gpus, row.others, row.batch, row.slowdown);
  ModelSpec m = small_model(row.layers, 1024);
  if (row.experts) m.moe = MoeSpec{.num_experts = 4, .top_k = 2, .expert_ffn_hidden_size = 1024};
  const MixedClusters own{
      small_cluster(row.gpus / 2, 2, Bytes{200 * kGiB}),
      slower(small_cluster(row.others / 2, 2, Bytes{200 * kGiB}), row.slowdown)};
  const SearchRequest request = request_of(row.batch, row.fixed);
  const Result<Mixed> found = mixed(m, own, request);
  REQUIRE(found);
  REQUIRE(found->best);
  CHECK(found->exact);
  const std::optional<double> best = brute(m, own, *found, request);
  REQUIRE(best);
  CHECK(found->best->step_time.si() == Approx(*best).epsilon(1e-9));
}

TEST_CASE("[F-MIX-1] the step of a mixed job is its slower group's, and its batch is whole") {
  const ModelSpec m = small_model(8, 4096);
  const MixedClusters own{small_cluster(2, 4, Bytes{80 * kGiB}),
                          slower(small_cluster(1, 4, Bytes{80 * kGiB}), 2)};
  const Result<Mixed> found = mixed(m, own, request_of(480, ""));
  REQUIRE(found);
  REQUIRE(found->best);
  const MixedPlan& best = *found->best;
  std::int64_t sequences = 0;
  for (const MixedGroup& g : best.groups) {
    sequences += g.replicas * g.sequences;
    CHECK(g.microbatches * g.plan.strategy.micro_batch == g.sequences);
    CHECK(g.plan.step_time <= best.step_time);
  }
  CHECK(sequences == 480);
  CHECK(best.groups[0].sequences > best.groups[1].sequences);
  // Nothing that the mix could do instead is faster, and each kind helps the other.
  REQUIRE(found->even);
  CHECK(best.step_time <= found->even->step_time);
  for (const auto& alone : found->alone) {
    REQUIRE(alone);
    CHECK(best.step_time.si() < alone->step_time.si());
  }
}

TEST_CASE("two kinds of devices that are the same are one cluster") {
  const ModelSpec m = small_model(4, 2048);
  const ClusterSpec half = small_cluster(1, 4, Bytes{80 * kGiB});
  const SearchRequest request = request_of(32, "order=tp-cp-ep-pp-dp,ep=1");
  const Result<Mixed> found = mixed(m, {half, half}, request);
  REQUIRE(found);
  REQUIRE(found->best);
  const Result<SearchResult> whole = search(m, with_gpus(half, 8), request);
  REQUIRE(whole);
  CHECK(found->exact);
  CHECK(found->best->step_time <= whole->plans.front().step_time * (1 + 1e-9));
}

TEST_CASE("machines that no network joins are no mixed cluster") {
  const ModelSpec m = small_model(4, 1024);
  ClusterSpec lone = small_cluster(1, 2, Bytes{80 * kGiB});
  lone.levels.pop_back();
  lone.levels.front().span = 0;
  const ClusterSpec other = small_cluster(1, 2, Bytes{80 * kGiB});
  const Result<Mixed> found = mixed(m, {lone, other}, request_of(8, ""));
  REQUIRE_FALSE(found);
  CHECK(found.errors().front().message ==
        "test-cluster has no network between its nodes to join it with other machines");
  const Result<Mixed> parts =
      mixed(m, {small_cluster(1, 4, Bytes{80 * kGiB}), other}, request_of(8, ""));
  REQUIRE_FALSE(parts);
  CHECK(parts.errors().front().message ==
        "2 GPUs of test-cluster are no whole number of nodes of test-cluster");
}
