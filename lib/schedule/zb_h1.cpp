#include <algorithm>

#include "schedule/chains.hpp"
#include "schedule/divided.hpp"
#include "schedule/orders.hpp"

namespace meshplan {
namespace {

// [F-PIPE-4] Idle time with equal stages (p - 1)(F + B - W) for m >= p and F >= W, B the input and
// W the weight gradient; in general (p - 1) max(B, F + B - W). Qi et al. 2023 (arXiv:2401.10241),
// sec. 2.1, fig. 3: the order of 1F1B with the backward split, where rank r runs each weight
// gradient r microbatches late, so that every rank holds p of them.
TaskOrder zb_h1_order(const PipelineShape& s, std::int64_t rank) {
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

RankPaths zb_h1_paths(const PipelineShape& s, std::int64_t rank, const Chain& chain) {
  const ChainTimes& t = chain.chunks[static_cast<std::size_t>(rank)];
  const auto m = static_cast<double>(s.microbatches);
  const std::int64_t ahead = std::min(s.microbatches, s.pp - rank);
  const std::int64_t weights = std::max<std::int64_t>(0, s.microbatches - ahead - rank);
  RankPaths p;
  p.work = m * (t.forward + t.backward + t.weight);
  p.enter = chain.down[static_cast<std::size_t>(rank)];
  p.enter_backward = chain.all_forward() + chain.up[static_cast<std::size_t>(rank + 1)];
  p.before_backward = static_cast<double>(ahead) * t.forward;
  p.leave_backward = chain.drain[static_cast<std::size_t>(rank)];
  p.after_backward = static_cast<double>(std::min(s.microbatches, rank + 1)) * t.weight;
  p.leave_forward =
      chain.all_forward() - chain.down[static_cast<std::size_t>(rank + 1)] + chain.drain.back();
  p.after_forward = static_cast<double>(ahead) * t.backward +
                    static_cast<double>(s.microbatches - weights) * t.weight;
  p.alternates = ahead < s.microbatches;
  return p;
}

double zb_h1_work_after(const PipelineShape& s, std::int64_t chunk,
                        const std::vector<ChainTimes>& chunks) {
  return std::min(static_cast<double>(s.microbatches), static_cast<double>(chunk) + 1) *
         chunks[static_cast<std::size_t>(chunk)].weight;
}

double zb_h1_chain(const DividedRank& x) {
  const DividedPipeline& p = x.pipeline;
  const TaskTimes until = p.rank[x.end] + p.embedding;
  const double behind = x.r == x.last_rank() ? 0 : p.whole.input - until.input;  // input gradients
  const double later = p.stalls(x.r, p.microbatches - x.ahead() - 1);
  return std::max(x.entered(), p.whole.forward + behind + x.work - x.ahead() * x.own.forward +
                                   later + p.hops(2 * x.last_rank() - x.r));
}

}  // namespace

extern const ScheduleTraits kZbH1Traits;
const ScheduleTraits kZbH1Traits{
    .fact = "splits off weight gradients to fill the bubble; the memory of 1f1b",
    .source = "Qi et al. 2023 (2401.10241)",
    .splits_backward = true,
    .order = zb_h1_order,
    .paths = zb_h1_paths,
    .work_after = zb_h1_work_after,
    .chain = zb_h1_chain,
    .until_last = zb_h1_chain,
};

}  // namespace meshplan
