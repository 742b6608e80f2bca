#include <algorithm>
#include <array>

#include "schedule/chains.hpp"
#include "schedule/divided.hpp"
#include "schedule/orders.hpp"

namespace meshplan {
namespace {

// Appends tasks of a rank's two chunks, each lane in order of microbatches, and leaves out the
// microbatches beyond the real ones.
class Lanes {
 public:
  Lanes(const PipelineShape& s, std::int64_t rank, TaskOrder& order)
      : microbatches_(s.microbatches), chunks_{rank, 2 * s.pp - 1 - rank}, order_(order) {}

  void put(TaskKind kind, std::size_t local) {
    std::int64_t& count = counts_[static_cast<std::size_t>(kind)][local];
    if (count < microbatches_) order_.push_back(make_task(kind, chunks_[local], count));
    ++count;
  }
  void put_backward(std::size_t local) {
    put(TaskKind::kBackwardInput, local);
    put(TaskKind::kBackwardWeight, local);
  }
  [[nodiscard]] std::int64_t done(TaskKind kind, std::size_t local) const {
    return counts_[static_cast<std::size_t>(kind)][local];
  }

 private:
  std::int64_t microbatches_;
  std::array<std::int64_t, 2> chunks_;
  TaskOrder& order_;
  std::array<std::array<std::int64_t, 2>, 4> counts_{};
};

// [F-PIPE-5] With F = B = W and m >= 2p - 1 no rank waits between its first and its last task.
// Ranks start one after the other, so the step from the first start to the last end is (p - 1) F
// longer; only an optimizer step without a barrier (the paper's post-validation) hides that. Qi et
// al. 2023 (arXiv:2401.10241), sec. 6, fig. 8: the hand-crafted ZB-V order. Chunk 0 of rank r is
// the model's chunk r, chunk 1 is 2p - 1 - r. With fewer than 2p - 1 microbatches it is the order
// for 2p - 1 without the missing ones (as in the authors' code and in PyTorch).
TaskOrder zb_v_order(const PipelineShape& s, std::int64_t rank) {
  TaskOrder order;
  order.reserve(static_cast<std::size_t>(6 * s.microbatches));
  const std::int64_t microbatches = std::max(2 * s.pp - 1, s.microbatches);
  constexpr auto kF = TaskKind::kForward;
  constexpr auto kB = TaskKind::kBackwardInput;
  constexpr auto kW = TaskKind::kBackwardWeight;
  Lanes lanes(s, rank, order);

  for (std::int64_t i = 0; i < 2 * (s.pp - rank) - 1; ++i) lanes.put(kF, 0);
  for (std::int64_t i = 0; i < rank; ++i) {
    lanes.put(kF, 1);
    lanes.put(kF, 0);
  }
  for (std::int64_t i = 0; i < s.pp - rank; ++i) {
    lanes.put(kF, 1);
    lanes.put_backward(1);
  }
  while (lanes.done(kF, 1) < lanes.done(kF, 0) || lanes.done(kF, 0) < microbatches) {
    if (lanes.done(kF, 0) < microbatches) lanes.put(kF, 0);
    lanes.put_backward(0);
    lanes.put(kF, 1);
    lanes.put_backward(1);
  }
  for (std::int64_t i = 0; i < rank; ++i) {
    lanes.put(kB, 0);
    lanes.put(kB, 1);
  }
  for (std::int64_t i = 0; i < s.pp - rank; ++i) lanes.put_backward(0);
  while (lanes.done(kW, 1) < lanes.done(kB, 1)) lanes.put(kW, 1);
  while (lanes.done(kW, 0) < lanes.done(kB, 0)) lanes.put(kW, 0);
  return order;
}

// Weight gradients of the two chunks that rank r of ZB-V runs after chunk r's last backward. The
// first m - p of chunk r's follow their input gradient at once.
struct ZbVRest {
  double first, second;
};

ZbVRest zb_v_rest(double microbatches, std::int64_t ranks, std::int64_t rank) {
  const auto p = static_cast<double>(ranks), r = static_cast<double>(rank);
  return {std::clamp(microbatches - p + 1, 1.0, r + 1),
          std::clamp(microbatches - 2 * p + 1 + r, 0.0, r)};
}

// Forwards of the two chunks that it runs before its first backward.
struct ZbVAhead {
  double first, second;
};

ZbVAhead zb_v_ahead(double microbatches, std::int64_t ranks, std::int64_t rank) {
  const auto p = static_cast<double>(ranks), r = static_cast<double>(rank);
  return {std::min(microbatches, 2 * p - r - 1), std::min(microbatches, r + 1)};
}

// Counts of tasks before and after follow from the loops of the order.
RankPaths zb_v_paths(const PipelineShape& s, std::int64_t rank, const Chain& chain) {
  const std::int64_t second = 2 * s.pp - 1 - rank;
  const ChainTimes& t0 = chain.chunks[static_cast<std::size_t>(rank)];
  const ChainTimes& t1 = chain.chunks[static_cast<std::size_t>(second)];
  const auto m = static_cast<double>(s.microbatches);
  const auto p0 = static_cast<double>(s.pp);
  const auto r = static_cast<double>(rank);
  const ZbVAhead ahead = zb_v_ahead(m, s.pp, rank);
  RankPaths p;
  p.work = m * (t0.forward + t0.backward + t0.weight + t1.forward + t1.backward + t1.weight);
  p.enter = chain.down[static_cast<std::size_t>(rank)];
  p.enter_backward = chain.all_forward() + chain.up[static_cast<std::size_t>(second + 1)];
  p.before_backward = ahead.first * t0.forward + ahead.second * t1.forward;
  const ZbVRest rest = zb_v_rest(m, s.pp, rank);
  p.leave_backward = chain.drain[static_cast<std::size_t>(rank)];
  p.after_backward = rest.first * t0.weight + rest.second * t1.weight;
  p.leave_forward =
      chain.all_forward() - chain.down[static_cast<std::size_t>(second + 1)] + chain.drain.back();
  p.after_forward =
      std::min(m, p0) * (t0.backward + t0.weight) + std::min(m, r + 1) * (t1.backward + t1.weight);
  p.alternates = s.microbatches > rank + 1;
  return p;
}

double zb_v_work_after(const PipelineShape& s, std::int64_t chunk,
                       const std::vector<ChainTimes>& chunks) {
  const double own = chunks[static_cast<std::size_t>(chunk)].weight;
  if (chunk >= s.pp) return own;
  const ZbVRest rest = zb_v_rest(static_cast<double>(s.microbatches), s.pp, chunk);
  return rest.first * own +
         rest.second * chunks[static_cast<std::size_t>(2 * s.pp - 1 - chunk)].weight;
}

// [F-SEARCH-4] A rank's first backward is its second chunk's, of the first microbatch: it waits for
// that one's forwards through the whole model and for the input gradients of the chunks behind.
// What follows is all of the rank's work but the forwards that it ran before. The second chunk runs
// fewer of those: counted with as little as it may hold, what follows is the least.
double zb_v_from_backward(const DividedRank& x) {
  const DividedPipeline& p = x.pipeline;
  const ZbVAhead ahead = zb_v_ahead(p.microbatches, p.ranks, x.r);
  const double forwards = (p.microbatches - ahead.first) * x.own.forward +
                          (ahead.first - ahead.second) * least_second_chunk(x).forward;
  return p.whole.forward + least_second_chunks_before(x).input + forwards +
         p.microbatches * (x.own.input + x.own.weight) +
         p.stalls(x.r, p.microbatches - ahead.first - 1) + p.hops(2 * x.last_rank() + x.r);
}

double zb_v_until_last(const DividedRank& x) {
  return std::max(x.entered(), zb_v_from_backward(x));
}

// [F-SEARCH-4] The longer of those two; and up to the rank's last backward alone, from where its
// microbatch goes back to the first rank.
double zb_v_chain(const DividedRank& x) {
  const DividedPipeline& p = x.pipeline;
  const ZbVRest rest = zb_v_rest(p.microbatches, p.ranks, x.r);
  const double weights =
      rest.first * x.own.weight - (rest.first - rest.second) * least_second_chunk(x).weight;
  const double back = x.before.input + p.hops(x.r) - weights - p.end_stall;
  return std::max(v_chain(x), zb_v_until_last(x) + std::max(0.0, back));
}

}  // namespace

extern const ScheduleTraits kZbVTraits;
const ScheduleTraits kZbVTraits{
    .fact = "two chunks per rank in a V; no bubble for equal passes at the memory of 1f1b",
    .source = "Qi et al. 2023 (2401.10241)",
    .layout = ChunkLayout::kV,
    .chunks = ChunksPerRank::kTwo,
    .splits_backward = true,
    .order = zb_v_order,
    .paths = zb_v_paths,
    .work_after = zb_v_work_after,
    .chain = zb_v_chain,
    .until_last = zb_v_until_last,
};

}  // namespace meshplan
