#include "study/runnable.hpp"

#include <algorithm>

#include "frameworks/target.hpp"
#include "space/target.hpp"
#include "study/near_first.hpp"

namespace meshplan {
namespace {

// A third of the search's own, or a fraction of a second's: small searches run to their end.
std::int64_t nodes_of(const SearchResult& result) {
  constexpr std::int64_t kLeast = 32'768;
  return std::max(kLeast, result.statistics.nodes / 3);
}

}  // namespace

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
  narrow.node_limit = nodes_of(result);
  RunnablePlan runnable;
  runnable.space = *space;
  // What the framework cannot be told at all (the model, a fixed key) is an error of its search.
  const Result<SearchResult> found = near_first(m, c, narrow, result, progress, caches);
  if (found) runnable.exact = found->proof.exact;
  if (found && !found->plans.empty()) {
    runnable.plan = found->plans.front();
    runnable.slowdown = runnable.plan->step_time / best.step_time;
  }
  return Nothing{std::move(runnable)};
}

}  // namespace meshplan
