#include "study/alternatives.hpp"

#include <algorithm>
#include <utility>

#include "cost/uncertainty.hpp"
#include "search/rivals.hpp"
#include "study/near_first.hpp"
#include "study/steps.hpp"

namespace meshplan {
namespace {

// Where no framework has a plan: a fraction of a second for what none has built.
constexpr std::int64_t kNodesOfUnbuilt = 16'384;

// The request for one plan that is better than the recommended one. Where there is none yet the
// answer depends on it, and what frameworks can run is searched to its end.
SearchRequest better_than(const SearchRequest& request, const SearchResult& result) {
  SearchRequest one = request;
  one.top = 1;
  one.plans_only = true;
  if (!result.plans.empty()) {
    one.node_limit = nodes_for_comparison(result) / 2;
    one.cutoff = result.plans.front().step_time.si();
    one.with_closest_miss = false;
  }
  return one;
}

Alternative taken(const SearchRequest& one, const SearchResult& found, const SearchResult& result) {
  Alternative a;
  a.space = one.space;
  a.memory_risk = one.memory_risk;
  a.exact = found.proof.exact;
  if (found.plans.empty()) return a;
  const PlanCost& plan = found.plans.front();
  const PlanCost* best = result.plans.empty() ? nullptr : &result.plans.front();
  if (best != nullptr && plan.step_time >= best->step_time) return a;
  a.plan = plan;
  a.out_of_memory = out_of_memory_probability(plan.memory());
  if (best != nullptr) a.slowdown = plan.step_time / best->step_time;
  return a;
}

}  // namespace

Result<Alternatives> alternatives(const ModelSpec& m, const ClusterSpec& c,
                                  const SearchRequest& request, SearchResult& result,
                                  const Progress& progress, SearchCaches* caches) {
  Alternatives all;
  if (!result.proof.exact || request.objective == Objective::kMemory) return all;
  const Steps steps(progress, 2);
  Seconds used = result.statistics.wall;
  if (request.memory_risk < 1 && !request.ignore_activations) {
    SearchRequest any = better_than(request, result);
    any.memory_risk = 1;
    if (!take_rest(any, used)) return all;
    Result<SearchResult> found = near_first(m, c, any, result, steps.of(0), caches);
    if (!found) return found.errors();
    all.fastest = taken(any, *found, result);
    used += found->statistics.wall;
    if (result.plans.empty() && found->plans.empty()) {
      SearchResult none = std::move(found).value();
      result.closest_miss = std::move(none.closest_miss);
      result.closest_strategy = std::move(none.closest_strategy);
      result.proof = std::move(none.proof);  // of more: nothing fits, whatever its risk
    }
  }
  if (request.space != Space::kFull) {
    SearchRequest legal = better_than(request, result);
    legal.space = Space::kFull;
    legal.with_closest_miss = false;
    if (result.plans.empty()) legal.node_limit = kNodesOfUnbuilt;
    if (!take_rest(legal, used)) return all;
    const Result<SearchResult> found = near_first(m, c, legal, result, steps.of(1), caches);
    if (!found) return found.errors();
    all.unbuilt = taken(legal, *found, result);
  }
  return all;
}

}  // namespace meshplan
