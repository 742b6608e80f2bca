#pragma once
// Of how many layers a plan's activations go to the host.
#include <cstdint>
#include <functional>

#include "search/search.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

// Whether it is as few as fit: of a plan that offloads, unless the request says of how many.
[[nodiscard]] bool offloads_fewest(const SearchRequest& request, const Strategy& s);

// [F-SEARCH-22] A layer more on the host takes no less time and no more memory, so that the fewest
// that fit (or leave a peak as low as all do) are the fastest: found by halving. All of them fit;
// the answer is then 0, which says all. `fits` is asked of numbers from 1 to num_layers - 1.
[[nodiscard]] std::int64_t fewest_offloaded(std::int64_t num_layers,
                                            const std::function<bool(std::int64_t)>& fits);

}  // namespace meshplan
