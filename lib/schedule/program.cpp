#include "schedule/program.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.hpp"
#include "base/units.hpp"
#include "schedule/orders.hpp"

namespace meshplan {
namespace {

Step make_step(const PipelineShape& s, std::int64_t rank, const Task& t) {
  const int direction = t.microbatch % 2;
  const std::int64_t last = num_chunks(s) - 1;
  const auto elsewhere = [&](std::int64_t chunk) {
    return chunk >= 0 && chunk <= last && rank_of_chunk(s, chunk, direction) != rank;
  };
  Step step{.rank = static_cast<std::int32_t>(rank),
            .duration =
                t.chunk * static_cast<std::int32_t>(kTaskKinds) + static_cast<std::int32_t>(t.kind),
            .microbatch = t.microbatch};
  if (t.kind == TaskKind::kBackwardWeight) return step;
  const bool forward = t.kind == TaskKind::kForward;
  const std::int64_t before = forward ? t.chunk - 1 : t.chunk + 1;
  const std::int64_t after = forward ? t.chunk + 1 : t.chunk - 1;
  const std::int32_t way = forward ? 0 : 1;
  if (elsewhere(before)) step.in = 2 * std::min(t.chunk, static_cast<std::int32_t>(before)) + way;
  if (elsewhere(after)) {
    step.out = 2 * std::min(t.chunk, static_cast<std::int32_t>(after)) + way;
    const bool to_next = rank_of_chunk(s, after, direction) == (rank + 1) % s.pp;
    step.link = 2 * step.rank + (to_next ? 0 : 1);
  }
  return step;
}

// A pair: wait for the backward's input, forward, backward, send of the forward's output.
void append_pair(const PipelineShape& s, Step forward, Step backward, std::vector<Step>& steps) {
  Step wait{.rank = backward.rank, .duration = no_task(s), .microbatch = backward.microbatch};
  Step send{.rank = forward.rank, .duration = no_task(s), .microbatch = forward.microbatch};
  wait.in = std::exchange(backward.in, kNone);
  send.out = std::exchange(forward.out, kNone);
  send.link = forward.link;
  steps.insert(steps.end(), {wait, forward, backward, send});
}

std::vector<Step> rank_steps(const PipelineShape& s, std::int64_t rank) {
  const TaskOrder order = task_order(s, rank);
  const auto starts_pair = traits_of(s.schedule).starts_pair;
  std::vector<Step> steps;
  steps.reserve(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Step step = make_step(s, rank, order[i]);
    if (starts_pair != nullptr && starts_pair(s, rank, order, i)) {
      append_pair(s, step, make_step(s, rank, order[++i]), steps);
    } else {
      steps.push_back(step);
    }
  }
  return steps;
}

struct TimedStep {
  std::int64_t start;
  Step step;
};

// Runs the static orders with every step one unit long; sorted by start, inputs come first.
class UnitRun {
 public:
  explicit UnitRun(const PipelineShape& s)
      : s_(s),
        starts_(index(s.pp)),
        free_(index(s.pp)),
        arrival_(index(2 * num_chunks(s) * s.microbatches), kNotSent) {
    for (std::int64_t r = 0; r < s.pp; ++r) orders_.push_back(rank_steps(s, r));
    for (const auto& order : orders_) total_ += order.size();
  }

  // By start, and of equal starts by rank.
  std::vector<TimedStep> sorted() {
    while (done_ < total_) {
      const std::size_t before = done_;
      for (std::int64_t r = 0; r < s_.pp; ++r) advance(index(r));
      PLAN_CHECK(done_ > before);  // a legal shape never deadlocks
    }
    std::vector<std::size_t> place(index(*std::max_element(free_.begin(), free_.end())) + 1, 0);
    for (const auto& starts : starts_)
      for (const std::int64_t t : starts) ++place[index(t) + 1];
    for (std::size_t t = 1; t < place.size(); ++t) place[t] += place[t - 1];
    std::vector<TimedStep> timed(total_);
    for (std::size_t r = 0; r < orders_.size(); ++r) {
      for (std::size_t i = 0; i < orders_[r].size(); ++i)
        timed[place[index(starts_[r][i])]++] = {starts_[r][i], orders_[r][i]};
    }
    return timed;
  }

 private:
  static constexpr std::int64_t kNotSent = -1;

  void advance(std::size_t rank) {
    auto& starts = starts_[rank];
    const auto& order = orders_[rank];
    while (starts.size() < order.size()) {
      const Step& step = order[starts.size()];
      std::int64_t start = free_[rank];
      if (step.in != kNone) {
        const std::int64_t at = arrival(step.in, step.microbatch);
        if (at == kNotSent) return;
        start = std::max(start, at);
      }
      free_[rank] = start + 1;
      if (step.out != kNone) arrival(step.out, step.microbatch) = start + 1;
      starts.push_back(start);
      ++done_;
    }
  }

  std::int64_t& arrival(std::int32_t lane, std::int32_t microbatch) {
    return arrival_[index(lane * s_.microbatches + microbatch)];
  }

