#pragma once
// The schedules one by one: what a rank does in order, and which shapes are legal. One file each;
// pipeline.hpp is the interface of them all.
#include <string>
#include <vector>

#include "schedule/pipeline.hpp"

namespace meshplan {

using TaskOrder = std::vector<Task>;

inline Task make_task(TaskKind kind, std::int64_t chunk, std::int64_t microbatch) {
  return Task{kind, static_cast<std::int32_t>(chunk), static_cast<std::int32_t>(microbatch)};
}

[[nodiscard]] TaskOrder gpipe_order(const PipelineShape& s, std::int64_t rank);
[[nodiscard]] TaskOrder one_f_one_b_order(const PipelineShape& s, std::int64_t rank);
[[nodiscard]] TaskOrder interleaved_order(const PipelineShape& s, std::int64_t rank);
[[nodiscard]] TaskOrder zb_h1_order(const PipelineShape& s, std::int64_t rank);
[[nodiscard]] TaskOrder zb_v_order(const PipelineShape& s, std::int64_t rank);
[[nodiscard]] TaskOrder dualpipe_order(const PipelineShape& s, std::int64_t rank);

// Whether the forward order[i] of DualPipe is paired with the backward after it.
[[nodiscard]] bool starts_dualpipe_pair(const PipelineShape& s, std::int64_t rank,
                                        const TaskOrder& order, std::size_t i);

[[nodiscard]] std::string interleaved_illegal_reason(const PipelineShape& s);
[[nodiscard]] std::string zb_v_illegal_reason(const PipelineShape& s);
[[nodiscard]] std::string dualpipe_illegal_reason(const PipelineShape& s);

// Forwards that a rank runs before its first backward may follow one (1F1B, interleaved, ZB-H1).
[[nodiscard]] std::int64_t one_f_one_b_warmup(const PipelineShape& s, std::int64_t rank);
[[nodiscard]] std::int64_t interleaved_warmup(const PipelineShape& s, std::int64_t rank);

// Microbatches per chunk turn of the interleaved schedule: the given group, or pp.
[[nodiscard]] std::int64_t interleaved_group(const PipelineShape& s);

// A rank's order for microbatches + period() is its order for microbatches with one more steady
// round in the middle.
[[nodiscard]] std::int64_t period(const PipelineShape& s);

// The same shape with the fewest microbatches that still has the whole warm-up, at least two steady
// rounds, and the whole cool-down, congruent modulo period(); never more than s has.
[[nodiscard]] PipelineShape steady_template(const PipelineShape& s);

}  // namespace meshplan
