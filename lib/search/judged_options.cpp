#include "search/judged_options.hpp"

#include <algorithm>
#include <optional>

#include "partition/divide.hpp"
#include "partition/division_bound.hpp"
#include "partition/stage_chains.hpp"
#include "schedule/traits.hpp"
#include "search/bounds.hpp"

namespace meshplan {
namespace {

// Asks for the ways of recomputing of a choice with its states sharded as far as `zero` goes, over
// all replicas, and on the host.
class LeastMemory {
 public:
  LeastMemory(SearchContext& x, const PartialStrategy& choice, const JudgedOptions& judged)
      : x_(x),
        judged_(judged),
        strategy_(with_partial(x.space.bases()[choice.base], choice)),
        in_flight_(x.in_flight.of(pipeline_shape(strategy_))) {
    strategy_.zero_group = 0;
    strategy_.offload.optimizer = host_may_hold(x, strategy_);
    // Without the optimizer nothing is sharded, or copied for it.
    if (strategy_.zero == 1 && strategy_.offload.device_share() == 0) strategy_.zero = 0;
  }

  // Of as few layers as fit, recomputed as a whole, and none if none need be.
  [[nodiscard]] StageContext of_fewest() {
    return context_of(Recompute::kFull, CountRule::kFewest, judged_.blocks);
  }
  // The same with at least as many on every rank as the option asks for.
  [[nodiscard]] StageContext of_full(const MemoryOption& option) {
    const bool all = option.counts == CountRule::kAll;
    StageContext context =
        context_of(Recompute::kFull, all ? CountRule::kAll : CountRule::kFewest, judged_.blocks);
    if (option.counts == CountRule::kUniform) context.uniform = strategy_.vp;
    return context;
  }
  [[nodiscard]] StageContext of_none() {
    return context_of(Recompute::kNone, CountRule::kNone, judged_.blocks);
  }
  [[nodiscard]] StageContext of_list(std::size_t i) {
    return context_of(Recompute::kSelective, CountRule::kNone, *judged_.listed[i]);
  }

 private:
  [[nodiscard]] StageContext context_of(Recompute mode, CountRule counts,
                                        const BlockCosts& blocks) {
    strategy_.recompute = mode;
    return {x_.model,
            x_.cluster,
            strategy_,
            blocks,
            x_.prefix(strategy_),
            in_flight_,
            judged_.communicators,
            x_.capacity(judged_.communicators),
            kNoLimit,
            x_.request.ignore_activations,
            Measure::kTime,
            counts,
            0,
            nullptr};
  }

  SearchContext& x_;
  const JudgedOptions& judged_;
  Strategy strategy_;
  const std::vector<InFlight>& in_flight_;
};

// How every layer is recomputed at least.
Recompute least_recomputed(const StageContext& context) {
  if (context.counts == CountRule::kAll) return Recompute::kFull;
  const bool selective = context.strategy.recompute == Recompute::kSelective;
  return selective ? Recompute::kSelective : Recompute::kNone;
}

// may_divide_within(), also by the chains through each stage: where layers differ these know more
// than the bound over all divisions at once.
bool may_keep(const SearchContext& x, StageContext context, double most, std::int64_t* effort) {
  const bool one = traits_of(context.strategy.schedule).layout != ChunkLayout::kBidirectional;
  if (most >= kUnlimited || !one || context.prefix.leading == 0) {
    return may_divide_within(context, x.space.divisions(), most, effort);
  }
  const DivisionBound bound(context.model, context.strategy, context.blocks, context.prefix,
                            least_recomputed(context));
  const StageChains chains(bound, most / kRoundedDown, nullptr);
  context.chains = &chains;
  return may_divide_within(context, x.space.divisions(), most, effort);
}

}  // namespace

bool may_divide_any_memory(SearchContext& x, const PartialStrategy& choice,
                           const JudgedOptions& judged, double most) {
  LeastMemory least(x, choice, judged);  // which the context refers to
  StageContext context = least.of_none();
  context.any_memory = true;
  return context.prefix.leading == 0 || may_keep(x, context, most, nullptr);
}

RecomputeModes may_divide(SearchContext& x, const PartialStrategy& choice,
                          const JudgedOptions& judged, double most, std::int64_t& effort) {
  LeastMemory least(x, choice, judged);
  // What is cheap to know goes first.
  const auto may = [&](const StageContext& context) {
    std::optional<Recompute> alike;
    if (context.counts != CountRule::kFewest) alike = least_recomputed(context);
    const Strategy& s = context.strategy;
    if (alike && *alike != Recompute::kNone && recompute_bound(x, s, context.blocks) > most) {
      return false;
    }
    const Bytes bytes =
        memory_bound(x, s, context.blocks, context.in_flight, judged.communicators, false, alike);
    return bytes <= context.capacity && may_keep(x, context, most, &effort);
  };
  const auto with = [&](Recompute recompute) {
    return std::find_if(judged.options.begin(), judged.options.end(),
                        [&](const MemoryOption& o) { return o.recompute == recompute; });
  };
  RecomputeModes modes{false, false, 0};
  const auto full = with(Recompute::kFull), none = with(Recompute::kNone);
  if (full != judged.options.end()) modes.full = may(least.of_full(*full));
  // The fewest that fit may be none.
  const bool known = full != judged.options.end() && full->counts == CountRule::kFewest;
  if (none != judged.options.end()) modes.none = known ? modes.full : may(least.of_none());
  for (std::size_t i = 0; i < std::min(RecomputeModes::kMostLists, judged.listed.size()); ++i) {
    if (may(least.of_list(i))) modes.add_list(i);
  }
  return modes;
}

bool takes_longer(SearchContext& x, const PartialStrategy& choice, const JudgedOptions& judged,
                  double most, std::int64_t& effort, KnownChains& chains) {
  const Placement& placement =
      x.placement(with_partial(x.space.bases()[choice.base], choice), choice.base);
  LeastMemory least(x, choice, judged);
  const auto longer = [&](const StageContext& context) {
    return takes_longer(context, x.space.divisions(), x.models, placement, most, effort, chains);
  };
  if (!longer(least.of_fewest())) return false;
  for (std::size_t i = 0; i < judged.listed.size(); ++i) {
    if (!longer(least.of_list(i))) return false;
  }
  return true;
}

}  // namespace meshplan
