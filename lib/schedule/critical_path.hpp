#pragma once
// What a pipeline's time is the sum of.
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "schedule/pipeline.hpp"

namespace meshplan {

// [F-PIPE-10] A chain of tasks and messages that wait for each other. However long the chunks take,
// the pipeline takes no less than sum tasks x their times + messages.
struct CriticalPath {
  // How often the chain passes each; by chunk and TaskKind.
  std::vector<std::array<double, 4>> tasks;
  double messages = 0;    // seconds of transfers, and of ranks that stand still for them
  std::int64_t rank = 0;  // that the chain ends on

  // On one chunk.
  [[nodiscard]] double seconds(std::size_t chunk, const ChunkTime& time) const {
    const double w = time.backward_weight.si(), b = time.backward_input.si();
    const std::array<double, 4>& n = tasks[chunk];
    return n[0] * time.forward.si() + n[1] * (b + w) + n[2] * b + n[3] * w;
  }
  [[nodiscard]] Seconds length(std::span<const ChunkTime> chunks) const;
};

// The longest with what follows the last task of the rank that it ends on: `after`, by rank; none
// where empty, then it is the makespan of PipelineRunner::run(). `p`: compiled for such a shape.
// Nothing if the steady state moves by no time at all.
[[nodiscard]] std::optional<CriticalPath> critical_path(const Program& p, const PipelineShape& s,
                                                        std::span<const ChunkTime> chunks,
                                                        std::span<const SendTime> forward_send,
                                                        std::span<const SendTime> backward_send,
                                                        std::span<const Seconds> after = {});

}  // namespace meshplan
