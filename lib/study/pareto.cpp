#include "study/pareto.hpp"

#include <algorithm>

#include "cost/step.hpp"
#include "search/budgets.hpp"

namespace meshplan {
namespace {

// `done`: the share of the budget range that is covered, 0..1.
Diagnostics add_points(const ModelSpec& m, const ClusterSpec& c, const SearchRequest& request,
                       Bytes resolution, const Progress& done, ParetoFront& front) {
  Result<BudgetSearch> made = BudgetSearch::make(m, c, request);
  if (!made) return made.errors();
  BudgetSearch search = std::move(made).value();
  resolution = std::max(resolution, Bytes{1});
  ClusterSpec limited = c;
  // A budget below what a device description may state ends the front.
  while (limited.device.memory > limited.device.context && !has_errors(validate(limited))) {
    const Bytes budget = limited.device.memory;
    const BudgetSearch::Fastest found = search.within(budget);
    front.exact = front.exact && found.exact;
    if (!found.strategy) break;
    const PlanCost plan = full_plan(m, c, *found.strategy);
    front.points.push_back({num_gpus(c), plan});
    if (request.ignore_activations) break;  // no budget to tighten: memory is not counted
    limited.device.memory = std::min(plan.memory().peak, budget) - resolution;
    if (done) {
      const double share = 1 - limited.device.memory.si() / c.device.memory.si();
      done({.share = share});
    }
  }
  return {};
}

}  // namespace

bool dominates(const ParetoPoint& a, const ParetoPoint& b) {
  const bool not_worse =
      a.plan.step_time <= b.plan.step_time && a.headroom() >= b.headroom() && a.gpus <= b.gpus;
  return not_worse &&
         (a.plan.step_time < b.plan.step_time || a.headroom() > b.headroom() || a.gpus < b.gpus);
}

std::vector<ParetoPoint> non_dominated(std::vector<ParetoPoint> points) {
  std::stable_sort(points.begin(), points.end(), [](const ParetoPoint& a, const ParetoPoint& b) {
    if (a.plan.step_time != b.plan.step_time) return a.plan.step_time < b.plan.step_time;
    return a.gpus != b.gpus ? a.gpus < b.gpus : a.headroom() > b.headroom();
  });
  std::vector<ParetoPoint> front;
  for (ParetoPoint& p : points) {
    const bool beaten = std::any_of(front.begin(), front.end(), [&](const ParetoPoint& f) {
      const bool equal =
          f.plan.step_time == p.plan.step_time && f.headroom() == p.headroom() && f.gpus == p.gpus;
      return equal || dominates(f, p);
    });
    if (!beaten) front.push_back(std::move(p));
  }
  return front;
}

Result<ParetoFront> pareto_front(const ModelSpec& m, const ClusterSpec& c,
                                 const SearchRequest& request, std::span<const std::int64_t> sizes,
                                 Bytes resolution, const Progress& progress) {
  ParetoFront front;
  front.resolution = resolution;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    Progress share;
    if (progress) {
      share = [&, i](const SearchProgress& done) {
        progress(
            {.share = (static_cast<double>(i) + done.share) / static_cast<double>(sizes.size())});
      };
    }
    const Diagnostics problems =
        add_points(m, with_gpus(c, sizes[i]), request, resolution, share, front);
    if (!problems.empty()) return problems;
  }
  front.points = non_dominated(std::move(front.points));
  return front;
}

}  // namespace meshplan
