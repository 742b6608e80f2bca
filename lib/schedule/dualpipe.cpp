#include <algorithm>
#include <array>

#include "schedule/orders.hpp"

namespace meshplan {
namespace {

// A rank's tasks. Phase 0 is the direction that enters the pipeline at the nearer end: down for the
// first half of the ranks, up for the second.
class Phases {
 public:
  Phases(const PipelineShape& s, std::int64_t rank, TaskOrder& order)
      : flip_(rank >= s.pp / 2 ? 1U : 0U), chunks_{rank, s.pp - 1 - rank}, order_(order) {}

  void forward(unsigned phase) { put(TaskKind::kForward, phase, forwards_); }
  void backward(unsigned phase, bool split) {
    if (!split) {
      put(TaskKind::kBackward, phase, backwards_);
      return;
    }
    put(TaskKind::kBackwardInput, phase, backwards_);
    Task weight = order_.back();
    weight.kind = TaskKind::kBackwardWeight;
    pending_.push_back(weight);
  }
  void forward_and_backward(unsigned forward_phase, unsigned backward_phase) {
    forward(forward_phase);
    backward(backward_phase, false);
  }
  void weight() { order_.push_back(pending_[next_pending_++]); }

 private:
  void put(TaskKind kind, unsigned phase, std::array<std::int64_t, 2>& counts) {
    const unsigned direction = phase ^ flip_;
    const std::int64_t microbatch = 2 * counts[direction]++ + direction;
    order_.push_back(make_task(kind, chunks_[direction], microbatch));
  }

  unsigned flip_;
  std::array<std::int64_t, 2> chunks_;  // by direction
  TaskOrder& order_;
  std::array<std::int64_t, 2> forwards_{};
  std::array<std::int64_t, 2> backwards_{};
  TaskOrder pending_;  // weight gradients put off, oldest first
  std::size_t next_pending_ = 0;
};

}  // namespace

// [F-PIPE-6] Idle time with equal chunks (p/2 - 1)(F&B + B - 3W), B the whole backward, W its
// weight gradient, F&B a pair's time (here F + B); exact where F = B - W. DeepSeek-V3 technical
// report (arXiv:2412.19437), sec. 3.2.1, fig. 5 and table 2; the eight steps are those of the
// published DualPipe code. h counts ranks from the nearer end.
static TaskOrder dualpipe_order(const PipelineShape& s, std::int64_t rank) {
  TaskOrder order;
  order.reserve(static_cast<std::size_t>(3 * s.microbatches));
  const std::int64_t half = s.pp / 2;
  const std::int64_t h = std::min(rank, s.pp - 1 - rank);
  const std::int64_t from_middle = half - h - 1;
  Phases p(s, rank, order);

  for (std::int64_t i = 0; i < 2 * from_middle; ++i) p.forward(0);
  for (std::int64_t i = 0; i < h + 1; ++i) {
    p.forward(0);
    p.forward(1);
  }
  for (std::int64_t i = 0; i < from_middle; ++i) {
    p.backward(1, true);
    p.weight();
    p.forward(1);
  }
  for (std::int64_t i = 0; i < s.microbatches / 2 - s.pp + h + 1; ++i) {
    p.forward_and_backward(0, 1);
    p.forward_and_backward(1, 0);
  }
  for (std::int64_t i = 0; i < from_middle; ++i) {
    p.backward(1, false);
    p.forward_and_backward(1, 0);
  }
  // The later half of these backwards puts its weight gradients off.
  for (std::int64_t i = 0; i < h + 1; ++i) {
    const std::int64_t middle = (h + 1) / 2;
    p.backward(1, i > middle || (i == middle && h % 2 == 1));
    p.backward(0, i >= middle);
  }
  for (std::int64_t i = 0; i < from_middle; ++i) {
    p.weight();
    p.backward(0, true);
  }
  for (std::int64_t i = 0; i < h + 1; ++i) p.weight();
  return order;
}

// Only the first forward and backward of the main step on the two middle ranks are not paired.
static bool starts_dualpipe_pair(const PipelineShape& s, std::int64_t rank, const TaskOrder& order,
                                 std::size_t i) {
  if (i + 1 >= order.size() || order[i].kind != TaskKind::kForward ||
      order[i + 1].kind != TaskKind::kBackward) {
    return false;
  }
  const std::int64_t h = std::min(rank, s.pp - 1 - rank);
  const bool middle = h + 1 == s.pp / 2;
  return !middle || i != static_cast<std::size_t>(s.pp);
}

static std::string dualpipe_illegal_reason(const PipelineShape& s) {
  if (s.pp % 2 != 0) {
    return "dualpipe needs an even pp, got pp=" + std::to_string(s.pp) +
           "; use pp=" + std::to_string(s.pp + 1) +
           (s.pp > 1 ? " or pp=" + std::to_string(s.pp - 1) : "");
  }
  if (s.microbatches % 2 != 0 || s.microbatches < 2 * s.pp) {
    return "dualpipe needs an even number of microbatches, at least 2*pp=" +
           std::to_string(2 * s.pp) + ", got " + std::to_string(s.microbatches) +
           "; change the global batch, micro_batch, dp or pp";
  }
  return {};
}

extern const ScheduleTraits kDualPipeTraits;
const ScheduleTraits kDualPipeTraits{
    .fact = "both directions at once, every chunk held twice; meant for expert parallelism",
    .source = "DeepSeek-AI 2024 (2412.19437)",
    .layout = ChunkLayout::kMirrored,
    .chunks = ChunksPerRank::kTwo,
    .splits_backward = true,
    .order = dualpipe_order,
    .illegal_reason = dualpipe_illegal_reason,
    .period = [](const PipelineShape&) { return std::int64_t{2}; },
    .starts_pair = starts_dualpipe_pair,
};

}  // namespace meshplan
