#include <algorithm>

#include "schedule/orders.hpp"

namespace meshplan {

// Narayanan et al. 2021 (PipeDream-Flush in Megatron-LM), sec. 2.2.1; Megatron-Core schedules.py,
// get_pp_rank_microbatches: rank r runs p - r - 1 forwards before it alternates.
std::int64_t one_f_one_b_warmup(const PipelineShape& s, std::int64_t rank) {
  return std::min(s.pp - rank - 1, s.microbatches);
}

// [F-PIPE-2] Idle time with equal stages (p - 1)(F + B): a share of (p - 1) / m of the work, as
// GPipe (Narayanan et al. 2021, sec. 2.2.1). p ranks, m microbatches, F and B one stage's times.
static TaskOrder one_f_one_b_order(const PipelineShape& s, std::int64_t rank) {
  TaskOrder order;
  order.reserve(static_cast<std::size_t>(2 * s.microbatches));
  const std::int64_t warmup = one_f_one_b_warmup(s, rank);
  for (std::int64_t j = 0; j < warmup; ++j) order.push_back(make_task(TaskKind::kForward, rank, j));
  for (std::int64_t j = 0; j < s.microbatches; ++j) {
    if (warmup + j < s.microbatches)
      order.push_back(make_task(TaskKind::kForward, rank, warmup + j));
    order.push_back(make_task(TaskKind::kBackward, rank, j));
  }
  return order;
}

extern const ScheduleTraits kOneFOneBTraits;
const ScheduleTraits kOneFOneBTraits{
    .fact =
        "alternates one forward, one backward; the bubble of gpipe, at most pp microbatches "
        "kept",
    .source = "Narayanan et al. 2019 (PipeDream), 2021 (2104.04473)",
    .runs_on_one_rank = true,
    .widely_available = true,
    .order = one_f_one_b_order,
};

}  // namespace meshplan
