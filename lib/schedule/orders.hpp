#pragma once
// What the schedules' own files share.
#include "schedule/pipeline.hpp"
#include "schedule/traits.hpp"

namespace meshplan {

inline Task make_task(TaskKind kind, std::int64_t chunk, std::int64_t microbatch) {
  return Task{kind, static_cast<std::int32_t>(chunk), static_cast<std::int32_t>(microbatch)};
}

// Forwards that a rank runs before its first backward may follow one (1F1B, ZB-H1).
[[nodiscard]] std::int64_t one_f_one_b_warmup(const PipelineShape& s, std::int64_t rank);

// A rank's order for microbatches + period() is its order for microbatches with one more steady
// round in the middle.
[[nodiscard]] std::int64_t period(const PipelineShape& s);

// The same shape with the fewest microbatches that still has the whole warm-up, at least two steady
// rounds, and the whole cool-down, congruent modulo period(); never more than s has.
[[nodiscard]] PipelineShape steady_template(const PipelineShape& s);

}  // namespace meshplan
