#pragma once
// Chains of tasks that wait for each other, of which a schedule's time is no less than any.
#include <limits>
#include <vector>

#include "schedule/traits.hpp"

namespace meshplan {

// A chunk's times in SI seconds. `backward` is what the chunk above it in depth waits for at least:
// the whole backward, or the input gradient alone where the schedule splits it.
struct ChainTimes {
  double forward, backward, weight;
};

// Paths through the chunks outside one rank.
struct Chain {
  std::vector<ChainTimes> chunks;
  std::vector<double> down;     // [c]: forwards of the chunks before c
  std::vector<double> up;       // [c]: backwards of the chunks from c on
  std::vector<double> weights;  // [c]: weight gradients of the chunks before c
  std::vector<double> drain;    // [c]: from the last backward of chunk c to the end of the step

  [[nodiscard]] double all_forward() const { return down.back(); }
};

inline constexpr double kNoChain = -std::numeric_limits<double>::infinity();

// The longest path that runs through rank r and all of its tasks in between.
struct RankPaths {
  double work = 0;   // all tasks of the rank
  double enter = 0;  // before its first task
  // Through the pipeline to the rank's first backward, and what the rank has run before it.
  double enter_backward = kNoChain, before_backward = 0;
  // From the rank's last backward, or its last forward, to the end; what it runs after that.
  double leave_backward = kNoChain, after_backward = 0;
  double leave_forward = kNoChain, after_forward = 0;
  bool alternates = false;  // its first backward comes before its last forward
};

// Of a schedule that runs `warmup` forwards before it takes turns, each chunk for `group`
// microbatches:
// 1F1B and interleaved.
[[nodiscard]] RankPaths alternating_paths(const PipelineShape& s, std::int64_t rank,
                                          const Chain& chain, std::int64_t group,
                                          std::int64_t warmup);

}  // namespace meshplan
