#include "search/candidate.hpp"

#include <algorithm>
#include <numeric>

#include "cost/memory.hpp"
#include "cost/step.hpp"
#include "search/bounds.hpp"

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

// All divisions whose inner ranks hold the same number of layers.
std::optional<Division> best_with_equal_middle(const Stages& stages, const StageContext& x) {
  const Strategy& s = x.strategy;
  const auto units = static_cast<std::int64_t>(stages.units());
  const std::int64_t inner = std::max<std::int64_t>(0, s.pp - 2);
  std::optional<Division> best;
  std::vector<std::int64_t> layers(static_cast<std::size_t>(s.pp));
  const std::int64_t most = inner > 0 ? units / inner : 1;
  for (std::int64_t middle = 1; middle <= most; ++middle) {
    const std::int64_t ends = units - inner * middle;
    for (std::int64_t first = s.pp == 1 ? ends : 1; first <= ends; ++first) {
      std::fill(layers.begin(), layers.end(), middle * s.vp);
      layers.back() = (ends - first) * s.vp;
      layers.front() = first * s.vp;
      const std::optional<Division> d = stages.with_layers(layers);
      if (d && (!best || better(*d, *best, stages.weight()))) best = d;
    }
  }
  return best;
}

std::optional<Division> best_division(const Stages& stages, const StageContext& x,
                                      const SearchSpace& space) {
  switch (space.partition_rule()) {
    case PartitionRule::kAny: {
      if (!stages.may_fit()) return std::nullopt;
      Partitioner<Stages> partitioner(stages);
      if (stages.measures_memory()) return partitioner.least_largest(stages.least_largest());
      return partitioner.best(stages.weight(), stages.least_sum(), stages.least_largest());
    }
    case PartitionRule::kEnds:
      return best_with_equal_middle(stages, x);
    case PartitionRule::kEven:
      return stages.with_layers(stage_layers(x.strategy, x.model));
    case PartitionRule::kGiven:
      break;
  }
  std::optional<Division> best;
  for (const std::vector<std::int64_t>& given : space.given_partitions()) {
    const std::optional<Division> d =
        stages.with_layers(given.empty() ? stage_layers(x.strategy, x.model) : given);
    if (d && (!best || better(*d, *best, stages.weight()))) best = d;
  }
  return best;
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
      prefix(layer_prefix(m)),
      blocks(m, c) {}

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

std::optional<Stages::Lists> divide(StageContext context, const SearchSpace& space) {
  if (context.counts != CountRule::kUniform) {
    const Stages stages(context);
    const std::optional<Division> d = best_division(stages, context, space);
    if (!d) return std::nullopt;
    return stages.lists(*d);
  }
  for (context.uniform = 1; context.uniform <= context.model.num_layers; ++context.uniform) {
    const Stages stages(context);
    if (const auto d = best_division(stages, context, space)) return stages.lists(*d);
  }
  return std::nullopt;
}

Examined examine(SearchContext& x, const Choice& choice, double cutoff) {
  Examined result;
  const Strategy plain = with_choice(x.space.bases()[choice.base], choice);
  const BlockCosts& blocks = x.blocks.costs(plain, choice.base);
  const std::vector<InFlight>& held = x.in_flight.of(pipeline_shape(plain));
  const Bytes communicators = communicator_bytes(x.model, x.cluster, plain);
  const bool by_time = x.objective != Objective::kMemory;
  for (const MemoryOption& option : x.space.options()) {
    Strategy s = plain;
    s.recompute = option.recompute;
    s.offload = {option.offload_optimizer, option.offload_activations};
    if (by_time && time_bound(x, s, blocks) > cutoff) continue;
    const StageContext context{x.model,
                               x.cluster,
                               s,
                               blocks,
                               x.prefix,
                               held,
                               communicators,
                               x.capacity(),
                               x.request.ignore_activations,
                               by_time ? Measure::kTime : Measure::kMemory,
                               option.counts,
                               0,
                               &option.given};
    const bool wrong_length = option.counts == CountRule::kGiven &&
                              static_cast<std::int64_t>(option.given.size()) != s.pp;
    const auto lists = wrong_length ? std::nullopt : divide(context, x.space);
    if (!lists) {
      ++result.evaluated;
      ++result.infeasible[std::string(name_of(reason_of(x, context)))];
      continue;
    }
    s.stage_layers = lists->layers, s.recompute_layers = lists->recomputed;
    const bool some = std::any_of(s.recompute_layers.begin(), s.recompute_layers.end(),
                                  [](std::int64_t n) { return n > 0; });
    if (s.recompute == Recompute::kFull && !some) continue;  // the same as without recomputation
    ++result.evaluated;
    ++result.feasible;
    const PlanCost plan = cost_of(x.model, x.cluster, s, blocks);
    Found found{std::move(s), plan.step_time, plan.memory().peak};
    if (!result.best || ranks_before(found, *result.best, x.objective)) {
      result.best = std::move(found);
    }
    if (by_time && option.is_plain()) break;  // the others only add time to it
  }
  return result;
}

}  // namespace meshplan
