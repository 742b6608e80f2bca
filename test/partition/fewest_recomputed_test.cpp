// What a share of layers must recompute, against every number of recomputed layers.
#include "frameworks/preset.hpp"
#include "partition/every_division.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

// Layers of up to a dozen kinds, in memory that takes some of what they save.
Case mixed_case(Dice& dice) {
  Case c;
  c.model = random_model(dice);
  const std::int64_t pp = 4;
  set_layers(dice, c.model, dice.between(8, 16));
  if (dice.once_in(2)) c.model.attn_res_block_size = dice.between(3, 6);
  c.cluster = small_cluster(1, pp, Bytes{dice.between(3, 24) * kGiB});
  c.request.base = framework_preset(Framework::kMegatron);
  c.request.base.global_batch = pp * dice.between(2, 5);
  c.request.base.seq_len = dice.one_of<std::int64_t>({2048, 8192, 16384});
  c.request.limits = {only("pp", {std::to_string(pp)}), only("micro_batch", {"1"}),
                      only("schedule", {"1f1b", "dualpipe"}), only("recompute", {"full"})};
  c.request.threads = 1;
  return c;
}

struct Shares {
  int none = 0, some = 0, too_much = 0;
};

// That no fewer of either rank would do than the value says, and that so many do.
void compare_share(const Stages& stages, const StageContext& x, int stage,
                   const StageAssignment& share, Shares& n) {
  const Stages::Value v = stages.value(stage, share);
  const auto fits = [&](std::int64_t first, std::int64_t second) {
    return stages.need(stage, share, first, second) <= x.capacity;
  };
  if (v.time >= 0) REQUIRE(fits(v.recomputed_first, v.recomputed_second));
  for (std::int64_t first = 0; first <= share.first; ++first) {
    for (std::int64_t second = 0; second <= share.second; ++second) {
      if (!fits(first, second)) continue;
      REQUIRE(v.time >= 0);
      REQUIRE((first >= v.recomputed_first || second >= v.recomputed_second));
      if (first == v.recomputed_first) REQUIRE(second >= v.recomputed_second);
      if (second == v.recomputed_second) REQUIRE(first >= v.recomputed_first);
    }
  }
  ++(v.time < 0 ? n.too_much : v.recomputed_first + v.recomputed_second > 0 ? n.some : n.none);
}

void compare_stage(const Stages& stages, const StageContext& x, int stage, Shares& n) {
  const StageLayout& layout = stages.layout();
  const int least = layout.fewest(stage);
  for (int front = 0; front < layout.layers(); ++front) {
    if (!layout.is_bidirectional()) {
      for (int first = least; front + first <= layout.layers(); ++first) {
        compare_share(stages, x, stage, {{front, front, 0, 0}, first, 0}, n);
      }
      continue;
    }
    for (int back = std::max(0, front - 3); front + back + 2 * least <= layout.layers(); ++back) {
      if (back - front > StageLayout::kMostLead) break;
      for (int first = least; front + back + first + least <= layout.layers(); ++first) {
        for (int second = least; front + back + first + second <= layout.layers(); ++second) {
          const StageAssignment share{{front + back, front, back, 0}, first, second};
          const int lead = front + first - back - second;
          if (!StageLayout::has_slot(share) || std::abs(lead) > StageLayout::kMostLead) continue;
          compare_share(stages, x, stage, share, n);
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("[F-SEARCH-20] a share of layers recomputes as few as fit, whatever kinds they are of") {
  Dice dice(20);
  Shares one, two;
  for (int i = 0; i < 40; ++i) {
    CAPTURE(i);
    const Case c = mixed_case(dice);
    for_each_pipeline(c, [&](SearchContext& x, const SearchSpace&, Strategy s, std::size_t base) {
      s.recompute = Recompute::kFull;
      CAPTURE(to_text(s));
      const StageContext context = stages_of(x, s, base, CountRule::kFewest);
      const Stages stages(context);
      const bool pairs = stages.layout().is_bidirectional();
      if (s.vp > 1 && !pairs) return;
      for (int stage = 0; stage < stages.num_stages(); ++stage) {
        compare_stage(stages, context, stage, pairs ? two : one);
      }
    });
  }
  for (const Shares& n : {one, two}) {
    CAPTURE(n.none, n.some, n.too_much);
    CHECK(n.none > 100);
    CHECK(n.some > 100);
    CHECK(n.too_much > 100);
  }
}
