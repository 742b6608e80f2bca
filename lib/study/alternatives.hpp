#pragma once
// What a recommendation leaves out: faster plans that ask for more than its request allows.
#include <optional>

#include "base/result.hpp"
#include "search/search.hpp"

namespace meshplan {

struct Alternative {
  Space space = Space::kFull;      // that was searched
  double memory_risk = 1;          // accepted in the search
  std::optional<PlanCost> plan;    // nothing: none that fits is faster than the recommended one
  double out_of_memory = 0;        // of `plan` [F-UNC-3]
  std::optional<double> slowdown;  // its step time over the recommended plan's; none without one
  bool exact = true;               // the search ran to its end
};

struct Alternatives {
  std::optional<Alternative> fastest;  // whatever the risk, if the request accepts less than any
  std::optional<Alternative> unbuilt;  // of all that is legal, if the request is for less
};

// Searches for step times below the first plan's, with half of nodes_for_comparison() each at most;
// without a plan to the end for the fastest, and then fills in the closest miss of `result` if
// nothing fits at all. Nothing of a search that was stopped, or for less memory: what needs least
// is safest too.
[[nodiscard]] Result<Alternatives> alternatives(const ModelSpec& m, const ClusterSpec& c,
                                                const SearchRequest& request, SearchResult& result,
                                                const Progress& progress = {},
                                                SearchCaches* caches = nullptr);

}  // namespace meshplan
