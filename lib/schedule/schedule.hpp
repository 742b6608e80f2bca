#pragma once
// Names of the pipeline schedules, and the shape of a pipeline. What each schedule is says its row
// of schedule/traits.hpp.
#include <cstdint>

#include "base/names.hpp"

namespace meshplan {

enum class Schedule { kGpipe, k1f1b, kInterleaved, kZbH1, kZbV, kDualPipe, kVHalf, kVMin };
MESHPLAN_NAMES(Schedule, {{Schedule::kGpipe, "gpipe"},
                          {Schedule::k1f1b, "1f1b"},
                          {Schedule::kInterleaved, "interleaved"},
                          {Schedule::kZbH1, "zb-h1"},
                          {Schedule::kZbV, "zb-v"},
                          {Schedule::kDualPipe, "dualpipe"},
                          {Schedule::kVHalf, "v-half"},
                          {Schedule::kVMin, "v-min"}});

// What a strategy has that says nothing else, and what others are compared with.
inline constexpr Schedule kPlainSchedule = Schedule::k1f1b;

// The model is cut into num_chunks() chunks in order of depth; a schedule says which rank holds
// which (schedule/chunk_map.hpp).
struct PipelineShape {
  Schedule schedule = kPlainSchedule;
  std::int64_t pp = 1;
  std::int64_t vp = 1;  // chunks per rank
  std::int64_t microbatches = 1;
  // Interleaved: microbatches per chunk turn; 0: pp (Megatron's default). Ignored elsewhere.
  std::int64_t group = 0;

  bool operator==(const PipelineShape&) const = default;
};

enum class TaskKind : std::uint8_t { kForward, kBackward, kBackwardInput, kBackwardWeight };

// kBackward is input and weight gradient in one; the zero-bubble schedules split it. An overlapped
// pair of DualPipe is a forward and the kBackward right after it: it starts when the inputs of both
// are there, takes the time of both, and sends both outputs at its end.
struct Task {
  TaskKind kind = TaskKind::kForward;
  std::int32_t chunk = 0;  // of the model, 0 .. num_chunks - 1
  std::int32_t microbatch = 0;
  bool operator==(const Task&) const = default;
};

}  // namespace meshplan
