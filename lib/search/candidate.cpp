#include "search/candidate.hpp"

#include <algorithm>
#include <deque>

#include "cost/memory.hpp"
#include "cost/step.hpp"
#include "cost/step_parts.hpp"
#include "cost/uncertainty.hpp"
#include "cost/user_buffers.hpp"
#include "model/context.hpp"
#include "partition/divide.hpp"
#include "partition/division_bound.hpp"
#include "partition/stage_chains.hpp"
#include "schedule/traits.hpp"
#include "search/bounds.hpp"
#include "search/fewest_offloaded.hpp"

namespace meshplan {
namespace {

// Why no division of layers fits.
InfeasibleReason reason_of(const SearchContext& x, StageContext context) {
  const Strategy& s = context.strategy;
  if (states_bound(x, s, context.blocks, context.communicators) >
      x.capacity(context.communicators)) {
    return InfeasibleReason::kModelStates;
  }
  if (s.offload.optimizer || s.offload.activations) {
    context.host_capacity = kNoLimit;
    if (Stages(context).may_fit()) return InfeasibleReason::kHostMemory;
  }
  return InfeasibleReason::kActivations;
}

}  // namespace

namespace {

bool has_module_lists(const ModelSpec& m, const SearchRequest& r, const SearchSpace& s) {
  if (std::any_of(r.limits.begin(), r.limits.end(),
                  [](const Limit& limit) { return limit.key == "recompute_modules"; })) {
    return true;
  }
  const std::optional<Target> t = target_of(r.space);
  return t && std::any_of(s.bases().begin(), s.bases().end(), [&](const Strategy& base) {
           return !target_modules(*t, m, base).front().empty();
         });
}

}  // namespace

SearchContext::SearchContext(const ModelSpec& m, const ClusterSpec& c, const SearchRequest& r,
                             const SearchSpace& s, SearchCaches* shared)
    : model(m),
      cluster(c),
      request(r),
      space(s),
      target(r.space, m, c),
      objective(r.objective),
      unlimited_memory(false),
      lists_modules(has_module_lists(m, r, s)),
      cutoff(r.cutoff),
      own_(shared == nullptr ? std::make_unique<SearchCaches>(m, c) : nullptr),
      caches_(shared == nullptr ? *own_ : *shared),
      in_flight(caches_.in_flight),
      models(caches_.models),
      ends(caches_.ends) {
  for (const Strategy& base : s.bases()) base_numbers_.push_back(caches_.base_number(base));
}

Bytes SearchContext::capacity() const {
  return unlimited_memory ? kNoLimit : budget.value_or(cluster.device.memory);
}

Bytes SearchContext::capacity(Bytes communicators) const {
  if (unlimited_memory || request.memory_risk >= 1 || request.ignore_activations) return capacity();
  const Bytes safe = safe_peaks_.get({communicators.count()}, [&] {
    return safe_peak(communicators + cluster.device.context, cluster.device.memory,
                     request.memory_risk);
  });
  return std::min(capacity(), safe);
}

Bytes SearchContext::host_capacity() const {
  if (unlimited_memory || cluster.host_memory == Bytes{}) return kNoLimit;
  return Bytes{cluster.host_memory.count() / cluster.gpus_per_node};
}

Bytes SearchContext::node_memory() const {
  return unlimited_memory || cluster.host_memory == Bytes{} ? kNoLimit : cluster.host_memory;
}

namespace {

// One candidate's options, one after the other.
class Examiner {
 public:
  Examiner(SearchContext& x, const PartialStrategy& choice, RecomputeModes recompute_modes,
           double cutoff, const Effort& effort)
      : x_(x),
        recompute_modes_(recompute_modes),
        cutoff_(cutoff),
        effort_(effort),
        base_(choice.base),
        by_time_(x.objective != Objective::kMemory),
        plain_(with_partial(x.space.bases()[choice.base], choice)),
        blocks_(find_blocks(plain_)),
        held_(x.in_flight.of(pipeline_shape(plain_))),
        placement_(x.placement(plain_, choice.base)) {}

