#pragma once
// Pipeline schedules: the static task order of every rank, and one event-driven executor that
// turns an order and per-chunk times into time, bubble and peak memory. Closed forms of the papers
// are tests of it.
#include <cstdint>
#include <span>
#include <vector>

#include "base/units.hpp"
#include "spec/kinds.hpp"

namespace meshplan {

// The model is cut into pp * vp chunks in order of depth; a schedule says which rank holds which.
struct PipelineShape {
  Schedule schedule = Schedule::k1f1b;
  std::int64_t pp = 1;
  std::int64_t vp = 1;            // chunks per rank; 2 for zb-v and dualpipe
  std::int64_t microbatches = 1;
  std::int64_t group = 0;  // interleaved: microbatches per chunk turn; 0: pp (Megatron's default)

  bool operator==(const PipelineShape&) const = default;
};

enum class TaskKind { kForward, kBackward, kBackwardInput, kBackwardWeight };

// kBackward is input and weight gradient in one; the zero-bubble schedules split it.
struct Task {
  TaskKind kind = TaskKind::kForward;
  std::int32_t chunk = 0;  // of the model, 0 .. pp * vp - 1
  std::int32_t microbatch = 0;
  bool operator==(const Task&) const = default;
};

// Rank that holds a chunk. DualPipe holds every chunk on two ranks, one per direction: `direction`
// is microbatch parity there (0 down, 1 up) and ignored elsewhere.
[[nodiscard]] std::int64_t rank_of_chunk(const PipelineShape& s, std::int64_t chunk, int direction = 0);

// What rank `rank` does, in order.
[[nodiscard]] std::vector<Task> task_order(const PipelineShape& s, std::int64_t rank);

// Empty if the schedule can run this shape; else why not, and what would be legal.
[[nodiscard]] std::string illegal_reason(const PipelineShape& s);

// Times of one chunk for one microbatch.
struct ChunkTime {
  Seconds forward;
  Seconds backward_input;
  Seconds backward_weight;
};

// A message between neighbouring chunks on different ranks.
struct SendTime {
  Seconds transfer;      // until the receiver may use it
  Seconds sender_busy;   // of which the sender's compute stands still (0: fully overlapped)
  Seconds receiver_busy;
};

struct TimelineEntry {
  Task task;
  Seconds start;
  Seconds end;
};

struct PipelineResult {
  Seconds makespan;                  // first task's start to the last task's end over all ranks
  std::vector<Seconds> busy;         // per rank: sum of its task times
  std::vector<Seconds> communication;  // per rank: compute stood still for a send or receive
  std::vector<Seconds> finish;       // per rank: end of its last task
  std::vector<std::vector<TimelineEntry>> timeline;  // per rank; only if asked for
};

// chunks: pp * vp times by depth. forward_send and backward_send: pp * vp - 1 boundaries each,
// ignored where both chunks sit on one rank. Microbatch counts beyond the executor's window are
// extrapolated from the steady state, which is periodic there.
[[nodiscard]] PipelineResult run_pipeline(const PipelineShape& s, std::span<const ChunkTime> chunks,
                                          std::span<const SendTime> forward_send,
                                          std::span<const SendTime> backward_send,
                                          bool with_timeline = false);

// Largest number of microbatches whose activations rank `rank` holds at once, weighted: weights
// give bytes per microbatch of each chunk (pp * vp by depth). A forward adds, the backward (or the
// input gradient, of which `kept_for_weight` per chunk stays until the weight gradient) releases.
[[nodiscard]] Bytes peak_activation(const PipelineShape& s, std::int64_t rank,
                                    std::span<const Bytes> per_microbatch,
                                    std::span<const Bytes> kept_for_weight);

// Microbatches of each of the rank's chunks in flight at the moment of that peak with equal weights.
[[nodiscard]] std::int64_t peak_in_flight(const PipelineShape& s, std::int64_t rank);

// A time that no execution of the schedule can beat: for branch and bound. Ignores sends.
[[nodiscard]] Seconds makespan_lower_bound(const PipelineShape& s, std::span<const ChunkTime> chunks);

}  // namespace meshplan
