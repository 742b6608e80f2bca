// The best plan of a framework's space against every strategy that its exporter accepts.
#include "cost/step.hpp"
#include "frameworks/preset.hpp"
#include "search/brute_force.hpp"
#include "space/framework_cases.hpp"
#include "space/strategies.hpp"
#include "spec/axes.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

// Layers per rank with which the strategy is legal and the search may choose it.
std::vector<List> divisions(const Case& c, Strategy s) {
  std::vector<List> all, legal;
  List begun;
  compositions(c.model.num_layers, s.pp, begun, all);
  for (const List& layers : all) {
    s.stage_layers = layers;
    s.recompute_layers.assign(layers.size(), 0);
    if (is_legal(s, c.model, c.cluster) && is_in_space(s, c.model)) {
      legal.push_back(layers);
    }
  }
  return legal;
}

// Numbers of recomputed layers: those of the mode, and for whole layers any that ranks could share.
std::vector<List> counts(const Strategy& s) {
  const List none(s.stage_layers.size(), 0);
  if (s.recompute != Recompute::kFull) return {none};
  std::vector<List> all;
  for (std::int64_t n = 1; all.empty() || all.back() != s.stage_layers; ++n) {
    List some;
    for (const std::int64_t layers : s.stage_layers) some.push_back(std::min(n, layers));
    all.push_back(some);
  }
  return all;
}

// Least step time of all strategies of the full space that fit and that the exporter accepts.
std::optional<Seconds> least_time(const Case& c) {
  SpaceRequest full = c.request;
  full.space = Space::kFull;
  const auto space = SearchSpace::make(c.model, c.cluster, full);
  REQUIRE(space.ok());
  const Brute brute(c, false);
  std::optional<Seconds> least;
  for_each_legal(*space, [&](const Strategy& plain, const MemoryOption&) {
    if (!keeps_pipeline_ranks(plain, c.model)) return;
    const std::optional<Strategy> told = accepted(c, plain);
    if (!told) return;
    Strategy s = *told;
    const BlockCosts blocks = block_costs(c.model, c.cluster, s);
    for (const List& layers : divisions(c, s)) {
      s.stage_layers = layers;
      for (const List& recomputed : counts(s)) {
        s.recompute_layers = recomputed;
        if (!is_accepted(c, s) || !brute.fits(s, blocks)) continue;
        const Seconds time = cost_of(c.model, c.cluster, s, blocks).step_time;
        if (!least || time < *least) least = time;
      }
    }
  });
  return least;
}

}  // namespace

TEST_CASE("the best plan of a framework's space is the best that its exporter accepts") {
  const Space space = GENERATE(Space::kMegatron, Space::kDeepspeed, Space::kFsdp, Space::kAxolotl,
                               Space::kTorchtune);
  int with_plans = 0, uneven = 0, sharded = 0;
  for (unsigned seed = 900; seed < 960; ++seed) {
    CAPTURE(name_of(space), seed);
    Case c = framework_case(seed, space);
    c.request.limits.push_back(only("offload.activations", {"false"}));
    const auto found = search(c.model, c.cluster, c.request);
    if (!found.ok()) continue;
    CHECK(found->proof.exact);
    const std::optional<Seconds> least = least_time(c);
    REQUIRE(found->plans.empty() == !least.has_value());
    for (const PlanCost& plan : found->plans) {
      CAPTURE(to_text(plan.strategy));
      REQUIRE(is_accepted(c, plan.strategy));
    }
    if (!least) continue;
    const PlanCost& best = found->plans.front();
    CAPTURE(to_text(best.strategy));
    REQUIRE(best.step_time / *least == Approx(1).epsilon(1e-9));
    ++with_plans;
    uneven += best.strategy.stage_layers.front() != best.strategy.stage_layers.back() ? 1 : 0;
    sharded += best.strategy.pp > 1 && best.strategy.zero >= 2 ? 1 : 0;
  }
  CHECK(with_plans >= 20);
  // What no framework's space held before both asked one table.
  if (space == Space::kMegatron) CHECK(uneven > 0);
  if (space == Space::kMegatron) CHECK(sharded > 0);
}
