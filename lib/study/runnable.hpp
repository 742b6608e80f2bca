#pragma once
// The best plan that the framework of its preset can run, where the best of all cannot be told to
// it: a search of everything that is legal also finds what nobody has built yet.
#include <optional>

#include "base/result.hpp"
#include "search/search.hpp"

namespace meshplan {

struct RunnablePlan {
  Space space = Space::kMegatron;  // of the framework
  std::optional<PlanCost> plan;    // nothing: no plan of that space fits
  double slowdown = 0;             // its step time over the best plan's
  bool exact = true;               // the search ran to its end, within its share of nodes
};

// The request again, in the space of the best plan's framework. Nothing if the best plan can be run
// as it is, if no space belongs to its framework, or if there is no plan at all.
[[nodiscard]] Result<std::optional<RunnablePlan>> runnable_plan(
    const ModelSpec& m, const ClusterSpec& c, const SearchRequest& request,
    const SearchResult& result, const Progress& progress = {}, SearchCaches* caches = nullptr);

}  // namespace meshplan
