#include <algorithm>
#include <cmath>

#include "schedule/chains.hpp"
#include "schedule/divided.hpp"
#include "schedule/in_flight.hpp"
#include "schedule/orders.hpp"

namespace meshplan {

// Narayanan et al. 2021 (PipeDream-Flush in Megatron-LM), sec. 2.2.1; Megatron-Core schedules.py,
// get_pp_rank_microbatches: rank r runs p - r - 1 forwards before it alternates.
std::int64_t one_f_one_b_warmup(const PipelineShape& s, std::int64_t rank) {
  return std::min(s.pp - rank - 1, s.microbatches);
}

namespace {

// [F-PIPE-2] Idle time with equal stages (p - 1)(F + B): a share of (p - 1) / m of the work, as
// GPipe (Narayanan et al. 2021, sec. 2.2.1). p ranks, m microbatches, F and B one stage's times.
TaskOrder one_f_one_b_order(const PipelineShape& s, std::int64_t rank) {
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

RankPaths one_f_one_b_paths(const PipelineShape& s, std::int64_t rank, const Chain& chain) {
  return alternating_paths(s, rank, chain, 1, one_f_one_b_warmup(s, rank));
}

InFlight one_f_one_b_in_flight(const PipelineShape& s, std::int64_t rank) {
  return one_chunk_in_flight(rank, std::min(s.microbatches, s.pp - rank));
}

double one_f_one_b_chain(const DividedRank& x) {
  const DividedPipeline& p = x.pipeline;
  const double later = p.stalls(x.r, p.microbatches - x.ahead() - 1);
  return std::max(x.entered_and_left(), p.whole.all() + x.work - x.own.input - x.own.weight -
                                            x.ahead() * x.own.forward + later +
                                            p.hops(2 * x.last_rank()));
}

// Rank r of p holds p - r microbatches at most: so its forward of one more waits for the backward
// of one that went to the last rank and back.
double one_f_one_b_loop(const DividedRank& x) {
  const DividedPipeline& p = x.pipeline;
  const auto held = static_cast<double>(p.ranks - x.r);
  const double loops = std::ceil(p.microbatches / held);
  const double first = p.microbatches - 1 - (loops - 1) * held;  // microbatches before the loops
  const TaskTimes until = p.rank[x.begin] + (x.r > 0 ? p.embedding : TaskTimes{});
  const double loop = (p.whole - until).all() + p.hops(2 * (x.last_rank() - x.r));
  return until.all() + p.hops(2 * x.r) + first * x.own.forward + loops * loop;
}

}  // namespace

extern const ScheduleTraits kOneFOneBTraits;
const ScheduleTraits kOneFOneBTraits{
    .fact =
        "alternates one forward, one backward; the bubble of gpipe, at most pp microbatches "
        "kept",
    .source = "Narayanan et al. 2019 (PipeDream), 2021 (2104.04473)",
    .runs_on_one_rank = true,
    .widely_available = true,
    .order = one_f_one_b_order,
    .in_flight = one_f_one_b_in_flight,
    .paths = one_f_one_b_paths,
    .chain = one_f_one_b_chain,
    .loop = one_f_one_b_loop,
};

}  // namespace meshplan
