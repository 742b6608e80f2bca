#include "schedule/divided.hpp"
#include "schedule/in_flight.hpp"
#include "schedule/orders.hpp"

namespace meshplan {
namespace {

// [F-PIPE-2] Idle time with equal stages (p - 1)(F + B), as 1F1B: a share of (p - 1) / m of the
// work. All forwards, then all backwards, oldest microbatch first (Huang et al. 2019, "GPipe", fig.
// 2; the order among the backwards is PyTorch's, the paper's is the reverse, which takes the same
// time).
TaskOrder gpipe_order(const PipelineShape& s, std::int64_t rank) {
  TaskOrder order;
  order.reserve(static_cast<std::size_t>(2 * s.microbatches));
  for (std::int64_t j = 0; j < s.microbatches; ++j)
    order.push_back(make_task(TaskKind::kForward, rank, j));
  for (std::int64_t j = 0; j < s.microbatches; ++j)
    order.push_back(make_task(TaskKind::kBackward, rank, j));
  return order;
}

InFlight gpipe_in_flight(const PipelineShape& s, std::int64_t rank) {
  return one_chunk_in_flight(rank, s.microbatches);
}

double gpipe_chain(const DividedRank& x) {
  const DividedPipeline& p = x.pipeline;
  return p.whole.all() + x.work - x.own.all() + p.hops(2 * x.last_rank()) +
         p.stalls(x.r, p.microbatches - 1);
}

}  // namespace

extern const ScheduleTraits kGpipeTraits;
const ScheduleTraits kGpipeTraits{
    .fact = "all forwards, then all backwards; keeps every microbatch",
    .source = "Huang et al. 2019 (1811.06965)",
    .forwards_first = true,
    .runs_on_one_rank = true,
    .order = gpipe_order,
    .in_flight = gpipe_in_flight,
    .chain = gpipe_chain,
};

}  // namespace meshplan
