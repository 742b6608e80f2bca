#pragma once
// Plans near a good one: where a better one mostly is, if there is any.
#include <string_view>

#include "search/search.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

// Leaves of the request's space only what splits the model, and the batch, at most twice and at
// least half as far in each way as `s` does. `open`: a key of which that is not asked.
void keep_near(SearchRequest& request, const Strategy& s, std::string_view open = {});

}  // namespace meshplan
