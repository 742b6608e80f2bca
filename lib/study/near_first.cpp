#include "study/near_first.hpp"

#include <algorithm>
#include <utility>

#include "search/near.hpp"
#include "search/rivals.hpp"

namespace meshplan {

bool take_rest(SearchRequest& one, Seconds used) {
  if (one.time_limit) one.time_limit = *one.time_limit - used;
  return !one.time_limit || *one.time_limit > Seconds{};
}

Result<SearchResult> near_first(const ModelSpec& m, const ClusterSpec& c, SearchRequest one,
                                const SearchResult& result, const Progress& progress,
                                SearchCaches* caches) {
  if (result.plans.empty()) return search(m, c, one, progress, caches);
  SearchRequest near = one;
  keep_near(near, result.plans.front().strategy);
  Result<SearchResult> nearest = search(m, c, near, {}, caches);
  if (!nearest) return search(m, c, one, progress, caches);  // nothing of this space is near
  SearchResult first = std::move(nearest).value();
  *one.node_limit = std::max<std::int64_t>(1, *one.node_limit - first.statistics.nodes);
  if (!take_rest(one, first.statistics.wall) || *one.node_limit < nodes_of_space(result)) {
    first.proof.exact = false;
    return first;
  }
  if (!first.plans.empty()) one.cutoff = first.plans.front().step_time.si();
  Result<SearchResult> everything = search(m, c, one, progress, caches);
  if (!everything) return everything;
  SearchResult all = std::move(everything).value();
  all.statistics.wall += first.statistics.wall;
  if (all.plans.empty()) all.plans = std::move(first.plans);
  return all;
}

}  // namespace meshplan