  Examined run(const std::vector<MemoryOption>& options, double pipeline) {
    const bool more = plain_.zero >= 2 || plain_.runtime.contended_launches > 0;
    if (by_time_ && more)
      pipeline = std::max(pipeline, pipeline_bound(x_, plain_, blocks_, cutoff_));
    lists_ = listed_modules(options);
    const bool slow = takes_longer_anyhow();
    for (const MemoryOption& option : options) {
      if (!is_worth_a_look(option) || (slow && only_adds_time(option))) continue;
      if (effort_.all_or_none && result_.left < kNothingLeft) {
        result_.left = 0;  // of the others nothing is known
        break;
      }
      const MemoryOption* none = find(options, option, CountRule::kNone);
      const MemoryOption* fewest = find(options, option, CountRule::kFewest);
      if (fewest == nullptr || none == nullptr || (&option != none && &option != fewest)) {
        try_option(option, pipeline, false);
      } else if (&option == none) {
        // Whatever fits without recomputation also does where recomputation is allowed: if nothing
        // does, or the best of it recomputes nothing, there is nothing else to look at.
        if (try_option(*fewest, pipeline, true)) try_option(*none, pipeline, false);
      }
    }
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool is_worth_a_look(const MemoryOption& option) const {
    if (option.recompute != Recompute::kSelective) {
      return option.counts == CountRule::kNone ? recompute_modes_.none : recompute_modes_.full;
    }
    const auto at = std::find(lists_.begin(), lists_.end(), option.modules);
    return recompute_modes_.has_list(static_cast<std::size_t>(at - lists_.begin()));
  }

  static constexpr double kNothingLeft = std::numeric_limits<double>::infinity();

  // The option that offloads as `like` does, and recomputes nothing, or as little as fits.
  static const MemoryOption* find(const std::vector<MemoryOption>& options,
                                  const MemoryOption& like, CountRule counts) {
    const Recompute mode = counts == CountRule::kFewest ? Recompute::kFull : Recompute::kNone;
    for (const MemoryOption& o : options) {
      if (o.counts == counts && o.recompute == mode &&
          o.offload_optimizer == like.offload_optimizer &&
          o.offload_activations == like.offload_activations) {
        return &o;
      }
    }
    return nullptr;
  }

  // Whether every division takes longer than wanted, whatever memory there is. Asked where that is
  // one question instead of one for each option and all the totals that rounds of chunks may have.
  [[nodiscard]] bool takes_longer_anyhow() {
    constexpr std::int64_t kEffort = 512;
    if (!by_time_ || !effort_.every || !StageLayout::needs_rounds(plain_, x_.prefix(plain_))) {
      return false;
    }
    const MemoryOption none;
    const StageContext context = context_of(plain_, none);
    const double end = end_bound(x_, plain_, blocks_);
    return takes_longer_in_any_memory({context, x_.space.divisions(), x_.models, placement_,
                                       cutoff_, end, false, kEffort, nullptr, effort_.chains},
                                      result_.effort);
  }

  // To what a division takes without the option.
  [[nodiscard]] static bool only_adds_time(const MemoryOption& option) {
    return !option.offload_optimizer && !option.offload_activations &&
           option.counts != CountRule::kGiven;
  }

  // Whether the division found recomputes any layer. `none_too`: one that does not is a plan.
  bool try_option(const MemoryOption& option, double pipeline, bool none_too) {
    Strategy s = with_option(plain_, option);
    const BlockCosts& blocks = blocks_of(s);
    double end = 0, least = 0;
    if (!may_tell(s)) return true;  // what differs in recomputation alone may do
    if (by_time_) {
      const bool everywhere =
          option.recompute == Recompute::kSelective || option.counts == CountRule::kAll;
      const double recompute_time = everywhere ? recompute_bound(x_, s, blocks) : 0;
      end = end_bound(x_, s, blocks);
      least = std::max(pipeline, recompute_time) + end;
      if (least > cutoff_) return false;
    }
    const Bytes memory = least_memory(s, option);
    if (!by_time_ && memory.si() > cutoff_) return false;
    if (memory > x_.capacity(placement_.communicators()) ||
        (option.offload_optimizer && !host_may_hold(x_, s))) {
      count_out(context_of(s, option), none_too);
      return false;
    }
    if (option.counts == CountRule::kGiven &&
        static_cast<std::int64_t>(option.given.size()) != s.pp) {
      count_out(context_of(s, option), none_too);
      return false;
    }
    const StepChains chains(*this, s, option, cutoff_ / kRoundedDown - end);
    if (!chains.may_keep()) return false;
    if (effort_.every) return try_every(s, option, end, least, none_too);
    StageContext context = context_of(s, option);
    context.chains = chains.of_stages();
    const Divided divided = divide(context, x_.space.divisions(), cutoff_ - end);
    result_.effort += divided.effort;
    if (!divided.fits) count_out(context, none_too);
    if (!divided.lists) return false;
    if (by_time_ && s.pp > 1) result_.left = std::min(result_.left, least);
    const bool some = recomputes(*divided.lists);
    cost(s, *divided.lists, option, none_too);
    return some;
  }

  // Chains of tasks of an option's divisions, with what each rank must have reduced by the end.
  class StepChains {
   public:
    // `most`: seconds that a step may take.
    StepChains(const Examiner& e, const Strategy& s, const MemoryOption& option, double most) {
      if (!e.by_time_ || most >= kUnlimited) return;
      Recompute recomputed = Recompute::kNone;
      if (option.counts == CountRule::kAll) recomputed = Recompute::kFull;
      if (option.recompute == Recompute::kSelective) recomputed = Recompute::kSelective;
      until_ = most - e.placement_.tied().si();
      const BlockCosts& blocks = e.blocks_of(s);
      const LayerPrefix& prefix = e.x_.prefix(s);
      ends_.emplace(e.x_.model, e.x_.cluster, s, blocks, prefix, e.placement_, e.x_.ends,
                    recomputed, until_);
      const bool differ = prefix.leading > 0;
      if (!differ && !ends_->any()) return;
      const bool sends = s.pp > 1;
      const SendTime send =
          sends ? boundary_send(e.x_.model, e.x_.cluster, s, e.placement_).time : SendTime{};
      bound_.emplace(e.x_.model, s, blocks, prefix, recomputed, send);
      if (!differ || traits_of(s.schedule).layout == ChunkLayout::kBidirectional) return;
      stages_.emplace(*bound_, until_, ends());
    }
    // Whether some division may.
    [[nodiscard]] bool may_keep() const {
      return !bound_ || ends() == nullptr || bound_->possible(until_, 0, 0, ends());
    }
    [[nodiscard]] const StageChains* of_stages() const { return stages_ ? &*stages_ : nullptr; }

   private:
    [[nodiscard]] const LeastEnds* ends() const { return ends_->any() ? &*ends_ : nullptr; }

    double until_ = 0;
    std::optional<LeastEnds> ends_;
    std::optional<DivisionBound> bound_;
    std::optional<StageChains> stages_;
  };

  // Of the fullest rank, with any division.
  [[nodiscard]] Bytes least_memory(const Strategy& s, const MemoryOption& option) const {
    std::optional<Recompute> alike;
    if (option.counts == CountRule::kNone) alike = option.recompute;
    if (option.counts == CountRule::kAll) alike = Recompute::kFull;
    return memory_bound(x_, s, blocks_of(s), held_, placement_.communicators(),
                        option.offload_activations, alike);
  }

  // The same with the step time of every division.
  bool try_every(const Strategy& s, const MemoryOption& option, double end, double least,
                 bool none_too) {
    const bool require_recompute =
        option.recompute == Recompute::kFull && option.counts == CountRule::kFewest && !none_too;
    const StageContext context = context_of(s, option);
    const FastestDivision found =
        fastest_division({context, x_.space.divisions(), x_.models, placement_, cutoff_, end,
                          require_recompute, effort_.starts, effort_.known, effort_.chains});
    if (!found.chains.chains.empty()) {
      result_.chains = found.chains;
      effort_.chains = &result_.chains;
    }
    result_.effort += found.work;
    effort_.starts = std::max(effort_.least, found.effort_left);
    if (!found.every) result_.left = std::min(result_.left, std::max(least, found.least));
    if (!found.lists) return false;
    const bool some = recomputes(*found.lists);
    cost(s, *found.lists, option, none_too);
    return some && !found.every;
  }

  // Modules of selective recomputation that are listed cost what they cost.
  [[nodiscard]] const BlockCosts& blocks_of(const Strategy& s) const {
    return s.recompute_modules.empty() && !has_host_weights(s) ? blocks_ : find_blocks(s);
  }

  // Where memory is the objective many shardings are looked at, each by few candidates: the costs
  // of its blocks are not kept for others.
  [[nodiscard]] const BlockCosts& find_blocks(const Strategy& s) const {
    if (by_time_ || s.zero < 2) return x_.blocks(s, base_);
    const auto known = std::find_if(own_.begin(), own_.end(), [&](const OwnBlocks& own) {
      return own.modules == s.recompute_modules && own.on_host == has_host_weights(s);
    });
    if (known != own_.end()) return known->costs;
    own_.push_back({s.recompute_modules, has_host_weights(s), x_.sharded_blocks(s, base_)});
    return own_.back().costs;
  }

  static bool recomputes(const Stages::Lists& lists) {
    return std::any_of(lists.recomputed.begin(), lists.recomputed.end(),
                       [](std::int64_t n) { return n > 0; });
  }

  // No division fits.
  void count_out(const StageContext& context, bool none_too) {
    const std::int64_t options = none_too ? 2 : 1;
    result_.evaluated += options;
    result_.infeasible[std::string(name_of(reason_of(x_, context)))] += options;
  }

  // Whether the space's framework can be told the strategy. Where nothing is held twice no sharding
  // differs from another, but some frameworks only offload an optimizer that is called sharded.
  bool may_tell(Strategy& s) {
    const auto refusal = [&] { return x_.target.refusal_of(s); };
    std::string reason = refusal();
    if (!reason.empty() && s.zero == 0 && has_one_replica(s, x_.model)) {
      s.zero = 1;
      const std::vector<Limit>& limits = x_.request.limits;
      const bool kept = std::all_of(limits.begin(), limits.end(), [&](const Limit& limit) {
        return limit.key != "zero" || satisfies(s, limit);
      });
      if (kept) reason = refusal();
    }
    if (reason.empty()) return true;
    ++result_.evaluated;
    ++result_.infeasible[reason];
    return false;
  }

  void cost(Strategy s, const Stages::Lists& lists, const MemoryOption& option, bool none_too) {
    s.stage_layers = lists.layers, s.recompute_layers = lists.recomputed;
    if (s.recompute == Recompute::kFull && !recomputes(lists)) {  // as without recomputation
      if (!none_too) return;
      s.recompute = Recompute::kNone;
    }
    if (option.counts == CountRule::kGiven && !may_tell(s)) return;
    const StepModelPool::Borrowed step = x_.models.borrow();
    if (by_time_ && !effort_.every) {
      const Seconds least = step->lower_bound(s, blocks_of(s), placement_, Seconds{cutoff_});
      if (rounded_down(least) > cutoff_) return;
    }
    ++result_.evaluated;
    const bool fewest = picks_layers(s);
    if (fewest) {
      const Bytes capacity = by_time_ ? capacity_of(s) : evaluated(s, step).peak;
      s.offload.activation_layers = fewest_offloaded(x_.model.num_layers, [&](std::int64_t n) {
        s.offload.activation_layers = n;
        return evaluated(s, step).peak <= capacity;
      });
    }
    const StepValue value = evaluated(s, step);
    if (fewest && value.host > x_.node_memory()) {
      ++result_.infeasible[std::string(name_of(InfeasibleReason::kHostMemory))];
      return;
    }
    ++result_.feasible;
    Found found{std::move(s), value.step_time, value.peak};
    if (result_.best && !ranks_before(found, *result_.best, x_.objective)) return;
    cutoff_ = std::min(cutoff_, found.score(x_.objective));
    result_.best = std::move(found);
  }

  [[nodiscard]] StepValue evaluated(const Strategy& s, const StepModelPool::Borrowed& step) const {
    step->set_pipeline(s, blocks_of(s), placement_, held_);
    step->set_sharding(s, placement_);
    return step->evaluate(s);
  }

  // Whether cost() takes as few layers to the host as fit, or as leave the peak as low as all do,
  // and asks then of the host's memory.
  [[nodiscard]] bool picks_layers(const Strategy& s) const {
    return offloads_fewest(x_.request, s);
  }

  [[nodiscard]] Bytes capacity_of(const Strategy& s) const {
    return x_.capacity(placement_.communicators() + user_buffer_bytes(local_shape(x_.model, s), s));
  }

  [[nodiscard]] StageContext context_of(const Strategy& s, const MemoryOption& option) const {
    return {x_.model,
            x_.cluster,
            s,
            blocks_of(s),
            x_.prefix(s),
            held_,
            placement_.communicators(),
            capacity_of(s),
            picks_layers(s) ? kNoLimit : x_.host_capacity(),
            x_.request.ignore_activations,
            by_time_ ? Measure::kTime : Measure::kMemory,
            option.counts,
            0,
            &option.given};
  }

  SearchContext& x_;
  RecomputeModes recompute_modes_;
  std::vector<RecomputeModules> lists_;
  double cutoff_;  // nothing worse is wanted
  Effort effort_;
  std::size_t base_;
  bool by_time_;
  struct OwnBlocks {
    RecomputeModules modules;
    bool on_host = false;
    BlockCosts costs;
  };
  mutable std::deque<OwnBlocks> own_;
  Strategy plain_;
  const BlockCosts& blocks_;
  const std::vector<InFlight>& held_;
  const Placement& placement_;
  Examined result_;
};

}  // namespace

std::vector<RecomputeModules> listed_modules(const std::vector<MemoryOption>& options) {
  std::vector<RecomputeModules> lists;
  for (const MemoryOption& option : options) {
    if (option.recompute != Recompute::kSelective) continue;
    if (std::find(lists.begin(), lists.end(), option.modules) == lists.end()) {
      lists.push_back(option.modules);
    }
  }
  return lists;
}

Examined examine(SearchContext& x, const PartialStrategy& choice,
                 const std::vector<MemoryOption>& options, RecomputeModes recompute_modes,
                 double pipeline, double cutoff, const Effort& effort) {
  return Examiner(x, choice, recompute_modes, cutoff, effort).run(options, pipeline);
}

}  // namespace meshplan
