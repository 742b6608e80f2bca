#include <algorithm>

#include "base/check.hpp"
#include "base/units.hpp"
#include "schedule/chains.hpp"
#include "schedule/orders.hpp"

namespace meshplan {
namespace {

// `after[c]`: work that the rank of chunk c still has behind that chunk's last backward.
Chain make_chain(std::vector<ChainTimes> chunks, const std::vector<double>& after) {
  const std::size_t n = chunks.size();
  const std::vector<double> sums(n + 1);
  Chain chain{std::move(chunks), sums, sums, sums, sums};
  for (std::size_t c = 0; c < n; ++c) {
    chain.down[c + 1] = chain.down[c] + chain.chunks[c].forward;
    chain.weights[c + 1] = chain.weights[c] + chain.chunks[c].weight;
    chain.drain[c + 1] = chain.chunks[c].backward + std::max(chain.drain[c], after[c]);
  }
  for (std::size_t c = n; c-- > 0;) chain.up[c] = chain.up[c + 1] + chain.chunks[c].backward;
  return chain;
}

double longest(const RankPaths& p) {
  const double entry = std::max(p.enter, p.enter_backward - p.before_backward);
  const double exit = std::max(0.0, p.leave_backward - p.after_backward);
  const double forward_entry = p.alternates ? entry : p.enter;
  const double forward_exit = p.leave_forward - p.after_forward;
  return p.work + std::max(entry + exit, forward_entry + forward_exit);
}

// Sum over the first `turns` forwards of a rank of the time of the chunk whose turn it is;
// backwards take the chunks from the other end.
double sum_of_turns(const PipelineShape& s, std::int64_t group, std::int64_t turns,
                    auto time_of_local_chunk) {
  const std::int64_t full = turns / (group * s.vp);
  const std::int64_t rest = turns - full * group * s.vp;
  const std::int64_t size = std::min(group, s.microbatches - full * group);
  double sum = 0;
  for (std::int64_t i = 0; i < s.vp; ++i) {
    const std::int64_t count = full * group + std::clamp<std::int64_t>(rest - i * size, 0, size);
    sum += static_cast<double>(count) * time_of_local_chunk(i);
  }
  return sum;
}

}  // namespace

RankPaths alternating_paths(const PipelineShape& s, std::int64_t rank, const Chain& chain,
                            std::int64_t group, std::int64_t warmup) {
  const std::int64_t total = s.microbatches * s.vp;
  const std::int64_t ahead = std::min(total, warmup + 1);  // forwards before the first backward
  const auto forward = [&](std::int64_t i) { return chain.chunks[index(i * s.pp + rank)].forward; };
  const auto backward = [&](std::int64_t i) {
    return chain.chunks[index((s.vp - 1 - i) * s.pp + rank)].backward;
  };
  const std::int64_t last_chunk = (s.vp - 1) * s.pp + rank;
  const double backwards = sum_of_turns(s, group, total, backward);
  RankPaths p;
  p.work = sum_of_turns(s, group, total, forward) + backwards;
  p.enter = chain.down[index(rank)];
  p.enter_backward = chain.all_forward() + chain.up[index(last_chunk + 1)];
  p.before_backward = sum_of_turns(s, group, ahead, forward);
  p.leave_backward = chain.drain[index(rank)];
  p.leave_forward = chain.all_forward() - chain.down[index(last_chunk + 1)] + chain.drain.back();
  p.after_forward = backwards - sum_of_turns(s, group, total - ahead, backward);
  p.alternates = ahead < total;
  return p;
}

namespace {

// Counts the tasks of the rank's order one by one.
RankPaths walked_paths(const PipelineShape& s, std::int64_t rank, const Chain& chain) {
  const RankChunks mine = chunks_on_rank(s, rank);
  const std::size_t top = mine[0], deepest = mine.last();
  const TaskOrder order = traits_of(s.schedule).order(steady_template(s), rank);
  const auto time_of = [&](const Task& t) {
    const ChainTimes& c = chain.chunks[index(t.chunk)];
    switch (t.kind) {
      case TaskKind::kForward:
        return c.forward;
      case TaskKind::kBackward:
      case TaskKind::kBackwardInput:
        return c.backward;
      case TaskKind::kBackwardWeight:
        return c.weight;
    }
    return 0.0;
  };
  const auto is_forward = [](const Task& t) { return t.kind == TaskKind::kForward; };
  const auto is_backward = [](const Task& t) {
    return t.kind == TaskKind::kBackward || t.kind == TaskKind::kBackwardInput;
  };
  // By place in the order: the first backward and the last forward of the deepest chunk, and the
  // last backward of the chunk nearest to the front.
  const std::size_t none = order.size();
  std::size_t first_backward = none, last_forward = 0, last_backward = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::size_t chunk = index(order[i].chunk);
    if (chunk == deepest && is_forward(order[i])) last_forward = i;
    if (chunk == deepest && is_backward(order[i])) first_backward = std::min(first_backward, i);
    if (chunk == top && is_backward(order[i])) last_backward = i;
  }
  RankPaths p;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const double t = time_of(order[i]);
    if (i < first_backward) p.before_backward += t;
    if (i > last_forward) p.after_forward += t;
    if (i > last_backward) p.after_backward += t;
  }
  for (std::int64_t i = 0; i < mine.count; ++i) {
    const ChainTimes& c = chain.chunks[mine[i]];
    const double weight = traits_of(s.schedule).splits_backward ? c.weight : 0;
    p.work += static_cast<double>(s.microbatches) * (c.forward + c.backward + weight);
  }
  p.enter = chain.down[top];
  p.enter_backward = chain.all_forward() + chain.up[deepest + 1];
  p.leave_backward = chain.drain[top];
  p.leave_forward = chain.all_forward() - chain.down[deepest + 1] + chain.drain.back();
  p.alternates = first_backward < last_forward;
  return p;
}

