// The division of layers with the same number of recomputed ones in each chunk, against every one.
#include "frameworks/preset.hpp"
#include "partition/every_division.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

// Pipelines whose memory takes some of the layers only, so that what is recomputed, and where
// layers go, depend on each other.
Case starved_case(Dice& dice) {
  Case c;
  c.model = random_model(dice);
  c.model.mtp_layers = 0;
  const std::int64_t pp = dice.between(2, 4);
  set_layers(dice, c.model, dice.between(2 * pp, 2 * pp + 3));
  c.cluster = small_cluster(1, pp, Bytes{dice.between(3, 16) * kGiB});
  c.request.base = framework_preset(Framework::kMegatron);
  c.request.base.global_batch = pp * dice.between(2, 5);
  c.request.base.seq_len = dice.one_of<std::int64_t>({2048, 8192, 16384});
  c.request.limits = {only("pp", {std::to_string(pp)}), only("micro_batch", {"1"}),
                      only("schedule", {"1f1b", "gpipe", "interleaved", "zb-h1", "zb-v"}),
                      only("recompute", {"full"})};
  c.request.threads = 1;
  return c;
}

struct UniformCases {
  Efforts efforts;
  int found = 0, none = 0, slow_anyhow = 0;
};

void compare_uniform(const Case& c, UniformCases& n) {
  for_each_pipeline(
      c, [&](SearchContext& x, const SearchSpace& space, Strategy s, std::size_t base) {
        s.recompute = Recompute::kFull;
        const StageContext context = stages_of(x, s, base, CountRule::kUniform);
        CAPTURE(to_text(s));
        const double best = EveryDivision(c, s).best_uniform().step_time;
        const DivisionQuery query{
            context, space.divisions(), x.models, x.placement(s, base), 1e300, 0, false, 1 << 20};
        const FastestDivision found = fastest_division(query);
        REQUIRE(found.every);
        REQUIRE(found.lists.has_value() == (best < 1e300));
        ++(found.lists ? n.found : n.none);
        if (!found.lists) return;
        REQUIRE(std::abs(found.step_time / best - 1) < 1e-9);
        compare_efforts(query, best, n.efforts);
        check_any_memory(x, space, s, base, best, n.slow_anyhow);
        // Where nothing as fast is left, that is found out.
        DivisionQuery faster = query;
        faster.most = best * (1 - 1e-6);
        REQUIRE(fastest_division(faster).every);
        REQUIRE_FALSE(fastest_division(faster).lists);
      });
}

}  // namespace

TEST_CASE("[F-SEARCH-15] no division beats the one chosen where each chunk recomputes alike") {
  Dice dice(29);
  UniformCases n;
  for (int i = 0; i < 150; ++i) {
    CAPTURE(i);
    compare_uniform(starved_case(dice), n);
  }
  CAPTURE(n.found, n.none, n.efforts.decided, n.efforts.undecided);
  CHECK(n.found > 150);
  CHECK(n.none > 10);
  CHECK(n.slow_anyhow > 150);
  CHECK(n.efforts.decided > 100);
  CHECK(n.efforts.undecided > 100);
}
