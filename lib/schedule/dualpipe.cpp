#include <algorithm>
#include <array>

#include "schedule/chains.hpp"
#include "schedule/divided.hpp"
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

// [F-PIPE-6] Idle time with equal chunks (p/2 - 1)(F&B + B - 3W), B the whole backward, W its
// weight gradient, F&B a pair's time (here F + B); exact where F = B - W. DeepSeek-V3 technical
// report (arXiv:2412.19437), sec. 3.2.1, fig. 5 and table 2; the eight steps are those of the
// published DualPipe code. h counts ranks from the nearer end.
TaskOrder dualpipe_order(const PipelineShape& s, std::int64_t rank) {
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
bool starts_dualpipe_pair(const PipelineShape& s, std::int64_t rank, const TaskOrder& order,
                          std::size_t i) {
  if (i + 1 >= order.size() || order[i].kind != TaskKind::kForward ||
      order[i + 1].kind != TaskKind::kBackward) {
    return false;
  }
  const std::int64_t h = std::min(rank, s.pp - 1 - rank);
  const bool middle = h + 1 == s.pp / 2;
  return !middle || i != static_cast<std::size_t>(s.pp);
}

std::string dualpipe_illegal_reason(const PipelineShape& s) {
  if (s.pp % 2 == 0 && s.microbatches % 2 == 0 && s.microbatches >= 2 * s.pp) return {};
  return "needs an even 'pp' and an even number of microbatches, 2 * pp or more; got pp " +
         std::to_string(s.pp) + " and " + std::to_string(s.microbatches) + " microbatches";
}

// Counts follow from the steps of the order; h counts ranks from the nearer end, and both
// directions have the same times.
RankPaths dualpipe_paths(const PipelineShape& s, std::int64_t rank, const Chain& chain) {
  const std::int64_t h = std::min(rank, s.pp - 1 - rank);
  const std::int64_t far = s.pp - 1 - h;
  const ChainTimes& t0 = chain.chunks[static_cast<std::size_t>(h)];
  const ChainTimes& t1 = chain.chunks[static_cast<std::size_t>(far)];
  const auto each = static_cast<double>(s.microbatches / 2);
  const auto near_forwards = static_cast<double>(far + (h + 1 == s.pp / 2 ? 1 : 0));
  const auto from_end = static_cast<double>(h);
  RankPaths p;
  p.work = each * (t0.forward + t0.backward + t0.weight + t1.forward + t1.backward + t1.weight);
  p.enter = chain.down[static_cast<std::size_t>(h)];
  p.enter_backward = chain.all_forward() + chain.up[static_cast<std::size_t>(far + 1)];
  p.before_backward = near_forwards * t0.forward + (from_end + 1) * t1.forward;
  p.leave_backward = chain.drain[static_cast<std::size_t>(h)];
  p.after_backward = t0.weight + from_end * std::max(t0.weight, t1.weight);
  // The last forward leaves with the backward it is paired with, here and on each rank after it.
  p.leave_forward = chain.all_forward() - chain.down[static_cast<std::size_t>(far + 1)] +
                    chain.up[0] - chain.up[static_cast<std::size_t>(h)] +
                    chain.weights[static_cast<std::size_t>(h)] + chain.drain.back();
  p.after_forward = static_cast<double>(s.pp / 2) * (t0.backward + t0.weight) +
                    (from_end + 1) * (t1.backward + t1.weight);
  p.alternates = true;
  return p;
}

double dualpipe_work_after(const PipelineShape& s, std::int64_t chunk,
                           const std::vector<ChainTimes>& chunks) {
  const double own = chunks[static_cast<std::size_t>(chunk)].weight;
  if (chunk >= s.pp / 2) return own;
  return own + static_cast<double>(chunk) *
                   std::min(own, chunks[static_cast<std::size_t>(s.pp - 1 - chunk)].weight);
}

// Messages of the two directions pass each other.
double dualpipe_chain(const DividedRank& x) { return x.before.forward + x.work; }

}  // namespace

extern const ScheduleTraits kDualPipeTraits;
const ScheduleTraits kDualPipeTraits{
    .fact = "both directions at once, every chunk held twice; meant for expert parallelism",
    .source = "DeepSeek-AI 2024 (2412.19437)",
    .layout = ChunkLayout::kBidirectional,
    .chunks = ChunksPerRank::kTwo,
    .splits_backward = true,
    .order = dualpipe_order,
    .illegal_reason = dualpipe_illegal_reason,
    .period = [](const PipelineShape&) { return std::int64_t{2}; },
    .starts_pair = starts_dualpipe_pair,
    .paths = dualpipe_paths,
    .work_after = dualpipe_work_after,
    .chain = dualpipe_chain,
};

}  // namespace meshplan
