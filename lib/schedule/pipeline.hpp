#pragma once
// Pipeline schedules: the static task order of every rank, and one executor that turns an order and
// per-chunk times into time, bubble and peak memory. Closed forms of the papers are tests of it.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "schedule/chunk_map.hpp"
#include "schedule/schedule.hpp"

namespace meshplan {

// What rank `rank` does, in order. The shape must be legal, here and below. The idle times that
// follow with equal stages: [F-PIPE-2] GPipe and 1F1B, [F-PIPE-3] interleaved, [F-PIPE-4] ZB-H1,
// [F-PIPE-5] ZB-V, [F-PIPE-6] DualPipe.
[[nodiscard]] TaskOrder task_order(const PipelineShape& s, std::int64_t rank);

// Empty if the schedule can run this shape; else why not, and what would be legal.
[[nodiscard]] std::string illegal_reason(const PipelineShape& s);

// Times of one chunk for one microbatch.
struct ChunkTime {
  Seconds forward;
  Seconds backward_input;
  Seconds backward_weight;
  bool operator==(const ChunkTime&) const = default;
};

// A message between neighbouring chunks on different ranks. Messages of one rank to one neighbour
// follow each other on the link.
struct SendTime {
  Seconds transfer;       // from departure until the receiver may use it
  Seconds sender_busy;    // of which the sender's compute stands still (0: fully overlapped)
  Seconds receiver_busy;  // the receiver's compute stands still at least so long before its task
  bool operator==(const SendTime&) const = default;
};

struct TimelineEntry {
  Task task;
  Seconds start;
  Seconds end;
};

// On its way from `start`, when the link is free and the sending task is done, to `end`.
struct TimedMessage {
  bool backward = false;
  std::int32_t boundary = 0;  // after this chunk of the model
  std::int32_t microbatch = 0;
  std::int32_t from = 0, to = 0;  // ranks
  Seconds start;
  Seconds end;
};

// Per rank, finish = busy + communication + time spent waiting.
struct PipelineResult {
  Seconds makespan;                    // first task's start to the last rank's finish
  std::vector<Seconds> start;          // per rank: of its first task
  std::vector<Seconds> busy;           // per rank: sum of its task times
  std::vector<Seconds> communication;  // per rank: compute stood still for a send or receive
  std::vector<Seconds> finish;         // per rank: end of its last task and of the send after it
  // Only if asked for: per rank, and all messages in an order in which each rank's are sorted.
  std::vector<std::vector<TimelineEntry>> timeline;
  std::vector<TimedMessage> messages;
};

struct Program;

// [F-PIPE-1] Runs a schedule. As soon as the steady state repeats itself exactly, the rest of it is
// not simulated but added. Keeps the task orders of the last shapes (each for every number of
// microbatches that is congruent modulo the schedule's period) and all buffers. One per thread.
class PipelineRunner {
 public:
  PipelineRunner();
  ~PipelineRunner();
  PipelineRunner(PipelineRunner&&) noexcept;
  PipelineRunner& operator=(PipelineRunner&&) noexcept;

  // chunks: num_chunks times by depth. forward_send and backward_send: num_chunks - 1 boundaries
  // each, ignored where both chunks sit on one rank. Valid until the next call.
  const PipelineResult& run(const PipelineShape& s, std::span<const ChunkTime> chunks,
                            std::span<const SendTime> forward_send,
                            std::span<const SendTime> backward_send, bool with_timeline = false);
  // PipelineResult::finish alone.
  const std::vector<Seconds>& finish(const PipelineShape& s, std::span<const ChunkTime> chunks,
                                     std::span<const SendTime> forward_send,
                                     std::span<const SendTime> backward_send);

  // The compiled schedule of a legal shape. Valid until the next call.
  const Program& program(const PipelineShape& s);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// [F-PIPE-8] Most activations (of one chunk and one microbatch each) that the rank holds at once,
// where each is held until the last task that needs it.
[[nodiscard]] std::int64_t peak_in_flight(const PipelineShape& s, std::int64_t rank);

// [F-PIPE-9] A time that no execution of the schedule can beat: for branch and bound. Ignores
// sends.
[[nodiscard]] Seconds makespan_lower_bound(const PipelineShape& s,
                                           std::span<const ChunkTime> chunks);

}  // namespace meshplan
