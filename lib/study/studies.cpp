#include "study/studies.hpp"

#include <algorithm>

#include "search/groups.hpp"
#include "search/search_caches.hpp"

namespace meshplan {
namespace {

constexpr double kSensitivityShare = 0.2;
// Memory budgets of a front: as many as a page holds, shared by its sizes.
constexpr std::int64_t kParetoSteps = 25, kFewestParetoSteps = 5;

// Whether what fits may still be left out for its risk, and looked for as an alternative.
bool accepts_less(const SearchRequest& request) {
  return request.memory_risk < 1 && !request.ignore_activations &&
         request.objective != Objective::kMemory;
}

// Those of a search that found plans; the sweep was made before it. None that an interrupt cut
// short: what is complete is kept.
Result<Studies> run_studies(const StudyRequest& wanted, const ModelSpec& m, const ClusterSpec& c,
                            const SearchRequest& request, SearchResult& result,
                            SearchCaches& caches, const Progress& progress) {
  Studies studies;
  if (wanted.failures) {
    studies.goodput = GoodputStudy{*wanted.failures, {}};
    for (const PlanCost& plan : result.plans) {
      studies.goodput->plans.push_back(goodput(m, plan, *wanted.failures));
    }
  }
  if (is_interrupted(request)) return studies;
  if (wanted.pareto) {
    std::vector<std::int64_t> sizes = wanted.sizes;
    if (sizes.empty()) sizes.push_back(num_gpus(c));
    const auto each = kParetoSteps / static_cast<std::int64_t>(sizes.size());
    const Bytes resolution{c.device.memory.count() / std::max(each, kFewestParetoSteps)};
    Result<ParetoFront> front = pareto_front(m, c, request, sizes, resolution, progress);
    if (!front) return front.errors();
    if (is_interrupted(request)) return studies;
    studies.pareto = std::move(front).value();
  }
  Result<Alternatives> others = alternatives(m, c, request, result, progress, &caches);
  if (!others) return others.errors();
  if (is_interrupted(request)) return studies;
  studies.alternatives = std::move(others).value();
  if (result.plans.empty()) return studies;
  if (!request.time_limit) {  // a second search would take it again
    Result<std::optional<RunnablePlan>> runnable =
        runnable_plan(m, c, request, result, progress, &caches);
    if (!runnable) return runnable.errors();
    if (is_interrupted(request)) return studies;
    studies.runnable = std::move(runnable).value();
    // It is a plan of this space too: what takes another decision as it does takes no longer.
    if (studies.runnable && studies.runnable->plan) {
      const PlanCost& plan = *studies.runnable->plan;
      result.met.push_back({plan.strategy, plan.step_time});
    }
  }
  studies.rivals = rivals(m, c, request, result, rival_budget(request, result), &caches, progress);
  if (wanted.sensitivity) {
    Result<Sensitivity> s =
        sensitivity(m, c, request, result.plans.front(), kSensitivityShare, progress);
    if (!s) return s.errors();
    if (is_interrupted(request)) return studies;
    studies.sensitivity = std::move(s).value();
  }
  if (wanted.fallback) {
    Result<FallbackBook> book = fallback_book(m, c, request, result.plans.front(), progress);
    if (!book) return book.errors();
    if (is_interrupted(request)) return studies;
    studies.fallback = std::move(book).value();
  }
  return studies;
}

}  // namespace

Result<Answer> answer(const ModelSpec& m, const ClusterSpec& c, const SearchRequest& request,
                      const StudyRequest& wanted, const Progress& progress) {
  Answer found;
  found.cluster = c;
  SearchRequest first = request;
  // What misses memory by least is of interest where nothing fits, which alternatives() finds out.
  first.with_closest_miss = request.with_closest_miss && !accepts_less(request);
  const std::size_t rows = wanted.decisions.value_or(1);
  if (rows > 1) first.top = rows * StudyRequest::kPlansPerDecision;
  std::optional<Sweep> swept;
  std::optional<SearchCaches> caches;
  if (wanted.sizes.empty()) {
    caches.emplace(m, c);
    Result<SearchResult> result = search(m, c, first, progress, &*caches);
    if (!result) return result.errors();
    found.result = std::move(result).value();
  } else {
    Result<Sweep> result = sweep(m, c, first, wanted.sizes, wanted.failures, progress);
    if (!result) return result.errors();
    swept = std::move(result).value();
    const std::size_t shown = swept->recommended.value_or(swept->points.size() - 1);
    found.cluster = with_gpus(c, swept->points[shown].gpus);
    found.result = swept->points[shown].result;
    caches.emplace(m, found.cluster);
  }
  if (rows > 1) keep_groups(found.result.plans, rows);
  SearchRequest rest = request;
  if (swept && rest.time_limit) {
    *rest.time_limit = *rest.time_limit / static_cast<double>(wanted.sizes.size());
  }
  Result<Studies> studies =
      run_studies(wanted, m, found.cluster, rest, found.result, *caches, progress);
  if (!studies) return studies.errors();
  found.studies = std::move(studies).value();
  found.studies.sweep = std::move(swept);
  return found;
}

}  // namespace meshplan
