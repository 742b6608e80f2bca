#pragma once
// The plans to fall back to when nodes are lost, and whether the checkpoint goes with them.
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "search/search.hpp"
#include "study/reshard.hpp"

namespace meshplan {

struct Fallback {
  std::int64_t nodes_lost = 0;
  std::int64_t nodes_left = 0;
  std::int64_t nodes_used = 0;   // the rest idle: not every number of devices divides the work
  std::optional<PlanCost> plan;  // none if nothing fits on what is left
  double slowdown = 0;           // step time over the full cluster's
  Reshard reshard;               // from the full cluster's plan
};

struct FallbackBook {
  std::vector<Fallback> entries;  // by nodes lost
  bool exact = true;              // every search ran to its end
};

// Losses of 1, 2, 4, ... nodes that leave at least half of them (or one).
[[nodiscard]] std::vector<std::int64_t> losses(std::int64_t nodes);

// The same job, with the same global batch, on fewer nodes: the fastest of the plans for as many
// nodes as are left, for the next two smaller numbers that the job divides over, and for any larger
// loss.
[[nodiscard]] Result<FallbackBook> fallback_book(const ModelSpec& m, const ClusterSpec& c,
                                                 const SearchRequest& request, const PlanCost& best,
                                                 const Progress& progress = {});

}  // namespace meshplan
