#pragma once
// A search for one plan that begins where it mostly is.
#include "search/search.hpp"

namespace meshplan {

// Takes what is left of the time limit; false if nothing is.
[[nodiscard]] bool take_rest(SearchRequest& one, Seconds used);

// What is near the recommended plan first, which mostly has what is asked for, and then everything
// with what is left of the request's `node_limit`, without which there must be no plan.
[[nodiscard]] Result<SearchResult> near_first(const ModelSpec& m, const ClusterSpec& c,
                                              SearchRequest one, const SearchResult& result,
                                              const Progress& progress, SearchCaches* caches);

}  // namespace meshplan