  const PipelineShape& s_;
  std::vector<std::vector<Step>> orders_;
  std::vector<std::vector<std::int64_t>> starts_;
  std::vector<std::int64_t> free_;
  std::vector<std::int64_t> arrival_;
  std::size_t total_ = 0;
  std::size_t done_ = 0;
};

bool same_but_later(const Step& a, const Step& b, std::int64_t shift) {
  return a.rank == b.rank && a.duration == b.duration && a.in == b.in && a.out == b.out &&
         a.microbatch + shift == b.microbatch;
}

// Finds a round in the middle that the next round repeats task by task.
void find_body(Program& p, const std::vector<TimedStep>& timed) {
  const std::int64_t first = (2 * p.shape.pp + 2 * p.round) / p.round * p.round;
  if (first + 2 * p.round >= p.shape.microbatches) return;
  const auto start_of = [&](std::int64_t microbatch) {
    for (const auto& t : timed) {
      if (t.step.duration == 0 && t.step.microbatch == microbatch) return t.start;
    }
    fail_check("every microbatch enters the pipeline", __FILE__, __LINE__);
  };
  const auto position = [&](std::int64_t time) {
    return index(
        std::lower_bound(timed.begin(), timed.end(), time,
                         [](const TimedStep& t, std::int64_t at) { return t.start < at; }) -
        timed.begin());
  };
  const std::int64_t from = start_of(first);
  const std::int64_t to = start_of(first + p.round);
  const std::size_t begin = position(from);
  const std::size_t end = position(to);
  const std::size_t after = position(to + (to - from));
  if (after - end != end - begin) return;
  for (std::size_t i = begin; i < end; ++i) {
    if (!same_but_later(timed[i].step, timed[i + (end - begin)].step, p.round)) return;
  }
  p.body_begin = begin;
  p.body_end = end;
}

void find_live_messages(Program& p) {
  const std::int64_t slots = p.shape.microbatches;
  std::vector<char> sent(index(2 * num_chunks(p.shape) * slots), 0);
  for (std::size_t i = 0; i < p.body_end; ++i) {
    const Step& step = p.steps[i];
    if (step.in != kNone) sent[index(step.in * slots + step.microbatch)] = 0;
    if (step.out != kNone) sent[index(step.out * slots + step.microbatch)] = 1;
  }
  for (std::size_t i = 0; i < sent.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    if (sent[i] != 0) {
      p.live.push_back(
          {static_cast<std::int32_t>(at / slots), static_cast<std::int32_t>(at % slots)});
    }
  }
}

// Messages that are on their way at once on a lane never share a place of its ring. In later rounds
// they are as far apart as in the first two.
bool keeps_apart(const Program& p, int ring_bits, std::vector<char>& taken) {
  const std::int32_t mask = (std::int32_t{1} << ring_bits) - 1;
  const auto place = [&](std::int32_t lane, std::int32_t microbatch) {
    return (index(lane) << ring_bits) | index(microbatch & mask);
  };
  taken.assign(index(2 * num_chunks(p.shape)) << ring_bits, 0);
  for (const Step& step : p.steps) {
    if (step.in != kNone) taken[place(step.in, step.microbatch)] = 0;
    if (step.out != kNone && std::exchange(taken[place(step.out, step.microbatch)], 1) != 0)
      return false;
  }
  return true;
}

// The fewest that do: what the executor works on should fit a near cache.
void find_ring_bits(Program& p) {
  const int enough =
      static_cast<int>(std::bit_width(static_cast<std::uint64_t>(p.shape.microbatches)));
  std::vector<char> taken;
  while (p.ring_bits < enough && !keeps_apart(p, p.ring_bits, taken)) ++p.ring_bits;
}

void end_nowhere(Program& p) {
  for (Step& step : p.steps) {
    if (step.in == kNone) step.in = lane_from_nowhere(p.shape);
    if (step.out != kNone) continue;
    step.out = lane_to_nowhere(p.shape);
    step.link = link_to_nowhere(p.shape, step.rank);
  }
}

// The steady state of all forwards first is two rounds, one forward and one backward through all
// ranks.
Program compile_two_phases(const PipelineShape& s) {
  Program p;
  p.shape = s;
  p.shape.microbatches = 1;
  for (std::int64_t r = 0; r < s.pp; ++r)
    p.steps.push_back(make_step(s, r, make_task(TaskKind::kForward, r, 0)));
  for (std::int64_t r = s.pp - 1; r >= 0; --r)
    p.steps.push_back(make_step(s, r, make_task(TaskKind::kBackward, r, 0)));
  end_nowhere(p);
  return p;
}

}  // namespace

std::array<Segment, 3> Program::segments(std::int64_t microbatches) const {
  if (traits_of(shape.schedule).forwards_first) {
    const std::size_t half = steps.size() / 2;
    return {Segment{0, half, microbatches, 0}, Segment{half, steps.size(), microbatches, 0},
            Segment{steps.size(), steps.size(), 1, 0}};
  }
  const std::int64_t more = microbatches - shape.microbatches;
  return {Segment{0, body_begin, 1, 0}, Segment{body_begin, body_end, 1 + more / round, 0},
          Segment{body_end, steps.size(), 1, more}};
}

Program compile(const PipelineShape& s) {
  if (traits_of(s.schedule).forwards_first) return compile_two_phases(s);
  Program p;
  p.shape = steady_template(s);
  p.round = period(s);
  std::vector<TimedStep> timed = UnitRun(p.shape).sorted();
  find_body(p, timed);
  if (p.body_end == 0 && s.microbatches != p.shape.microbatches) {  // no round: all of it once
    p.shape = s;
    timed = UnitRun(p.shape).sorted();
  }
  p.steps.reserve(timed.size());
  for (const auto& t : timed) p.steps.push_back(t.step);
  find_live_messages(p);
  find_ring_bits(p);
  end_nowhere(p);
  return p;
}

bool fits(const Program& p, const PipelineShape& s) {
  if (s.schedule != p.shape.schedule || s.pp != p.shape.pp || s.vp != p.shape.vp ||
      period(s) != period(p.shape)) {
    return false;
  }
  if (traits_of(s.schedule).forwards_first || s.microbatches == p.shape.microbatches) return true;
  return p.body_end != 0 && s.microbatches > p.shape.microbatches &&
         steady_template(s).microbatches == p.shape.microbatches;
}

}  // namespace meshplan
