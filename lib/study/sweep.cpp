#include "study/sweep.hpp"

#include <chrono>
#include <limits>

#include "study/steps.hpp"

namespace meshplan {
namespace {

using Clock = std::chrono::steady_clock;

// What a size may take of a limit, with `left` sizes to go, this one included. A search without any
// time would never look at its first choice.
Seconds share_of(Seconds limit, Clock::time_point start, std::size_t left) {
  constexpr Seconds kLeast{1e-3};
  const Seconds used{std::chrono::duration<double>(Clock::now() - start).count()};
  return std::max(kLeast, (limit - used) / static_cast<double>(left));
}

}  // namespace

std::vector<std::int64_t> every_size(const ClusterSpec& c) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t n = 1; n < c.gpus_per_node; n *= 2) sizes.push_back(n);
  for (std::int64_t nodes = 1; nodes < c.nodes; nodes *= 2)
    sizes.push_back(nodes * c.gpus_per_node);
  sizes.push_back(num_gpus(c));
  return sizes;
}

Seconds SweepPoint::step_time() const {
  const Seconds plain = result.plans.front().step_time;
  return goodput && goodput->shares.useful > 0 ? plain / goodput->shares.useful : plain;
}

void fill_scaling(Sweep& sweep) {
  sweep.base.reset();
  sweep.knee.reset();
  sweep.cheapest.reset();
  double best = 0, least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < sweep.points.size(); ++i) {
    SweepPoint& p = sweep.points[i];
    if (!p.fits()) continue;
    if (!sweep.base) sweep.base = i;
    const SweepPoint& base = sweep.points[*sweep.base];
    p.speedup = base.step_time() / p.step_time();
    p.efficiency = p.speedup * static_cast<double>(base.gpus) / static_cast<double>(p.gpus);
    const double benefit = p.efficiency / p.step_time().si();
    if (benefit > best) best = benefit, sweep.knee = i;
    const double price = static_cast<double>(p.gpus) * p.step_time().si();
    if (price < least) least = price, sweep.cheapest = i;
  }
  sweep.recommended = sweep.knee;
}

Result<Sweep> sweep(const ModelSpec& m, const ClusterSpec& c, const SearchRequest& request,
                    const std::vector<std::int64_t>& sizes,
                    const std::optional<FailureModel>& failures, const Progress& progress) {
  Sweep result;
  const Steps steps(progress, sizes.size());
  const Clock::time_point start = Clock::now();
  for (std::size_t i = 0; i < sizes.size() && (i == 0 || !is_interrupted(request)); ++i) {
    // Of the last size it is told if nothing fits anywhere.
    SearchRequest at = request;
    at.with_closest_miss = request.with_closest_miss && i + 1 == sizes.size();
    if (at.time_limit) at.time_limit = share_of(*at.time_limit, start, sizes.size() - i);
    Result<SearchResult> found = search(m, with_gpus(c, sizes[i]), at, steps.of(i));
    if (!found) return found.errors();
    SweepPoint point;
    point.gpus = sizes[i];
    point.result = std::move(found).value();
    if (failures && point.fits()) {
      point.goodput = goodput(m, point.result.plans.front(), *failures);
    }
    result.points.push_back(std::move(point));
  }
  fill_scaling(result);
  if (request.objective == Objective::kCost) result.recommended = result.cheapest;
  return result;
}

}  // namespace meshplan
