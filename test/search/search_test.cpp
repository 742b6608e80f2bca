#include "search/search.hpp"

#include "cost/step.hpp"
#include "frameworks/preset.hpp"
#include "io/limits.hpp"
#include "search/brute_force.hpp"
#include "search/cases.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

SearchResult found(const Case& c) {
  Result<SearchResult> result = search(c.model, c.cluster, c.request);
  INFO((result.ok() ? "" : result.errors().front().message));
  REQUIRE(result.ok());
  return std::move(result).value();
}

constexpr unsigned kCasesPerPart = 60;

void check_sums(const SearchStatistics& s) {
  std::int64_t ruled_out = 0;
  for (const auto& [reason, n] : s.infeasible) ruled_out += n;
  CHECK(s.pruned >= 0);
  CHECK(s.illegal + s.evaluated + s.pruned == s.space_size);
  CHECK(ruled_out == s.illegal + s.evaluated - s.feasible);
}

// Compares the plans and the counts of the search with trying everything. True if there are plans.
bool agrees(const Case& c) {
  CAPTURE(c.model.num_layers, num_gpus(c.cluster));
  const Tried tried = try_everything(c, false);
  const SearchResult result = found(c);
  check_sums(result.statistics);
  CHECK(result.statistics.space_size - result.statistics.illegal == tried.legal);
  CHECK(result.proof.exact);
  REQUIRE(result.plans.size() == std::min<std::size_t>(c.request.top, tried.plans.size()));
  for (std::size_t i = 0; i < result.plans.size(); ++i) {
    CAPTURE(i);
    REQUIRE(to_text(result.plans[i].strategy) == to_text(tried.plans[i].strategy));
    REQUIRE(result.plans[i].step_time == tried.plans[i].step_time);
    REQUIRE(result.plans[i].memory().peak == tried.plans[i].peak);
  }
  return !result.plans.empty();
}
bool agrees(unsigned seed) {
  CAPTURE(seed);
  return agrees(random_case(seed));
}

}  // namespace

// A bound that excluded too much, or division times that were not exact, would show here. In parts,
// so that they can run side by side.
TEST_CASE(
    "[F-SEARCH-2] [F-SEARCH-3] [F-SEARCH-4] [F-SEARCH-5] [F-SEARCH-6] [F-SEARCH-7] [F-SEARCH-8] "
    "the search finds what trying everything finds",
    "[long]") {
  const auto part = GENERATE(0U, 1U, 2U, 3U);
  int with_plans = 0;
  for (unsigned i = 0; i < kCasesPerPart; ++i) {
    with_plans += agrees(part * kCasesPerPart + i) ? 1 : 0;
  }
  CHECK(with_plans > static_cast<int>(kCasesPerPart) / 2);
}

TEST_CASE("[F-SEARCH-5] [F-SEARCH-8] where memory is the objective the search finds the same too",
          "[long]") {
  const auto part = GENERATE(0U, 1U, 2U);
  int with_plans = 0;
  for (unsigned i = 0; i < kCasesPerPart; ++i) {
    const unsigned seed = 5000 + part * kCasesPerPart + i;
    CAPTURE(seed);
    Case c = random_case(seed);
    c.request.objective = Objective::kMemory;
    with_plans += agrees(c) ? 1 : 0;
  }
  CHECK(with_plans > static_cast<int>(kCasesPerPart) / 2);
}

TEST_CASE("[F-UNC-5] where risk is limited the search finds what trying everything finds",
          "[long]") {
  const auto part = GENERATE(0U, 1U, 2U);
  int with_plans = 0, changed = 0;
  for (unsigned i = 0; i < kCasesPerPart; ++i) {
    const unsigned seed = 5600 + part * kCasesPerPart + i;
    CAPTURE(seed);
    Case c = random_case(seed);
    const SearchResult any = found(c);
    c.request.memory_risk = i % 3 == 0 ? 0.02 : i % 3 == 1 ? 0.1 : 0.4;
    if (i % 4 == 0) c.request.objective = Objective::kMemory;
    const bool some = agrees(c);
    with_plans += some ? 1 : 0;
    const SearchResult safe = found(c);
    changed +=
        !any.plans.empty() && (!some || safe.plans.front().strategy != any.plans.front().strategy)
            ? 1
            : 0;
    c.request.plans_only = true, c.request.with_closest_miss = false;
    const SearchResult plans = found(c);
    REQUIRE(plans.plans.size() == safe.plans.size());
    for (std::size_t k = 0; k < plans.plans.size(); ++k) {
      CHECK(out_of_memory_probability(plans.plans[k].memory()) <= c.request.memory_risk);
      REQUIRE(to_text(plans.plans[k].strategy) == to_text(safe.plans[k].strategy));
    }
  }
  CHECK(with_plans > static_cast<int>(kCasesPerPart) / 3);
  CHECK(changed > 5);
}

