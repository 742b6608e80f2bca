// What must hold of the best plan whatever the cost model's constants are.
#include <array>

#include "cost/step.hpp"
#include "frameworks/preset.hpp"
#include "search/cases.hpp"
#include "search/search.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

constexpr unsigned kCases = 60;

SearchResult result_of(const Case& c) {
  Result<SearchResult> result = search(c.model, c.cluster, c.request);
  INFO((result.ok() ? "" : result.errors().front().message));
  REQUIRE(result.ok());
  return std::move(result).value();
}

// Of the best plan; later than anything else if there is none.
Seconds best_time(const Case& c) {
  const SearchResult result = result_of(c);
  return result.plans.empty() ? Seconds{1e300} : result.plans.front().step_time;
}

bool no_slower(Seconds after, Seconds before) { return after <= before * (1 + 1e-9); }

void scale_links(ClusterSpec& c, double bandwidth, double latency) {
  for (LinkLevel& level : c.levels) level.bandwidth *= bandwidth, level.latency *= latency;
}

Seconds communication(const TimeTerms& t) {
  return t.tp_comm_exposed + t.cp_comm_exposed + t.ep_comm_exposed + t.dp_comm_exposed;
}

}  // namespace

TEST_CASE("more memory never makes the best plan slower") {
  for (unsigned seed = 300; seed < 300 + kCases; ++seed) {
    CAPTURE(seed);
    Case c = random_case(seed);
    const Seconds before = best_time(c);
    c.cluster.device.memory += Bytes{Dice(seed).between(1, 40) * kGiB};
    CHECK(no_slower(best_time(c), before));
  }
}

TEST_CASE("faster links never make the best plan slower") {
  for (unsigned seed = 400; seed < 400 + kCases; ++seed) {
    CAPTURE(seed);
    Case c = random_case(seed);
    const Seconds before = best_time(c);
    scale_links(c.cluster, 2, 0.5);
    CHECK(no_slower(best_time(c), before));
  }
}

TEST_CASE("a faster device never makes the best plan slower") {
  for (unsigned seed = 500; seed < 500 + kCases; ++seed) {
    CAPTURE(seed);
    Case c = random_case(seed);
    const Seconds before = best_time(c);
    DeviceSpec& d = c.cluster.device;
    for (FlopsPerSecond& rate : d.peak) rate *= 1.5;
    d.memory_bandwidth *= 1.5;
    CHECK(no_slower(best_time(c), before));
  }
}

// One number of the device or of its links, better by a factor.
struct Improvement {
  const char* what;
  void (*apply)(ClusterSpec& c, double factor);
};

constexpr std::array kImprovements{
    Improvement{"peak rates",
                [](ClusterSpec& c, double factor) {
                  for (FlopsPerSecond& rate : c.device.peak) rate *= factor;
                }},
    Improvement{"memory bandwidth",
                [](ClusterSpec& c, double factor) { c.device.memory_bandwidth *= factor; }},
    Improvement{"kernel overhead",
                [](ClusterSpec& c, double factor) { c.device.kernel_overhead *= 1 / factor; }},
    Improvement{"launch gap",
                [](ClusterSpec& c, double factor) { c.device.launch_gap *= 1 / factor; }},
    Improvement{"collective gap",
                [](ClusterSpec& c, double factor) { c.device.collective_gap *= 1 / factor; }},
    Improvement{"host link", [](ClusterSpec& c, double factor) { c.device.host_link *= factor; }},
    Improvement{"bandwidth of links",
                [](ClusterSpec& c, double factor) { scale_links(c, factor, 1); }},
    Improvement{"latency of links",
                [](ClusterSpec& c, double factor) { scale_links(c, 1, 1 / factor); }}};

TEST_CASE("no single number of the hardware that gets better makes the best plan slower") {
  for (unsigned seed = 7'000; seed < 7'000 + kCases; ++seed) {
    Dice dice(seed);
    Case c = random_case(seed);
    c.request.top = 1;
    DeviceSpec& d = c.cluster.device;
    d.launch_gap = Seconds{1e-6 * static_cast<double>(dice.between(1, 8))};
    d.collective_gap = Seconds{1e-6 * static_cast<double>(dice.between(0, 40))};
    d.kernel_overhead = Seconds{1e-6 * static_cast<double>(dice.between(1, 5))};
    if (dice.once_in(2)) {  // sharded weights travel while the host issues small layers
      c.request.base = framework_preset(Framework::kMegatron);
      c.request.base.global_batch = num_gpus(c.cluster) * dice.between(1, 2);
      c.request.base.seq_len = dice.one_of<std::int64_t>({512, 1024, 2048});
      c.request.limits = {only("zero", {dice.one_of<std::string>({"2", "3"})}), only("tp", {"1"}),
                          only("pp", {"1"}), only("cp", {"1"})};
    }
    const double factor = 1 + 0.1 * static_cast<double>(dice.between(1, 20));
    const Seconds before = best_time(c);
    for (const Improvement& improvement : kImprovements) {
      CAPTURE(seed, improvement.what, factor);
      Case better = c;
      improvement.apply(better.cluster, factor);
      CHECK(no_slower(best_time(better), before));
    }
  }
}

