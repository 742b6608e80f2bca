#pragma once
// What to compare a run with: the best plan for the work that it does.
#include <optional>

#include "frameworks/target.hpp"
#include "search/search.hpp"

namespace meshplan {

// The same batch and sequences in the same framework and precision.
[[nodiscard]] SearchRequest same_work(const Strategy& s);

// The best plan that the target can be told; nothing if none fits.
[[nodiscard]] std::optional<SearchResult> best_for_same_work(const ModelSpec& m,
                                                             const ClusterSpec& c,
                                                             const Strategy& s, Target target,
                                                             const Progress& progress = {});

}  // namespace meshplan