RankPaths paths(const PipelineShape& s, std::int64_t rank, const Chain& chain) {
  const auto own = traits_of(s.schedule).paths;
  return own == nullptr ? walked_paths(s, rank, chain) : own(s, rank, chain);
}

// Work that certainly follows a chunk's last backward on its rank.
double work_after(const PipelineShape& s, std::int64_t chunk,
                  const std::vector<ChainTimes>& chunks) {
  const ScheduleTraits& traits = traits_of(s.schedule);
  if (traits.work_after != nullptr) return traits.work_after(s, chunk, chunks);
  return traits.splits_backward ? chunks[index(chunk)].weight : 0;
}

// With all forwards first (GPipe) the two phases are flow shops of identical jobs: sum of the
// ranks' times for the first microbatch, and the slowest rank's for each other one.
double flow_shops_bound(const PipelineShape& s, const std::vector<ChainTimes>& chunks) {
  double forward = 0, backward = 0, slowest_forward = 0, slowest_backward = 0;
  for (const ChainTimes& t : chunks) {
    forward += t.forward;
    backward += t.backward;
    slowest_forward = std::max(slowest_forward, t.forward);
    slowest_backward = std::max(slowest_backward, t.backward);
  }
  return forward + backward +
         static_cast<double>(s.microbatches - 1) * (slowest_forward + slowest_backward);
}

std::vector<ChainTimes> times_of(const PipelineShape& s, std::span<const ChunkTime> chunks) {
  const bool split = traits_of(s.schedule).splits_backward;
  std::vector<ChainTimes> times;
  times.reserve(chunks.size());
  for (const ChunkTime& c : chunks) {
    const double weight = c.backward_weight.si();
    const double input = c.backward_input.si();
    times.push_back({c.forward.si(), split ? input : input + weight, weight});
  }
  return times;
}

Chain chain_of(const PipelineShape& s, std::vector<ChainTimes> times) {
  std::vector<double> after;
  after.reserve(times.size());
  for (std::int64_t c = 0; c < num_chunks(s); ++c) after.push_back(work_after(s, c, times));
  return make_chain(std::move(times), after);
}

// Sums in another order than the executor's differ in the last digits.
constexpr double kRounding = 1 - 1e-11;

}  // namespace

// [F-PIPE-9] max over ranks of the longest of: (all work of the rank, entered at its first task or
// at its first backward, which needs the whole pipeline before it) and left (at its last task, at
// its last backward, which the ranks before it wait for, or at its last forward, which the whole
// pipeline still follows). Each is a chain of tasks that wait for each other, so none can be
// beaten.
Seconds makespan_lower_bound(const PipelineShape& s, std::span<const ChunkTime> chunks) {
  PLAN_CHECK(illegal_reason(s).empty() && chunks.size() == index(num_chunks(s)));
  std::vector<ChainTimes> times = times_of(s, chunks);
  double bound = 0;
  if (traits_of(s.schedule).forwards_first) {
    bound = flow_shops_bound(s, times);
  } else {
    const Chain chain = chain_of(s, std::move(times));
    bound = chain.all_forward() + chain.drain.back();
    for (std::int64_t r = 0; r < s.pp; ++r) bound = std::max(bound, longest(paths(s, r, chain)));
  }
  return Seconds{bound * kRounding};
}

}  // namespace meshplan
