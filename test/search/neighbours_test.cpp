// What anybody can try with `estimate`: other divisions next to that of a plan shown.
#include "cost/step.hpp"
#include "frameworks/preset.hpp"
#include "search/brute_force.hpp"
#include "search/cases.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

// Pipelines too large to try all their divisions one by one.
Case pipeline_case(Dice& dice) {
  Case c;
  c.model = random_model(dice);
  set_layers(dice, c.model, dice.between(6, 20));
  c.cluster = small_cluster(dice.between(1, 2), dice.one_of<std::int64_t>({4, 6, 8}),
                            Bytes{dice.between(5, 24) * kGiB});
  c.request.base = framework_preset(dice.one_of({Framework::kMegatron, Framework::kTorchtitan}));
  c.request.base.global_batch = num_gpus(c.cluster) * dice.one_of<std::int64_t>({1, 2, 4, 8});
  c.request.base.seq_len = dice.one_of<std::int64_t>({1024, 4096, 8192});
  c.request.limits = {{"pp", LimitOp::kAtLeast, {dice.one_of<std::int64_t>({2, 4})}}};
  c.request.top = 10;
  c.request.threads = 1;
  return c;
}

struct Checked {
  int plans = 0, recomputing = 0, neighbours = 0;
};

class Neighbours {
 public:
  Neighbours(const Case& c, const PlanCost& plan, Checked& n)
      : case_(c), plan_(plan), blocks_(block_costs(c.model, c.cluster, plan.strategy)), n_(n) {}

  void check() {
    const Strategy& s = plan_.strategy;
    ++n_.plans;
    for (std::size_t from = 0; from < s.stage_layers.size(); ++from) {
      for (std::size_t to = 0; to < s.stage_layers.size(); ++to) {
        if (from != to && s.stage_layers[from] > 1) move(from, to);
      }
      if (s.recompute == Recompute::kFull) change_count(from);
    }
  }

 private:
  // Whatever number of layers the two ranks recompute then.
  void move(std::size_t from, std::size_t to) {
    Strategy s = plan_.strategy;
    --s.stage_layers[from], ++s.stage_layers[to];
    if (!is_in_space(s, case_.model)) return;
    const bool full = s.recompute == Recompute::kFull;
    const List before = s.recompute_layers;
    for (const std::int64_t less : {0, 1}) {
      for (const std::int64_t more : {0, 1}) {
        if (!full && less + more > 0) continue;
        s.recompute_layers[from] =
            std::min(std::max<std::int64_t>(0, before[from] - less), s.stage_layers[from]);
        s.recompute_layers[to] = std::min(before[to] + more, s.stage_layers[to]);
        compare(s);
      }
    }
  }

  void change_count(std::size_t rank) {
    ++n_.recomputing;
    for (const std::int64_t change : {-1, 1}) {
      Strategy s = plan_.strategy;
      std::int64_t& n = s.recompute_layers[rank];
      n += change;
      if (n >= 0 && n <= s.stage_layers[rank]) compare(s);
    }
  }

  void compare(const Strategy& s) {
    if (!is_legal(s, case_.model, case_.cluster)) return;
    ++n_.neighbours;
    if (!Brute(case_, false).fits(s, blocks_)) return;
    CAPTURE(to_text(s));
    const Seconds time = cost_of(case_.model, case_.cluster, s, blocks_).step_time;
    REQUIRE(time.si() >= plan_.step_time.si() * (1 - 1e-9));
  }

  const Case& case_;
  const PlanCost& plan_;
  BlockCosts blocks_;
  Checked& n_;
};

}  // namespace

TEST_CASE(
    "[F-SEARCH-9] no plan shown is beaten by moving a layer or recomputing one more or less") {
  const auto part = GENERATE(0U, 1U, 2U, 3U);
  Dice dice(100 + part);
  Checked n;
  for (int i = 0; i < 80; ++i) {
    const Case c = pipeline_case(dice);
    CAPTURE(part, i);
    const Result<SearchResult> result = search(c.model, c.cluster, c.request);
    REQUIRE(result.ok());
    for (const PlanCost& plan : result->plans) {
      if (plan.step_time.si() > result->proof.ranked_to) break;
      CAPTURE(to_text(plan.strategy));
      Neighbours(c, plan, n).check();
    }
  }
  CHECK(n.plans > 300);
  CHECK(n.recomputing > 100);
  CHECK(n.neighbours > 2000);
}
