#include "study/pareto.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "cost/step.hpp"

namespace meshplan {
namespace {

class FrontSearch {
 public:
  FrontSearch(const ModelSpec& m, const SearchRequest& request, Bytes resolution)
      : model_(m), request_(request), resolution_(std::max(resolution, Bytes{1})) {
    request_.objective = Objective::kStepTime;
    request_.top = 1;
    request_.with_closest_miss = false;
  }

  // `done`: the share of the budget range that is covered, 0..1.
  Diagnostics run(const ClusterSpec& c, const Progress& done, ParetoFront& front) {
    ClusterSpec limited = c;
    while (limited.device.memory > limited.device.context) {
      const Result<SearchResult> found = search(model_, limited, request_);
      // A budget below what a device description may state ends the front.
      if (!found) return limited.device.memory == c.device.memory ? found.errors() : Diagnostics{};
      front.exact = front.exact && found->proof.exact;
      if (found->plans.empty()) break;
      const PlanCost plan = on_whole_device(model_, c, found->plans.front().strategy);
      const Bytes peak = request_.ignore_activations
                             ? limited.device.memory
                             : std::min(plan.memory().peak, limited.device.memory);
      front.points.push_back({num_gpus(c), plan});
      if (request_.ignore_activations) break;  // no budget to tighten: memory is not counted
      limited.device.memory = peak - resolution_;
      if (done) done(1 - limited.device.memory.si() / c.device.memory.si());
    }
    return {};
  }

 private:
  const ModelSpec& model_;
  SearchRequest request_;
  Bytes resolution_;
};

}  // namespace

PlanCost on_whole_device(const ModelSpec& m, const ClusterSpec& c, const Strategy& s) {
  EvaluateOptions options;
  options.ignore_memory = true;  // fits by the search's own rule
  options.with_remedies = false;
  Verdict verdict = evaluate(m, c, s, options);
  PLAN_CHECK(verdict.feasible());
  return std::get<PlanCost>(std::move(verdict.state));
}

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
  FrontSearch one(m, request, resolution);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    Progress share;
    if (progress) {
      share = [&, i](double done) {
        progress((static_cast<double>(i) + done) / static_cast<double>(sizes.size()));
      };
    }
    const Diagnostics problems = one.run(with_gpus(c, sizes[i]), share, front);
    if (!problems.empty()) return problems;
  }
  front.points = non_dominated(std::move(front.points));
  return front;
}

}  // namespace meshplan
