#include "search/candidate.hpp"

#include <algorithm>
#include <numeric>

#include "cost/memory.hpp"
#include "cost/step.hpp"
#include "search/bounds.hpp"
#include "search/space_target.hpp"

namespace meshplan {
namespace {

constexpr Bytes kNoLimit{std::numeric_limits<std::int64_t>::max() / 4};

// Features that a plan should have a reason for: of two equal plans the plainer one goes first.
int unusual_features(const Strategy& s) {
  int n = 0;
  n += s.schedule == Schedule::k1f1b || s.schedule == Schedule::kInterleaved ? 0 : 1;
  n += s.recompute == Recompute::kNone ? 0 : 1;
  n += s.offload.optimizer ? 1 : 0;
  n += s.offload.activations ? 1 : 0;
  n += s.zero >= 2 ? 1 : 0;
  n += s.zero_group > 0 ? 1 : 0;
  n += s.cp > 1 && s.cp_kind != CpKind::kRing ? 1 : 0;
  n += s.order == kDefaultOrder ? 0 : 1;
  n += std::adjacent_find(s.stage_layers.begin(), s.stage_layers.end(), std::not_equal_to<>()) ==
               s.stage_layers.end()
           ? 0
           : 1;
  return n;
}

// The better of two divisions as partition.hpp ranks them.
bool better(const Division& a, const Division& b, std::int64_t weight) {
  const auto cost = [&](const Division& d) { return d.sum + weight * d.largest; };
  const auto squares = [](const Division& d) {
    return std::accumulate(d.stages.begin(), d.stages.end(), std::int64_t{0},
                           [](std::int64_t n, const StageMove& move) {
                             return n + std::int64_t{move.first} * move.first +
                                    std::int64_t{move.second} * move.second;
                           });
  };
  if (cost(a) != cost(b)) return cost(a) < cost(b);
  if (a.largest != b.largest) return a.largest < b.largest;
  if (squares(a) != squares(b)) return squares(a) < squares(b);
  return std::lexicographical_compare(
      a.stages.begin(), a.stages.end(), b.stages.begin(), b.stages.end(),
      [](const StageMove& x, const StageMove& y) { return x.first < y.first; });
}

// 1 .. most, those next to `middle` first.
std::vector<std::int64_t> from_middle(std::int64_t least, std::int64_t most, std::int64_t middle) {
  std::vector<std::int64_t> all;
  for (std::int64_t n = least; n <= most; ++n) all.push_back(n);
  std::stable_sort(all.begin(), all.end(), [&](std::int64_t a, std::int64_t b) {
    return std::abs(a - middle) < std::abs(b - middle);
  });
  return all;
}

// All divisions whose inner ranks hold the same number of layers and whose stages take `most_time`
// or less. Nearly even ones come first: most others cost more by what their stages take at least.
std::optional<Division> best_with_equal_middle(const Stages& stages, const StageContext& x,
                                               std::int64_t most_time) {
  const Strategy& s = x.strategy;
  const std::int64_t unit = stages.layout().unit_layers(), units = stages.layout().units();
  const std::int64_t inner = std::max<std::int64_t>(0, s.pp - 2);
  std::optional<Division> best;
  std::vector<std::int64_t> layers(static_cast<std::size_t>(s.pp));
  const std::int64_t most = inner > 0 ? units / inner : 1;
  for (const std::int64_t middle : from_middle(1, most, units / s.pp)) {
    const std::int64_t ends = units - inner * middle;
    for (const std::int64_t first : from_middle(s.pp == 1 ? ends : 1, ends, ends / 2)) {
      const std::int64_t useful = best ? stages.most_useful(*best) : kUnbounded;
      const std::int64_t limit = std::min(most_time, useful);
      const std::int64_t largest = std::max({first, ends - first, inner > 0 ? middle : 0});
      if (stages.least_time(largest) > limit) continue;
      std::fill(layers.begin(), layers.end(), middle * unit);
      layers.back() = (ends - first) * unit;
      layers.front() = first * unit;
      const std::optional<Division> d = stages.with_layers(layers, limit);
      if (d && (!best || better(*d, *best, stages.weight()))) best = d;
    }
  }
  return best;
}

std::optional<Division> best_of(const Stages& stages, const StageContext& x,
                                const std::vector<std::vector<std::int64_t>>& partitions) {
  std::optional<Division> best;
  for (const std::vector<std::int64_t>& given : partitions) {
    const std::optional<Division> d =
        stages.with_layers(given.empty() ? stage_layers(x.strategy, x.model) : given);
    if (d && (!best || better(*d, *best, stages.weight()))) best = d;
  }
  return best;
}

Divided divide(Stages stages, const StageContext& x, const SearchSpace& space, double most) {
  std::optional<Division> best;
  Divided result;
  switch (space.partition_rule()) {
    case PartitionRule::kAny: {
      const std::int64_t least = stages.least_largest(), limit = stages.most_largest(most);
      const bool unlimited = limit >= kUnbounded / 4;
      result.fits = unlimited ? stages.may_fit() : true;
      stages.limit_to(limit);
      if (!result.fits || (!unlimited && !stages.may_fit_limit())) return result;
      Partitioner<Stages> partitioner(stages);
      best = stages.measures_memory()
                 ? partitioner.least_largest(least, limit)
                 : partitioner.best(stages.weight(), stages.least_sum(), least, limit);
      break;
    }
    case PartitionRule::kEnds: {
      // How many layers all ranks recompute depends on whether any division fits, however slow.
      const bool all = x.counts == CountRule::kUniform;
      const std::int64_t limit = all ? kUnbounded / 4 : stages.most_largest(most);
      best = best_with_equal_middle(stages, x, limit);
      result.fits = best.has_value() || limit < kUnbounded / 4;
      break;
    }
    case PartitionRule::kEven:
      best = best_of(stages, x, {{}});
      result.fits = best.has_value();
      break;
    case PartitionRule::kGiven:
      best = best_of(stages, x, space.given_partitions());
      result.fits = best.has_value();
      break;
  }
  if (best) result.lists = stages.lists(*best);
  return result;
}

// Why no division of layers fits.
InfeasibleReason reason_of(const SearchContext& x, StageContext context) {
  const Strategy& s = context.strategy;
  if (states_bound(x, s, context.blocks, context.communicators) > x.capacity()) {
    return InfeasibleReason::kModelStates;
  }
  if (s.offload.optimizer || s.offload.activations) {
    context.host_capacity = kNoLimit;
    if (Stages(context).may_fit()) return InfeasibleReason::kHostMemory;
  }
  return InfeasibleReason::kActivations;
}

}  // namespace

SearchContext::SearchContext(const ModelSpec& m, const ClusterSpec& c, const SearchRequest& r,
                             const SearchSpace& s)
    : model(m),
      cluster(c),
      request(r),
      space(s),
      objective(r.objective),
      unlimited_memory(false),
      cutoff(r.cutoff),
      prefix(layer_prefix(m)),
      shapes(c),
      parts(m, c, prefix, shapes),
      blocks(m, c, shapes) {}

Bytes SearchContext::communicators(const Strategy& s, std::size_t base) {
  std::int64_t order = s.zero;
  for (const Axis axis : s.order) order = order * 8 + static_cast<std::int64_t>(axis);
  const IntegerKey<9> key{
      s.tp, s.pp, s.cp, s.dp, s.ep, s.etp, order, s.zero_group, static_cast<std::int64_t>(base)};
  return communicators_.get(key, [&] { return communicator_bytes(model, cluster, s); });
}

Bytes SearchContext::capacity() const {
  return unlimited_memory ? kNoLimit : cluster.device.memory;
}

Bytes SearchContext::host_capacity() const {
  if (unlimited_memory || cluster.host_memory == Bytes{}) return kNoLimit;
  return Bytes{cluster.host_memory.count() / cluster.gpus_per_node};
}

bool ranks_before(const Found& a, const Found& b, Objective o) {
  if (o == Objective::kMemory && a.peak != b.peak) return a.peak < b.peak;
  if (a.step_time != b.step_time) return a.step_time < b.step_time;
  const int unusual_a = unusual_features(a.strategy), unusual_b = unusual_features(b.strategy);
  if (unusual_a != unusual_b) return unusual_a < unusual_b;
  const auto degree = [](const Strategy& s) { return s.tp * s.pp * s.cp * s.ep; };
  if (degree(a.strategy) != degree(b.strategy)) return degree(a.strategy) < degree(b.strategy);
  return to_text(a.strategy) < to_text(b.strategy);
}

Divided divide(StageContext context, const SearchSpace& space, double most) {
  if (context.counts != CountRule::kUniform) return divide(Stages(context), context, space, most);
  // The same number in every chunk of a rank.
  const std::int64_t step = context.strategy.vp;
  for (context.uniform = step; context.uniform < context.model.num_layers + step;
       context.uniform += step) {
    const Divided divided = divide(Stages(context), context, space, most);
    if (divided.fits) return divided;
  }
  return {};
}

namespace {

// One candidate's options, one after the other.
class Examiner {
 public:
  Examiner(SearchContext& x, const Choice& choice, Recomputing worth, double cutoff)
      : x_(x),
        worth_(worth),
        cutoff_(cutoff),
        plain_(with_choice(x.space.bases()[choice.base], choice)),
        blocks_(x.blocks.costs(plain_, choice.base)),
        held_(x.in_flight.of(pipeline_shape(plain_))),
        communicators_(x.communicators(plain_, choice.base)),
        by_time_(x.objective != Objective::kMemory) {}

