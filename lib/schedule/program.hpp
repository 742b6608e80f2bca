#pragma once
// A schedule compiled for the executor: all ranks' tasks in one order in which every task comes
// after its inputs, with the round of the steady state kept once and repeated.
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedule/pipeline.hpp"

namespace meshplan {

inline constexpr std::int32_t kNone = -1;
inline constexpr std::size_t kTaskKinds = 4;

// Lanes and links that no message takes, so that the executor need not ask: the lane from nowhere
// brings everything at time 0 and the one to nowhere takes no time; each rank has a link of its own
// to nowhere.
[[nodiscard]] inline std::int32_t lane_from_nowhere(const PipelineShape& s) {
  return 2 * (static_cast<std::int32_t>(num_chunks(s)) - 1);
}
[[nodiscard]] inline std::int32_t lane_to_nowhere(const PipelineShape& s) {
  return lane_from_nowhere(s) + 1;
}
[[nodiscard]] inline std::int32_t link_to_nowhere(const PipelineShape& s, std::int32_t rank) {
  return 2 * static_cast<std::int32_t>(s.pp) + rank;
}

// The duration index of a step that is no task.
[[nodiscard]] inline std::int32_t no_task(const PipelineShape& s) {
  return static_cast<std::int32_t>(kTaskKinds) * static_cast<std::int32_t>(num_chunks(s));
}

// One task, or only a wait for a message or a send of one (no_task(), no time), which the pairs of
// DualPipe need. Messages go over lanes: lane 2b is forward over the boundary after chunk b, 2b + 1
// backward over it. Links are pairs of neighbouring ranks: link 2r leaves rank r for rank r + 1
// (cyclic), 2r + 1 for any other.
struct Step {
  std::int32_t rank = 0;
  std::int32_t duration = 0;  // chunk * kTaskKinds + kind
  std::int32_t microbatch = 0;
  // Lanes of its input and output and the output's link; none where they stay on the rank, and in a
  // compiled program those from and to nowhere.
  std::int32_t in = kNone;
  std::int32_t out = kNone;
  std::int32_t link = kNone;
};

// Steps begin..end, run `repeats` times; round k adds first_shift + k * round to microbatches.
struct Segment {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::int64_t repeats = 1;
  std::int64_t first_shift = 0;
};

struct LiveMessage {
  std::int32_t lane = 0;
  std::int32_t microbatch = 0;
};

struct Program {
  PipelineShape shape;  // what it was compiled for: a steady_template()
  std::vector<Step> steps;
  std::size_t body_begin = 0;  // the round that may be repeated; empty if there is none
  std::size_t body_end = 0;
  std::int64_t round = 1;         // microbatches per repetition
  std::vector<LiveMessage> live;  // sent before body_end, received after it
  int ring_bits = 0;              // each lane keeps its last 2^ring_bits messages

  [[nodiscard]] std::array<Segment, 3> segments(std::int64_t microbatches) const;
};

[[nodiscard]] Program compile(const PipelineShape& s);

// Whether `p` can run `s`: only the number of steady rounds differs.
[[nodiscard]] bool fits(const Program& p, const PipelineShape& s);

}  // namespace meshplan
