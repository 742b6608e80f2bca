#pragma once
// The best plan that is unlikely to run out of memory, where the best of all may well do so.
#include <optional>

#include "base/result.hpp"
#include "search/search.hpp"

namespace meshplan {

struct SaferPlan {
  double risk = 0;               // accepted probability of running out of memory
  std::optional<PlanCost> plan;  // nothing: no plan that was found is as safe
  double out_of_memory = 0;      // of `plan`, at most `risk`
  double slowdown = 0;  // its step time over the best plan's; below 1 if that is not fastest
  bool exact = true;    // every search ran to its end
};

// The most memory a plan of these parts may take on its device so that [F-UNC-3] is at most `risk`.
[[nodiscard]] Bytes safe_budget(const MemoryBreakdown& m, double risk);

// The optimum of the memory budget that leaves the best plan's parts a risk of `risk`; where the
// plan found is less safe than that (other parts, other errors), of its own budget, and so on.
// Nothing if the best plan is as safe itself, if there is none, or if memory is not counted.
[[nodiscard]] Result<std::optional<SaferPlan>> safer_plan(const ModelSpec& m, const ClusterSpec& c,
                                                          const SearchRequest& request,
                                                          const SearchResult& result, double risk);

}  // namespace meshplan
