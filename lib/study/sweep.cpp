#include "study/sweep.hpp"

#include "study/steps.hpp"

namespace meshplan {

Seconds SweepPoint::step_time() const {
  const Seconds plain = result.plans.front().step_time;
  return goodput && goodput->shares.useful > 0 ? plain / goodput->shares.useful : plain;
}

void fill_scaling(Sweep& sweep) {
  sweep.base.reset();
  sweep.knee.reset();
  double best = 0;
  for (std::size_t i = 0; i < sweep.points.size(); ++i) {
    SweepPoint& p = sweep.points[i];
    if (!p.fits()) continue;
    if (!sweep.base) sweep.base = i;
    const SweepPoint& base = sweep.points[*sweep.base];
    p.speedup = base.step_time() / p.step_time();
    p.efficiency = p.speedup * static_cast<double>(base.gpus) / static_cast<double>(p.gpus);
    const double benefit = p.efficiency / p.step_time().si();
    if (benefit > best) best = benefit, sweep.knee = i;
  }
}

Result<Sweep> sweep(const ModelSpec& m, const ClusterSpec& c, const SearchRequest& request,
                    const std::vector<std::int64_t>& sizes,
                    const std::optional<FailureModel>& failures, const Progress& progress) {
  Sweep result;
  const Steps steps(progress, sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    // Of the last size it is told if nothing fits anywhere.
    SearchRequest at = request;
    at.with_closest_miss = request.with_closest_miss && i + 1 == sizes.size();
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
  return result;
}

}  // namespace meshplan
