#pragma once
// Which division of layers a candidate is given first, by stage times alone.
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "partition/rounds.hpp"
#include "partition/stages.hpp"
#include "spec/division_rules.hpp"

namespace meshplan {

// Of the lists of layers per rank that the rule gives, each once.
[[nodiscard]] std::vector<Rounds> given_rounds(const StageContext& x, const DivisionRules& rules);

// Calls visit(StageContext) for the divisions of the rule with each of the totals that their rounds
// may have, or once where those do not matter (StageLayout::needs_rounds), until it returns false.
template <class Visit>
void for_each_rounds(StageContext x, const DivisionRules& rules, const Visit& visit) {
  if (!StageLayout::needs_rounds(x.strategy, x.prefix)) {
    visit(x);
    return;
  }
  const bool any = rules.partition == PartitionRule::kAny;
  const std::vector<Rounds> given = any ? std::vector<Rounds>{} : given_rounds(x, rules);
  const std::vector<Rounds>& all =
      any ? all_rounds(x.model.num_layers, x.strategy.pp, x.strategy.vp) : given;
  for (const Rounds& rounds : all) {
    x.rounds = &rounds;
    if (!visit(x)) return;
  }
}

// Whether some division fits and lets a step take `most` seconds or less, by its stages' times.
// `effort`: grows by the shares of layers whose memory was worked out.
[[nodiscard]] bool may_divide_within(const StageContext& context, const DivisionRules& rules,
                                     double most, std::int64_t* effort = nullptr);

// Whether a rank may have more than `n` layers, of which it recomputes as many, within `most`
// seconds of the pipeline. Else n recomputed layers or more on every rank are all there are: every
// larger number is the same. May say yes where it may not.
[[nodiscard]] bool may_have_more(const StageContext& context, std::int64_t n, double most);

// The division of layers that the rule picks by stage times, or by memory: [F-SEARCH-1]. Nothing if
// none fits, or none of those that do lets a step take `most` seconds or less. Times only say where
// to begin, so there the first totals of the rounds do that allow a division.
struct Divided {
  std::optional<Stages::Lists> lists;
  bool fits = false;        // whether some division does, as far as that was looked at
  std::int64_t effort = 0;  // shares of layers whose memory was worked out
};
[[nodiscard]] Divided divide(StageContext context, const DivisionRules& rules, double most);

}  // namespace meshplan
