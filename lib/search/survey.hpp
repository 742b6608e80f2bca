#pragma once
// A look over the whole space of a search: plans spread over it, each costed completely, whether
// they fit or not. For charts; the search itself costs only what may still win.
#include <cstddef>
#include <vector>

#include "search/search.hpp"

namespace meshplan {

struct SurveyedPlan {
  Strategy strategy;  // complete
  Seconds step_time;
  Bytes peak_memory;     // of the fullest pipeline rank
  bool fits = false;     // in the devices' memory, and the host's where it offloads
  bool pareto = false;   // fits, and no other plan here that fits is faster and smaller
  std::size_t rank = 0;  // in the search's result, from 1; 0: not among its plans
};

// All plans of `result` and up to `most` others of the request's space, by step time. Layers are
// divided evenly and recomputed on all ranks alike. The same for the same request, whatever
// the number of threads; empty where the space is.
[[nodiscard]] std::vector<SurveyedPlan> survey(const ModelSpec& m, const ClusterSpec& c,
                                               const SearchRequest& request,
                                               const SearchResult& result, std::size_t most);

}  // namespace meshplan
