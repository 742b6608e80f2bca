#include "study/studies.hpp"

#include <algorithm>

#include "frameworks/target.hpp"
#include "space/target.hpp"

namespace meshplan {
namespace {

constexpr double kSensitivityShare = 0.2;
// Memory budgets of a front: as many as a page holds, shared by its sizes.
constexpr std::int64_t kParetoSteps = 25, kFewestParetoSteps = 5;

// The plan that the framework can run, and the one that is unlikely to run out of memory.
Diagnostics run_better(const StudyRequest& wanted, const ModelSpec& m, const ClusterSpec& c,
                       const SearchRequest& request, const SearchResult& result,
                       const Progress& progress, Studies& studies) {
  Result<std::optional<RunnablePlan>> runnable = runnable_plan(m, c, request, result, progress);
  if (!runnable) return runnable.errors();
  studies.runnable = std::move(runnable).value();
  if (wanted.memory_risk >= 1) return {};
  SearchRequest narrow = request;
  SearchResult start;
  start.plans.push_back(result.plans.front());
  double slowdown = 1;
  if (studies.runnable && studies.runnable->plan) {
    start.plans.front() = *studies.runnable->plan;
    slowdown = studies.runnable->slowdown;
  }
  // Safer, but still to be run.
  const PlanCost& from = start.plans.front();
  if (request.space == Space::kFull && inexpressible(from.strategy, m, c).empty()) {
    narrow.space = space_of(from.strategy.framework).value_or(Space::kFull);
  }
  Result<std::optional<SaferPlan>> safer = safer_plan(m, c, narrow, start, wanted.memory_risk);
  if (!safer) return safer.errors();
  studies.safer = std::move(safer).value();
  if (studies.safer) studies.safer->slowdown *= slowdown;
  return {};
}

// Those of a search that found plans; the sweep was made before it.
Result<Studies> run_studies(const StudyRequest& wanted, const ModelSpec& m, const ClusterSpec& c,
                            const SearchRequest& request, const SearchResult& result,
                            const Progress& progress) {
  Studies studies;
  if (wanted.failures) {
    studies.goodput = GoodputStudy{*wanted.failures, {}};
    for (const PlanCost& plan : result.plans) {
      studies.goodput->plans.push_back(goodput(m, plan, *wanted.failures));
    }
  }
  if (wanted.pareto) {
    std::vector<std::int64_t> sizes = wanted.sizes;
    if (sizes.empty()) sizes.push_back(num_gpus(c));
    const auto each = kParetoSteps / static_cast<std::int64_t>(sizes.size());
    const Bytes resolution{c.device.memory.count() / std::max(each, kFewestParetoSteps)};
    Result<ParetoFront> front = pareto_front(m, c, request, sizes, resolution, progress);
    if (!front) return front.errors();
    studies.pareto = std::move(front).value();
  }
  if (result.plans.empty()) return studies;
  if (!request.time_limit) {  // a second search would take it again
    if (Diagnostics errors = run_better(wanted, m, c, request, result, progress, studies);
        !errors.empty()) {
      return errors;
    }
  }
  if (wanted.sensitivity) {
    Result<Sensitivity> s =
        sensitivity(m, c, request, result.plans.front(), kSensitivityShare, progress);
    if (!s) return s.errors();
    studies.sensitivity = std::move(s).value();
  }
  if (wanted.fallback) {
    Result<FallbackBook> book = fallback_book(m, c, request, result.plans.front(), progress);
    if (!book) return book.errors();
    studies.fallback = std::move(book).value();
  }
  return studies;
}

}  // namespace

Result<Answer> answer(const ModelSpec& m, const ClusterSpec& c, const SearchRequest& request,
                      const StudyRequest& wanted, const Progress& progress) {
  Answer found;
  found.cluster = c;
  std::optional<Sweep> swept;
  if (wanted.sizes.empty()) {
    Result<SearchResult> result = search(m, c, request, progress);
    if (!result) return result.errors();
    found.result = std::move(result).value();
  } else {
    Result<Sweep> result = sweep(m, c, request, wanted.sizes, wanted.failures, progress);
    if (!result) return result.errors();
    swept = std::move(result).value();
    const std::size_t shown = swept->knee.value_or(swept->points.size() - 1);
    found.cluster = with_gpus(c, swept->points[shown].gpus);
    found.result = swept->points[shown].result;
  }
  Result<Studies> studies = run_studies(wanted, m, found.cluster, request, found.result, progress);
  if (!studies) return studies.errors();
  found.studies = std::move(studies).value();
  found.studies.sweep = std::move(swept);
  return found;
}

}  // namespace meshplan