TEST_CASE("beside frozen weights the search finds what trying everything finds", "[long]") {
  int with_plans = 0;
  for (unsigned seed = 5900; seed < 5960; ++seed) {
    CAPTURE(seed);
    Case c = random_case(seed);
    c.request.base.lora.rank = seed % 2 == 0 ? 4 : 6;
    if (seed % 3 != 0) c.request.base.lora.targets = lora_targets("all-linear");
    if (seed % 4 == 0) c.request.base.lora.frozen_dtype = FrozenDtype::kNf4;
    // What is left of memory decides where states no longer do.
    c.cluster.device.memory = Bytes{c.cluster.device.memory.count() / (seed % 5 == 0 ? 1 : 2)};
    c.cluster.device.context =
        std::min(c.cluster.device.context, Bytes{c.cluster.device.memory.count() / 4});
    with_plans += agrees(c) ? 1 : 0;
  }
  CHECK(with_plans > 20);
}

// Owners of whole matrices have more than an even share, and every rank its own products.
TEST_CASE("with Muon the search finds what trying everything finds") {
  int with_plans = 0;
  for (unsigned seed = 6200; seed < 6224; ++seed) {
    CAPTURE(seed);
    Case c = random_case(seed);
    c.request.base.optimizer = Optimizer::kMuon;
    c.request.base.runtime.layer_wise_optimizer = seed % 2 == 0;
    c.cluster.device.memory = Bytes{c.cluster.device.memory.count() / (seed % 3 == 0 ? 2 : 1)};
    with_plans += agrees(c) ? 1 : 0;
  }
  CHECK(with_plans > 8);
}

// Bounds must leave out what waits behind the passes, and count what every rank gathers.
TEST_CASE("with weight gradients deferred and tokens gathered the search finds the same") {
  int with_plans = 0;
  for (unsigned seed = 6100; seed < 6130; ++seed) {
    CAPTURE(seed);
    Case c = random_case(seed);
    c.request.base.runtime.defer_embedding_wgrad_compute = true;
    c.request.base.runtime.wgrad_deferral_limit = seed % 3;
    c.request.base.runtime.microbatch_group_size = seed % 2 == 0 ? 0 : 4;
    c.request.base.runtime.allgather_dispatcher = true;
    c.request.base.runtime.expert_capacity_factor = seed % 4 == 0 ? 0.4 : 0;
    c.request.base.runtime.flex_dispatcher = false;
    with_plans += agrees(c) ? 1 : 0;
  }
  CHECK(with_plans > 10);
}

// Many meshes then have none that is legal.
TEST_CASE("one schedule that needs a pipeline: the search finds the same, whatever is asked for") {
  int with_plans = 0;
  for (unsigned seed = 5200; seed < 5240; ++seed) {
    Case c = random_case(seed);
    CAPTURE(seed);
    std::erase_if(c.request.limits, [](const Limit& l) { return l.key == "schedule"; });
    c.request.limits.push_back(only("schedule", {seed % 2 == 0 ? "interleaved" : "zb-v"}));
    c.request.with_closest_miss = true;
    with_plans += agrees(c) ? 1 : 0;
    const std::size_t plans = found(c).plans.size();
    c.request.plans_only = true;
    CHECK(found(c).plans.size() == plans);
    c.request.plans_only = false, c.request.objective = Objective::kMemory;
    agrees(c);
  }
  CHECK(with_plans > 10);
}

TEST_CASE("with every layer recomputed the search finds what trying everything finds") {
  int with_plans = 0;
  for (unsigned seed = 4000; seed < 4060; ++seed) {
    Case c = random_case(seed);
    CAPTURE(seed);
    std::erase_if(c.request.limits, [](const Limit& l) { return l.key.starts_with("recompute"); });
    c.request.limits.push_back(parse_limits("recompute=full", "--fix")->front());
    const Tried tried = Brute(c, false, true).run();
    const SearchResult result = found(c);
    check_sums(result.statistics);
    CHECK(result.proof.exact);
    REQUIRE(result.plans.empty() == tried.plans.empty());
    if (tried.plans.empty()) continue;
    // Where recomputing fewer layers fits too, that is the same key.
    REQUIRE(result.plans.front().step_time <= tried.plans.front().step_time);
    ++with_plans;
  }
  CHECK(with_plans > 20);
}