TEST_CASE("twice the bandwidth at half the latency lengthens no message of a plan") {
  int compared = 0;
  for (unsigned seed = 600; seed < 600 + kCases; ++seed) {
    CAPTURE(seed);
    const Case c = random_case(seed);
    ClusterSpec faster = c.cluster;
    scale_links(faster, 2, 0.5);
    for (const PlanCost& before : result_of(c).plans) {
      CAPTURE(to_text(before.strategy));
      const PlanCost after = cost_of(c.model, faster, before.strategy);
      if (after.last_stage != before.last_stage) continue;  // another rank's messages
      CHECK(no_slower(communication(after.time), communication(before.time)));
      REQUIRE(after.communication.size() == before.communication.size());
      for (std::size_t i = 0; i < before.communication.size(); ++i) {
        CHECK(after.communication[i].operation == before.communication[i].operation);
        CHECK(no_slower(after.communication[i].time_each, before.communication[i].time_each));
        ++compared;
      }
    }
  }
  CHECK(compared > 200);
}

TEST_CASE("another choice never makes the best plan slower") {
  for (unsigned seed = 700; seed < 700 + kCases; ++seed) {
    CAPTURE(seed);
    Case c = random_case(seed);
    const Seconds before = best_time(c);
    // All but the bound on micro_batch, which comes first.
    const auto dropped = Dice(seed).between(1, std::ssize(c.request.limits) - 1);
    CAPTURE(to_text(c.request.limits[static_cast<std::size_t>(dropped)]));
    c.request.limits.erase(c.request.limits.begin() + dropped);
    CHECK(no_slower(best_time(c), before));
  }
}

TEST_CASE("what machines and links are called changes nothing") {
  for (unsigned seed = 800; seed < 800 + kCases; ++seed) {
    CAPTURE(seed);
    Case c = random_case(seed);
    const SearchResult before = result_of(c);
    c.cluster.name = "zeta", c.cluster.device.name = "omega", c.model.name = "psi";
    for (LinkLevel& level : c.cluster.levels) level.name += "-renamed";
    const SearchResult after = result_of(c);
    CHECK(after.plans.size() == before.plans.size());
    CHECK(after.statistics.evaluated == before.statistics.evaluated);
    for (std::size_t i = 0; i < std::min(before.plans.size(), after.plans.size()); ++i) {
      CHECK(after.plans[i].strategy == before.plans[i].strategy);
      CHECK(after.plans[i].time == before.plans[i].time);
    }
  }
}

TEST_CASE("the number of threads changes nothing") {
  for (unsigned seed = 900; seed < 900 + kCases; ++seed) {
    CAPTURE(seed);
    Case c = random_case(seed);
    c.request.top = 20;
    const SearchResult one = result_of(c);
    for (const int threads : {2, 5}) {
      CAPTURE(threads);
      c.request.threads = threads;
      const SearchResult many = result_of(c);
      CHECK(many.statistics.evaluated == one.statistics.evaluated);
      CHECK(many.statistics.pruned == one.statistics.pruned);
      CHECK(many.statistics.feasible == one.statistics.feasible);
      CHECK(many.statistics.infeasible == one.statistics.infeasible);
      CHECK(many.proof.statement == one.proof.statement);
      CHECK(many.closest_strategy == one.closest_strategy);
      REQUIRE(many.plans.size() == one.plans.size());
      for (std::size_t i = 0; i < one.plans.size(); ++i) {
        CHECK(many.plans[i].strategy == one.plans[i].strategy);
        CHECK(many.plans[i].time == one.plans[i].time);
        CHECK(many.plans[i].stages == one.plans[i].stages);
        CHECK(many.plans[i].communication == one.plans[i].communication);
      }
    }
  }
}

// Stopped at any moment: the best plan of all is no better than the gap allows.
TEST_CASE("a search that runs out of time says how much better a plan may be") {
  int stopped = 0;
  for (unsigned seed = 1000; seed < 1040; ++seed) {
    CAPTURE(seed);
    Case c = random_case(seed);
    const Seconds best = best_time(c);
    for (const double limit : {0.0, 3e-4, 1e-3, 3e-3}) {
      c.request.time_limit = Seconds{limit};
      const SearchResult result = result_of(c);
      const Proof& proof = result.proof;
      CHECK(proof.gap >= 0);
      CHECK(proof.gap <= 1);
      stopped += proof.exact ? 0 : 1;
      if (proof.exact) {
        CHECK(proof.gap == 0);
        CHECK((result.plans.empty() || result.plans.front().step_time == best));
        continue;
      }
      CHECK(proof.statement.find("stopped") == 0);
      if (result.plans.empty()) {
        CHECK(proof.gap == 1);
      } else {
        CHECK(no_slower(best, result.plans.front().step_time));
        CHECK(no_slower(result.plans.front().step_time * (1 - proof.gap), best));
      }
    }
  }
  CHECK(stopped > 20);
}
