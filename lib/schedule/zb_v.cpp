#include <algorithm>
#include <array>

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

}  // namespace

// [F-PIPE-5] With F = B = W and m >= 2p - 1 no rank waits between its first and its last task.
// Ranks start one after the other, so the step from the first start to the last end is (p - 1) F
// longer; only an optimizer step without a barrier (the paper's post-validation) hides that. Qi et
// al. 2023 (arXiv:2401.10241), sec. 6, fig. 8: the hand-crafted ZB-V order. Chunk 0 of rank r is
// the model's chunk r, chunk 1 is 2p - 1 - r. With fewer than 2p - 1 microbatches it is the order
// for 2p - 1 without the missing ones (as in the authors' code and in PyTorch).
static TaskOrder zb_v_order(const PipelineShape& s, std::int64_t rank) {
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

extern const ScheduleTraits kZbVTraits;
const ScheduleTraits kZbVTraits{
    .fact = "two chunks per rank in a V; no bubble for equal passes at the memory of 1f1b",
    .source = "Qi et al. 2023 (2401.10241)",
    .layout = ChunkLayout::kV,
    .chunks = ChunksPerRank::kTwo,
    .splits_backward = true,
    .order = zb_v_order,
};

}  // namespace meshplan
