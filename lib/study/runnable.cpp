#include "study/runnable.hpp"

#include "frameworks/target.hpp"
#include "space/target.hpp"

namespace meshplan {

Result<std::optional<RunnablePlan>> runnable_plan(const ModelSpec& m, const ClusterSpec& c,
                                                  const SearchRequest& request,
                                                  const SearchResult& result,
                                                  const Progress& progress, SearchCaches* caches) {
  using Nothing = std::optional<RunnablePlan>;
  if (result.plans.empty() || request.space != Space::kFull) return Nothing{};
  const PlanCost& best = result.plans.front();
  const std::optional<Space> space = space_of(best.strategy.framework);
  if (!space || inexpressible(best.strategy, m, c).empty()) return Nothing{};
  SearchRequest narrow = request;
  narrow.space = *space;
  narrow.top = 1;
  narrow.plans_only = true;
  RunnablePlan runnable;
  runnable.space = *space;
  // What the framework cannot be told at all (the model, a fixed key) is an error of its search.
  const Result<SearchResult> found = search(m, c, narrow, progress, caches);
  if (found && !found->plans.empty()) {
    runnable.plan = found->plans.front();
    runnable.exact = found->proof.exact;
    runnable.slowdown = runnable.plan->step_time / best.step_time;
  }
  return Nothing{std::move(runnable)};
}

}  // namespace meshplan
