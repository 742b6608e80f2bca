#pragma once
// The ranks of a group, as tests compare them.
#include <cstdint>
#include <vector>

#include "probe/operation.hpp"

namespace meshplan::test {

// The job's ranks of one group, increasing; none if there is no such group.
[[nodiscard]] inline std::vector<std::int64_t> members_of(const RankGroup& g, std::int64_t group,
                                                          std::int64_t ranks) {
  std::vector<std::int64_t> members;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    if (group >= 0 && place_of(g, rank, ranks).group == group) members.push_back(rank);
  }
  return members;
}

}  // namespace meshplan::test