TEST_CASE("with lists of modules stated the search finds what trying everything finds") {
  int with_plans = 0;
  for (unsigned seed = 6000; seed < 6030; ++seed) {
    Case c = random_case(seed);
    std::erase_if(c.request.limits, [](const Limit& l) { return l.key.starts_with("recompute"); });
    c.request.limits.push_back(
        only("recompute_modules", {"[mlp]", "[layernorm,moe_act]", "[moe]"}));
    CAPTURE(seed);
    with_plans += agrees(c) ? 1 : 0;
  }
  CHECK(with_plans > 10);
}

TEST_CASE("with every list of modules in the space the search finds the fastest of them all") {
  int with_plans = 0, listed = 0;
  for (unsigned seed = 6100; seed < 6220; ++seed) {
    Case c = random_case(seed);
    if (c.model.num_layers > 4 || num_gpus(c.cluster) > 4) continue;
    c.request.limits = {any("recompute_modules"), at_most("micro_batch", std::int64_t{1})};
    // Less memory, so that some must be recomputed, and whole layers must not.
    c.cluster.device.memory = ceil_bytes(c.cluster.device.memory.si() * (1 - 0.2 * (seed % 4)));
    for (const char* fixed :
         {"zero=1", "cp=1", "schedule=1f1b", "offload.optimizer=false", "recompute=none|selective",
          "offload.activations=false", "order=tp-cp-ep-dp-pp"}) {
      c.request.limits.push_back(parse_limits(fixed, "--fix")->front());
    }
    CAPTURE(seed);
    const Tried tried = Brute(c, false).run();
    const SearchResult result = found(c);
    check_sums(result.statistics);
    CHECK(result.proof.exact);
    REQUIRE(result.plans.empty() == tried.plans.empty());
    if (tried.plans.empty()) continue;
    REQUIRE(result.plans.front().step_time == tried.plans.front().step_time);
    ++with_plans;
    for (const PlanCost& plan : result.plans) {
      listed += plan.strategy.recompute_modules.empty() ? 0 : 1;
    }
  }
  CHECK(with_plans > 5);
  CHECK(listed > 0);
}

TEST_CASE("[F-SEARCH-10] a search for plans alone finds the same plans, with a cutoff or without") {
  std::size_t compared = 0;
  for (unsigned seed = 0; seed < 4 * kCasesPerPart; ++seed) {
    Case c = random_case(seed);
    const SearchResult all = found(c);
    c.request.plans_only = true, c.request.with_closest_miss = false;
    for (const bool cut : {false, true}) {
      if (cut && all.plans.empty()) continue;
      if (cut) c.request.cutoff = all.plans.back().step_time.si();
      const SearchResult plans = found(c);
      CAPTURE(seed, cut, all.plans.size(), plans.plans.size());
      CHECK(plans.proof.exact);
      REQUIRE(plans.plans.size() == all.plans.size());
      for (std::size_t i = 0; i < all.plans.size(); ++i) {
        REQUIRE(to_text(plans.plans[i].strategy) == to_text(all.plans[i].strategy));
        ++compared;
      }
    }
  }
  CHECK(compared > 1000);
}

TEST_CASE("[F-SEARCH-8] where nothing fits, nothing misses memory by less than what is found",
          "[long]") {
  int compared = 0;
  for (unsigned seed = 2000; seed < 2060; ++seed) {
    Case c = random_case(seed);
    c.cluster.device.memory = Bytes{1280 * kMiB};
    c.cluster.host_memory = Bytes{};
    CAPTURE(seed);
    const SearchResult result = found(c);
    check_sums(result.statistics);
    if (!result.plans.empty() || !result.closest_strategy) continue;
    const Tried tried = try_everything(c, true);
    REQUIRE(tried.plans.empty());
    const PlanCost plan = cost_of(c.model, c.cluster, *result.closest_strategy);
    CAPTURE(to_text(plan.strategy));
    CAPTURE(plan.memory().peak.count(), tried.least_peak.count());
    REQUIRE(plan.memory().peak == tried.least_peak);
    ++compared;
  }
  CHECK(compared > 20);
}
