#pragma once
// How fast the shardings of a split can be at best, before its schedules are told apart by more
// than what hides reductions.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "search/candidate.hpp"

namespace meshplan {

// Of a split, whatever its schedule: `s` has the sharding, whose number in the mesh's list that is.
[[nodiscard]] const WholeReductions& reductions_of(SearchContext& x, const Strategy& s,
                                                   std::uint32_t mesh, std::uint32_t sharding,
                                                   const BlockCosts& blocks);

// [F-SEARCH-21] Of a pipeline's step, without what follows on all ranks: seconds that no division
// undercuts, rounded down; 0 where nothing is known.
[[nodiscard]] double late_step(const SearchContext& x, const Strategy& s, const BlockCosts& blocks,
                               const WholeReductions& all);

// [F-SEARCH-19] A step of p ranks takes
//   (m A + max(0, G - n B) + max(0, W - n F)) / p + end
// at least: A all work of one microbatch with the traffic of its sharded weights, F of it forward
// and B backward, G and W the reductions of gradients and the gathers of weights of all layers on
// one rank [F-SEARCH-18], n microbatches that hide them. The slowest rank takes at least the mean.
class ShardingBounds {
 public:
  static constexpr double kNoSharding = std::numeric_limits<double>::infinity();

  // `split`: a strategy of the split, with the plain schedule; `blocks`: costs that none of its
  // shardings undercuts. `blocks` must live as long. `shardings`: those that are asked about.
  // `mesh`: its number in the space.
  ShardingBounds(SearchContext& x, Strategy split, std::uint32_t mesh, const BlockCosts& blocks,
                 std::vector<std::uint32_t> shardings);

  // Seconds of a step that no sharding undercuts under the schedule of `s`, whose layers take
  // `pipeline` at least; infinite where there are no shardings.
  [[nodiscard]] double least(const Strategy& s, double pipeline);

 private:
  struct Times {
    double work = 0, end = 0;                        // of a step
    double late = 0;                                 // with the last buckets [F-SEARCH-21]
    double gradients = 0, weights = 0;               // of all layers on one rank
    double hidden_backward = 0, hidden_forward = 0;  // of those by one microbatch's passes
  };
  [[nodiscard]] const Times& times(std::size_t i);

  SearchContext& x_;
  std::uint32_t mesh_;
  const BlockCosts& blocks_;
  Strategy split_;
  std::vector<std::uint32_t> shardings_;
  std::vector<std::optional<Times>> times_;  // by sharding
  double forward_ = 0, backward_ = 0;        // of one microbatch through all blocks
};

}  // namespace meshplan
