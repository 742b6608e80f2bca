#include "search/divide.hpp"

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

// 1 .. most, those next to `middle` first.
std::vector<std::int64_t> from_middle(std::int64_t least, std::int64_t most, std::int64_t middle) {
  std::vector<std::int64_t> all;
  for (std::int64_t n = least; n <= most; ++n) all.push_back(n);
  std::stable_sort(all.begin(), all.end(), [&](std::int64_t a, std::int64_t b) {
    return std::abs(a - middle) < std::abs(b - middle);
  });
  return all;
}

}  // namespace

std::vector<std::vector<std::int64_t>> with_equal_middle(const StageLayout& layout,
                                                         std::int64_t pp) {
  const std::int64_t unit = layout.unit_layers(), units = layout.units();
  const std::int64_t inner = std::max<std::int64_t>(0, pp - 2);
  std::vector<std::vector<std::int64_t>> all;
  std::vector<std::int64_t> layers(static_cast<std::size_t>(pp));
  const std::int64_t most = inner > 0 ? units / inner : 1;
  for (const std::int64_t middle : from_middle(1, most, units / pp)) {
    const std::int64_t ends = units - inner * middle;
    for (const std::int64_t first : from_middle(pp == 1 ? ends : 1, ends, ends / 2)) {
      std::fill(layers.begin(), layers.end(), middle * unit);
      layers.back() = (ends - first) * unit;
      layers.front() = first * unit;
      all.push_back(layers);
    }
  }
  return all;
}

namespace {

// Of divisions whose stages take `most_time` or less. Those that cannot win by what their stages
// take at least are passed over.
std::optional<Division> best_of(const Stages& stages,
                                const std::vector<std::vector<std::int64_t>>& all,
                                std::int64_t most_time) {
  std::optional<Division> best;
  for (const std::vector<std::int64_t>& layers : all) {
    const std::int64_t useful = best ? stages.most_useful(*best) : kUnbounded;
    const std::int64_t limit = std::min(most_time, useful);
    const std::int64_t largest = *std::max_element(layers.begin(), layers.end());
    if (stages.least_time(largest / stages.layout().unit_layers()) > limit) continue;
    const std::optional<Division> d = stages.with_layers(layers, limit);
    if (d && (!best || ranks_before(*d, *best, stages.weight()))) best = d;
  }
  return best;
}

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

Divided divide(Stages stages, const StageContext& x, const SearchSpace& space, double most) {
  std::optional<Division> best;
  Divided result;
  switch (space.divisions().partition) {
    case PartitionRule::kAny: {
      const std::int64_t limit = stages.most_largest(most);
      const bool unlimited = limit >= kUnbounded / 4;
      result.fits = unlimited ? stages.may_fit() : true;
      stages.limit_to(limit);
      if (!result.fits || (!unlimited && !stages.may_fit_limit())) return result;
      const std::int64_t least = stages.least_largest(limit);
      Partitioner<Stages> partitioner(stages);
      best = stages.measures_memory()
                 ? partitioner.least_largest(least, limit)
                 : partitioner.best(stages.weight(), stages.least_sum(), least, limit);
      break;
    }
    case PartitionRule::kEnds: {
      // How many layers all ranks recompute depends on whether any division fits, however slow.
      const std::int64_t limit = stages.most_largest(most);
      const bool known = x.counts == CountRule::kUniform || limit >= kUnbounded / 4;
      const auto all = with_equal_middle(stages.layout(), x.strategy.pp);
      result.fits = !known || std::any_of(all.begin(), all.end(), [&](const auto& layers) {
        return stages.with_layers(layers).has_value();
      });
      if (result.fits) best = best_of(stages, all, limit);
      break;
    }
    case PartitionRule::kEven:
      best = best_of(stages, x, {{}});
      result.fits = best.has_value();
      break;
    case PartitionRule::kGiven:
      best = best_of(stages, x, space.divisions().given);
      result.fits = best.has_value();
      break;
  }
  if (best) result.lists = stages.lists(*best);
  return result;
}

}  // namespace

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

}  // namespace meshplan
