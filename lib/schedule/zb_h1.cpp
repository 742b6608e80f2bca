#include <algorithm>

#include "schedule/orders.hpp"

namespace meshplan {

// [F-PIPE-4] Idle time with equal stages (p - 1)(F + B - W) for m >= p and F >= W, B the input and
// W the weight gradient; in general (p - 1) max(B, F + B - W). Qi et al. 2023 (arXiv:2401.10241),
// sec. 2.1, fig. 3: the order of 1F1B with the backward split, where rank r runs each weight
// gradient r microbatches late, so that every rank holds p of them.
static TaskOrder zb_h1_order(const PipelineShape& s, std::int64_t rank) {
  TaskOrder order;
  order.reserve(static_cast<std::size_t>(3 * s.microbatches));
  const std::int64_t warmup = one_f_one_b_warmup(s, rank);
  for (std::int64_t j = 0; j < warmup; ++j) order.push_back(make_task(TaskKind::kForward, rank, j));
  for (std::int64_t j = 0; j < s.microbatches; ++j) {
    if (warmup + j < s.microbatches)
      order.push_back(make_task(TaskKind::kForward, rank, warmup + j));
    order.push_back(make_task(TaskKind::kBackwardInput, rank, j));
    if (j >= rank) order.push_back(make_task(TaskKind::kBackwardWeight, rank, j - rank));
  }
  for (std::int64_t j = std::max<std::int64_t>(0, s.microbatches - rank); j < s.microbatches; ++j)
    order.push_back(make_task(TaskKind::kBackwardWeight, rank, j));
  return order;
}

extern const ScheduleTraits kZbH1Traits;
const ScheduleTraits kZbH1Traits{
    .fact = "splits off weight gradients to fill the bubble; the memory of 1f1b",
    .source = "Qi et al. 2023 (2401.10241)",
    .splits_backward = true,
    .order = zb_h1_order,
};

}  // namespace meshplan
