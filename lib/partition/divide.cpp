#include "partition/divide.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace meshplan {

bool ranks_before(const Division& a, const Division& b, std::int64_t weight) {
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
  return std::lexicographical_compare(a.stages.begin(), a.stages.end(), b.stages.begin(),
                                      b.stages.end(), [](const StageMove& x, const StageMove& y) {
                                        return std::pair(x.first, x.second) <
                                               std::pair(y.first, y.second);
                                      });
}

namespace {

std::optional<Division> best_of(const Stages& stages, const StageContext& x,
                                const std::vector<std::vector<std::int64_t>>& partitions) {
  std::optional<Division> best;
  for (const std::vector<std::int64_t>& given : partitions) {
    const std::optional<Division> d =
        stages.with_layers(given.empty() ? stage_layers(x.strategy, x.model) : given);
    if (d && (!best || ranks_before(*d, *best, stages.weight()))) best = d;
  }
  return best;
}

Divided divide(Stages stages, const StageContext& x, const DivisionRules& rules, double most) {
  std::optional<Division> best;
  Divided result;
  switch (rules.partition) {
    case PartitionRule::kAny: {
      const std::int64_t limit = stages.max_bottleneck(most);
      const bool unlimited = limit >= kUnbounded / 4;
      result.fits = unlimited ? stages.may_fit() : true;
      stages.limit_to(limit);
      if (!result.fits || (!unlimited && !stages.may_fit_limit())) return result;
      const std::int64_t least = stages.min_bottleneck(limit);
      Partitioner<Stages> partitioner(stages);
      best = stages.measures_memory()
                 ? partitioner.min_bottleneck(least, limit)
                 : partitioner.best(stages.weight(), stages.least_sum(), least, limit);
      if (unlimited && x.counts == CountRule::kUniform) result.fits = best.has_value();
      break;
    }
    case PartitionRule::kEven:
      best = best_of(stages, x, {{}});
      result.fits = best.has_value();
      break;
    case PartitionRule::kGiven:
      best = best_of(stages, x, rules.given);
      result.fits = best.has_value();
      break;
  }
  if (best) result.lists = stages.lists(*best);
  return result;
}

}  // namespace

Divided divide(StageContext context, const DivisionRules& rules, double most) {
  if (context.counts != CountRule::kUniform) return divide(Stages(context), context, rules, most);
  // The same number in every chunk of a rank: the fewest with which there is a division.
  const std::int64_t step = context.strategy.vp;
  Divided none;
  for (context.uniform = step; context.uniform < context.model.num_layers + step;
       context.uniform += step) {
    const Divided divided = divide(Stages(context), context, rules, most);
    if (divided.lists) return divided;
    none.fits |= divided.fits;
  }
  return none;
}

}  // namespace meshplan