  Examined run(const std::vector<MemoryOption>& options, double pipeline) {
    const bool more = plain_.zero >= 2 || plain_.kernels.contended_launches > 0;
    if (by_time_ && more) pipeline = std::max(pipeline, pipeline_bound(x_, plain_, blocks_));
    for (const MemoryOption& option : options) {
      if (!(option.recompute == Recompute::kSelective ? worth_.selective : worth_.full)) continue;
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

  // Whether the division found recomputes any layer. `none_too`: one that does not is a plan.
  bool try_option(const MemoryOption& option, double pipeline, bool none_too) {
    Strategy s = plain_;
    s.recompute = option.recompute;
    s.offload = {option.offload_optimizer, option.offload_activations};
    double end = 0;
    if (refuses(s)) return true;  // what differs in recomputation alone may do
    if (by_time_) {
      const bool everywhere =
          option.recompute == Recompute::kSelective || option.counts == CountRule::kAll;
      const double again = everywhere ? recompute_bound(x_, s, blocks_) : 0;
      end = end_bound(x_, s, blocks_);
      if (std::max(pipeline, again) + end > cutoff_) return false;
    }
    const StageContext context = context_of(s, option);
    const bool wrong_length = option.counts == CountRule::kGiven &&
                              static_cast<std::int64_t>(option.given.size()) != s.pp;
    const Divided divided = wrong_length ? Divided{} : divide(context, x_.space, cutoff_ - end);
    if (!divided.fits) {
      const std::int64_t options = none_too ? 2 : 1;
      result_.evaluated += options;
      result_.infeasible[std::string(name_of(reason_of(x_, context)))] += options;
    }
    if (!divided.lists) return false;
    s.stage_layers = divided.lists->layers, s.recompute_layers = divided.lists->recomputed;
    const bool some = std::any_of(s.recompute_layers.begin(), s.recompute_layers.end(),
                                  [](std::int64_t n) { return n > 0; });
    if (s.recompute == Recompute::kFull && !some) {  // the same as without recomputation
      if (!none_too) return false;
      s.recompute = Recompute::kNone;
    }
    if (option.counts == CountRule::kGiven && refuses(s)) return false;
    cost(std::move(s));
    return some;
  }

  // Whether the space's framework cannot be told the strategy.
  bool refuses(const Strategy& s) {
    const std::string reason = refusal_of(x_.request.space, s, x_.model, x_.cluster);
    if (reason.empty()) return false;
    ++result_.evaluated;
    ++result_.infeasible[reason];
    return true;
  }

  void cost(Strategy s) {
    if (by_time_ && complete_bound(x_, s, blocks_, cutoff_) > cutoff_) return;
    ++result_.evaluated;
    ++result_.feasible;
    const PlanCost plan = cost_of(x_.model, x_.cluster, s, blocks_);
    Found found{std::move(s), plan.step_time, plan.memory().peak};
    if (result_.best && !ranks_before(found, *result_.best, x_.objective)) return;
    cutoff_ = std::min(cutoff_, found.score(x_.objective));
    result_.best = std::move(found);
  }

  [[nodiscard]] StageContext context_of(const Strategy& s, const MemoryOption& option) const {
    return {x_.model,
            x_.cluster,
            s,
            blocks_,
            x_.prefix,
            held_,
            communicators_,
            x_.capacity(),
            x_.host_capacity(),
            x_.request.ignore_activations,
            by_time_ ? Measure::kTime : Measure::kMemory,
            option.counts,
            0,
            &option.given};
  }

  SearchContext& x_;
  Recomputing worth_;
  double cutoff_;  // nothing worse is wanted
  Strategy plain_;
  const BlockCosts& blocks_;
  const std::vector<InFlight>& held_;
  Bytes communicators_;
  bool by_time_;
  Examined result_;
};

}  // namespace

Recomputing may_divide(SearchContext& x, const Choice& choice, const BlockCosts& blocks,
                       Bytes communicators, double most) {
  Strategy s = with_choice(x.space.bases()[choice.base], choice);
  s.zero_group = 0;
  if (s.zero == 1) s.zero = 0;  // without the optimizer nothing is sharded, or copied for it
  s.offload.optimizer = true;
  const auto possible = [&](Recompute mode, CountRule counts) {
    s.recompute = mode;
    const StageContext context{x.model,
                               x.cluster,
                               s,
                               blocks,
                               x.prefix,
                               x.in_flight.of(pipeline_shape(s)),
                               communicators,
                               x.capacity(),
                               kNoLimit,
                               x.request.ignore_activations,
                               Measure::kTime,
                               counts,
                               0,
                               nullptr};
    Stages stages(context);
    stages.limit_to(stages.most_largest(most));
    return stages.may_fit_limit() &&
           Partitioner<Stages>(stages).is_possible(stages.most_largest(most));
  };
  return {possible(Recompute::kFull, CountRule::kFewest),
          possible(Recompute::kSelective, CountRule::kNone)};
}

Examined examine(SearchContext& x, const Choice& choice, const std::vector<MemoryOption>& options,
                 Recomputing worth, double pipeline, double cutoff) {
  return Examiner(x, choice, worth, cutoff).run(options, pipeline);
}

}  // namespace meshplan
