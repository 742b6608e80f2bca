// What chains through single stages rule out, against every division.
#include "partition/stage_chains.hpp"

#include "frameworks/preset.hpp"
#include "partition/divide.hpp"
#include "partition/every_division.hpp"
#include "partition/least_ends.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

// Layers of one to three kinds on two to four ranks, each once or twice, with memory for some of
// what is saved or for all of it.
Case chains_case(Dice& dice) {
  Case c;
  c.model = small_model(dice.between(4, 7), 1024 * dice.between(1, 3));
  if (!dice.once_in(4)) c.model.window = 512, c.model.window_every = dice.between(2, 3);
  if (dice.once_in(2)) add_experts(c.model, 4, dice.between(0, 2), 2);
  if (dice.once_in(6)) c.model.mtp_layers = 1;
  const std::int64_t pp = dice.between(2, 4), dp = dice.between(1, 2);
  c.cluster = small_cluster(1, pp * dp, Bytes{dice.one_of<std::int64_t>({6, 10, 16, 4096}) * kGiB});
  c.request.base = framework_preset(Framework::kMegatron);
  c.request.base.global_batch = pp * dp * dice.between(1, 4);
  c.request.base.seq_len = dice.one_of<std::int64_t>({2048, 8192, 32768});
  c.request.limits = {only("pp", {std::to_string(pp)}),
                      only("dp", {std::to_string(dp)}),
                      only("tp", {"1"}),
                      only("cp", {"1"}),
                      only("micro_batch", {"1"}),
                      only("recompute", {"full"})};
  c.request.threads = 1;
  return c;
}

struct Chains {
  int kept = 0, ruled_out = 0, recomputing = 0;
};

// Some division is left within the step time of the best one; mostly none within much less.
void check(SearchContext& x, const SearchSpace& space, StageContext context, const Placement& at,
           double best, Chains& n) {
  const Strategy& s = context.strategy;
  const SendTime send = boundary_send(x.model, x.cluster, s, at).time;
  const DivisionBound bound(x.model, s, context.blocks, context.prefix, Recompute::kNone, send);
  const auto keeps = [&](double most) {
    const double until = most - at.tied().si();
    const LeastEnds ends(x.model, x.cluster, s, context.blocks, context.prefix, at, x.ends,
                         Recompute::kNone, until);
    const StageChains chains(bound, until, ends.any() ? &ends : nullptr);
    context.chains = &chains;
    const bool may = may_divide_within(context, space.divisions(), most);
    REQUIRE(divide(context, space.divisions(), most).lists.has_value() == may);
    return may;
  };
  REQUIRE(keeps(best * (1 + 1e-9)));
  ++n.kept;
  n.ruled_out += keeps(0.6 * best) ? 0 : 1;
}

void compare_chains(const Case& c, Chains& n) {
  for_each_pipeline(c,
                    [&](SearchContext& x, const SearchSpace& space, Strategy s, std::size_t base) {
                      if (s.schedule == Schedule::kDualPipe) return;
                      const Placement& at = x.placement(s, base);
                      CAPTURE(to_text(s), c.model.num_layers);
                      const double plain = EveryDivision(c, s).best_plain().step_time;
                      if (plain < 1e300)
                        check(x, space, stages_of(x, s, base, CountRule::kNone), at, plain, n);
                      if (c.model.num_layers > 5) return;
                      s.recompute = Recompute::kFull;
                      const double best = EveryDivision(c, s).best().step_time;
                      n.recomputing += best < plain * (1 - 1e-9) && best < 1e300 ? 1 : 0;
                      if (best < 1e300)
                        check(x, space, stages_of(x, s, base, CountRule::kFewest), at, best, n);
                    });
}

}  // namespace

TEST_CASE("[F-SEARCH-9] [F-SEARCH-16] chains through single stages leave the best division") {
  Dice dice(37);
  Chains n;
  for (int i = 0; i < 200; ++i) {
    CAPTURE(i);
    compare_chains(chains_case(dice), n);
  }
  CAPTURE(n.kept, n.ruled_out, n.recomputing);
  CHECK(n.kept > 300);
  CHECK(n.ruled_out > n.kept / 2);
  CHECK(n.recomputing > 20);
}
