#include <algorithm>
#include <limits>

#include "base/check.hpp"
#include "schedule/orders.hpp"

namespace meshplan {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

// A chunk's times in SI seconds. `backward` is what the chunk above it in depth waits for at least:
// the whole backward, or the input gradient alone where the schedule splits it.
struct Times {
  double forward, backward, weight;
};

// Paths through the chunks outside one rank.
struct Chain {
  std::vector<Times> chunks;
  std::vector<double> down;     // [c]: forwards of the chunks before c
  std::vector<double> up;       // [c]: backwards of the chunks from c on
  std::vector<double> weights;  // [c]: weight gradients of the chunks before c
  std::vector<double> drain;    // [c]: from the last backward of chunk c to the end of the step

  [[nodiscard]] double all_forward() const { return down.back(); }
};

// `after[c]`: work that the rank of chunk c still has behind that chunk's last backward.
Chain make_chain(std::vector<Times> chunks, const std::vector<double>& after) {
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

// The longest path that runs through rank r and all of its tasks in between.
struct RankPaths {
  double work = 0;   // all tasks of the rank
  double enter = 0;  // before its first task
  // Through the pipeline to the rank's first backward, and what the rank has run before it.
  double enter_backward = kNever, before_backward = 0;
  // From the rank's last backward, or its last forward, to the end; what it runs after that.
  double leave_backward = kNever, after_backward = 0;
  double leave_forward = kNever, after_forward = 0;
  bool alternates = false;  // its first backward comes before its last forward
};

double longest(const RankPaths& p) {
  const double entry = std::max(p.enter, p.enter_backward - p.before_backward);
  const double exit = std::max(0.0, p.leave_backward - p.after_backward);
  const double forward_entry = p.alternates ? entry : p.enter;
  const double forward_exit = p.leave_forward - p.after_forward;
  return p.work + std::max(entry + exit, forward_entry + forward_exit);
}

// Sum over the first `turns` forwards of a rank of the time of the chunk whose turn it is;
// backwards take the chunks from the other end.
double sum_of_turns(const PipelineShape& s, std::int64_t turns, auto time_of_local_chunk) {
  const std::int64_t group = s.schedule == Schedule::kInterleaved ? interleaved_group(s) : 1;
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

// 1F1B, interleaved.
RankPaths alternating_paths(const PipelineShape& s, std::int64_t rank, const Chain& chain) {
  const std::int64_t total = s.microbatches * s.vp;
  const std::int64_t warmup = s.schedule == Schedule::kInterleaved ? interleaved_warmup(s, rank)
                                                                   : one_f_one_b_warmup(s, rank);
  const std::int64_t ahead = std::min(total, warmup + 1);  // forwards before the first backward
  const auto forward = [&](std::int64_t i) { return chain.chunks[index(i * s.pp + rank)].forward; };
  const auto backward = [&](std::int64_t i) {
    return chain.chunks[index((s.vp - 1 - i) * s.pp + rank)].backward;
  };
  const std::int64_t last_chunk = (s.vp - 1) * s.pp + rank;
  const double backwards = sum_of_turns(s, total, backward);
  RankPaths p;
  p.work = sum_of_turns(s, total, forward) + backwards;
  p.enter = chain.down[index(rank)];
  p.enter_backward = chain.all_forward() + chain.up[index(last_chunk + 1)];
  p.before_backward = sum_of_turns(s, ahead, forward);
  p.leave_backward = chain.drain[index(rank)];
  p.leave_forward = chain.all_forward() - chain.down[index(last_chunk + 1)] + chain.drain.back();
  p.after_forward = backwards - sum_of_turns(s, total - ahead, backward);
  p.alternates = ahead < total;
  return p;
}

RankPaths zb_h1_paths(const PipelineShape& s, std::int64_t rank, const Chain& chain) {
  const Times& t = chain.chunks[index(rank)];
  const auto m = static_cast<double>(s.microbatches);
  const std::int64_t ahead = std::min(s.microbatches, s.pp - rank);
  const std::int64_t weights = std::max<std::int64_t>(0, s.microbatches - ahead - rank);
  RankPaths p;
  p.work = m * (t.forward + t.backward + t.weight);
  p.enter = chain.down[index(rank)];
  p.enter_backward = chain.all_forward() + chain.up[index(rank + 1)];
  p.before_backward = static_cast<double>(ahead) * t.forward;
  p.leave_backward = chain.drain[index(rank)];
  p.after_backward = static_cast<double>(std::min(s.microbatches, rank + 1)) * t.weight;
  p.leave_forward = chain.all_forward() - chain.down[index(rank + 1)] + chain.drain.back();
  p.after_forward = static_cast<double>(ahead) * t.backward +
                    static_cast<double>(s.microbatches - weights) * t.weight;
  p.alternates = ahead < s.microbatches;
  return p;
}

// Weight gradients of the two chunks that rank r of ZB-V runs after chunk r's last backward. The
// first m - p of chunk r's follow their input gradient at once.
struct ZbVRest {
  double first, second;
};

ZbVRest zb_v_rest(const PipelineShape& s, std::int64_t rank) {
  const std::int64_t first = std::clamp<std::int64_t>(s.microbatches - s.pp + 1, 1, rank + 1);
  const std::int64_t second =
      std::clamp<std::int64_t>(s.microbatches - 2 * s.pp + 1 + rank, 0, rank);
  return {static_cast<double>(first), static_cast<double>(second)};
}

// Counts of tasks before and after follow from the loops of zb_v.cpp.
RankPaths zb_v_paths(const PipelineShape& s, std::int64_t rank, const Chain& chain) {
  const std::int64_t second = 2 * s.pp - 1 - rank;
  const Times& t0 = chain.chunks[index(rank)];
  const Times& t1 = chain.chunks[index(second)];
  const auto m = static_cast<double>(s.microbatches);
  const auto p0 = static_cast<double>(s.pp);
  const auto r = static_cast<double>(rank);
  RankPaths p;
  p.work = m * (t0.forward + t0.backward + t0.weight + t1.forward + t1.backward + t1.weight);
  p.enter = chain.down[index(rank)];
  p.enter_backward = chain.all_forward() + chain.up[index(second + 1)];
  p.before_backward = std::min(m, 2 * p0 - r - 1) * t0.forward + std::min(m, r + 1) * t1.forward;
  const ZbVRest rest = zb_v_rest(s, rank);
  p.leave_backward = chain.drain[index(rank)];
  p.after_backward = rest.first * t0.weight + rest.second * t1.weight;
  p.leave_forward = chain.all_forward() - chain.down[index(second + 1)] + chain.drain.back();
  p.after_forward =
      std::min(m, p0) * (t0.backward + t0.weight) + std::min(m, r + 1) * (t1.backward + t1.weight);
  p.alternates = s.microbatches > rank + 1;
  return p;
}

// Counts follow from the steps of dualpipe.cpp; h counts ranks from the nearer end, and both
// directions have the same times.
RankPaths dualpipe_paths(const PipelineShape& s, std::int64_t rank, const Chain& chain) {
  const std::int64_t h = std::min(rank, s.pp - 1 - rank);
  const std::int64_t far = s.pp - 1 - h;
  const Times& t0 = chain.chunks[index(h)];
  const Times& t1 = chain.chunks[index(far)];
  const auto each = static_cast<double>(s.microbatches / 2);
  const auto near_forwards = static_cast<double>(far + (h + 1 == s.pp / 2 ? 1 : 0));
  const auto from_end = static_cast<double>(h);
  RankPaths p;
  p.work = each * (t0.forward + t0.backward + t0.weight + t1.forward + t1.backward + t1.weight);
  p.enter = chain.down[index(h)];
  p.enter_backward = chain.all_forward() + chain.up[index(far + 1)];
  p.before_backward = near_forwards * t0.forward + (from_end + 1) * t1.forward;
  p.leave_backward = chain.drain[index(h)];
  p.after_backward = t0.weight + from_end * std::max(t0.weight, t1.weight);
  // The last forward leaves with the backward it is paired with, here and on each rank after it.
  p.leave_forward = chain.all_forward() - chain.down[index(far + 1)] + chain.up[0] -
                    chain.up[index(h)] + chain.weights[index(h)] + chain.drain.back();
  p.after_forward = static_cast<double>(s.pp / 2) * (t0.backward + t0.weight) +
                    (from_end + 1) * (t1.backward + t1.weight);
  p.alternates = true;
  return p;
}

// Work that certainly follows a chunk's last backward on its rank.
double work_after(const PipelineShape& s, std::int64_t chunk, const std::vector<Times>& chunks) {
  const double own = chunks[index(chunk)].weight;
  const auto c = static_cast<double>(chunk);
  switch (s.schedule) {
    case Schedule::kGpipe:
    case Schedule::k1f1b:
    case Schedule::kInterleaved:
      return 0;
    case Schedule::kZbH1:
      return std::min(static_cast<double>(s.microbatches), c + 1) * own;
    case Schedule::kZbV: {
      if (chunk >= s.pp) return own;
      const ZbVRest rest = zb_v_rest(s, chunk);
      return rest.first * own + rest.second * chunks[index(2 * s.pp - 1 - chunk)].weight;
    }
    case Schedule::kDualPipe:
      if (chunk >= s.pp / 2) return own;
      return own + c * std::min(own, chunks[index(s.pp - 1 - chunk)].weight);
  }
  fail_check("known schedule", __FILE__, __LINE__);
}

// GPipe's two phases are flow shops of identical jobs: sum of the ranks' times for the first
// microbatch, and the slowest rank's for each other one.
double gpipe_bound(const PipelineShape& s, const std::vector<Times>& chunks) {
  double forward = 0, backward = 0, slowest_forward = 0, slowest_backward = 0;
  for (const Times& t : chunks) {
    forward += t.forward;
    backward += t.backward;
    slowest_forward = std::max(slowest_forward, t.forward);
    slowest_backward = std::max(slowest_backward, t.backward);
  }
  return forward + backward +
         static_cast<double>(s.microbatches - 1) * (slowest_forward + slowest_backward);
}

RankPaths paths(const PipelineShape& s, std::int64_t rank, const Chain& chain) {
  switch (s.schedule) {
    case Schedule::kGpipe:
    case Schedule::k1f1b:
    case Schedule::kInterleaved:
      return alternating_paths(s, rank, chain);
    case Schedule::kZbH1:
      return zb_h1_paths(s, rank, chain);
    case Schedule::kZbV:
      return zb_v_paths(s, rank, chain);
    case Schedule::kDualPipe:
      return dualpipe_paths(s, rank, chain);
  }
  fail_check("known schedule", __FILE__, __LINE__);
}

std::vector<Times> times_of(const PipelineShape& s, std::span<const ChunkTime> chunks) {
  const bool split = traits_of(s.schedule).splits_backward;
  std::vector<Times> times;
  times.reserve(chunks.size());
  for (const ChunkTime& c : chunks) {
    const double weight = c.backward_weight.si();
    const double input = c.backward_input.si();
    times.push_back({c.forward.si(), split ? input : input + weight, weight});
  }
  return times;
}

Chain chain_of(const PipelineShape& s, std::vector<Times> times) {
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
  std::vector<Times> times = times_of(s, chunks);
  double bound = 0;
  if (s.schedule == Schedule::kGpipe) {
    bound = gpipe_bound(s, times);
  } else {
    const Chain chain = chain_of(s, std::move(times));
    bound = chain.all_forward() + chain.drain.back();
    for (std::int64_t r = 0; r < s.pp; ++r) bound = std::max(bound, longest(paths(s, r, chain)));
  }
  return Seconds{bound * kRounding};
}

}  // namespace meshplan
