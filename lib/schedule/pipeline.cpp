#include "schedule/pipeline.hpp"

#include <algorithm>
#include <limits>

#include "base/check.hpp"
#include "schedule/program.hpp"

namespace meshplan {
namespace {

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

constexpr std::size_t kMaxPrograms = 16;

Task task_of(const Step& step, std::int64_t shift) {
  constexpr auto kKinds = static_cast<std::int32_t>(kTaskKinds);
  return {static_cast<TaskKind>(step.duration % kKinds), step.duration / kKinds,
          static_cast<std::int32_t>(step.microbatch + shift)};
}

// Lane 2b is forward over the boundary after chunk b, 2b + 1 backward.
Message message_of(const PipelineShape& s, const Step& step, std::int64_t shift) {
  Message m;
  m.backward = step.out % 2 != 0;
  m.boundary = step.out / 2;
  m.microbatch = static_cast<std::int32_t>(step.microbatch + shift);
  m.from = step.rank;
  const std::int64_t chunk = m.backward ? m.boundary : m.boundary + 1;
  m.to = static_cast<std::int32_t>(rank_of_chunk(s, chunk, m.microbatch % 2));
  return m;
}

}  // namespace

// [F-PIPE-1] Start of a task = max(end of the rank's task before it + receiver_busy, arrival of its
// input); arrival = max(end of the sending task, end of the link's message before) + transfer.
// Because every start is a maximum of sums, the order in which steps are worked off does not matter
// and a state that moved by one and the same time in every component over a round moves by it in
// every later round (max-plus linearity; Baccelli et al. 1992, "Synchronization and Linearity",
// sec. 3.7): that is what `leap` uses.
struct PipelineRunner::State {
  std::vector<Program> programs;  // the last kMaxPrograms shapes
  std::size_t oldest = 0;
  Program* program = nullptr;                 // the one of this run
  std::vector<double> durations;              // by Step::duration
  std::vector<double> transfer, sent, taken;  // by lane: transfer, sender_busy, receiver_busy
  std::vector<double> free;                   // by rank: when its compute is free
  std::vector<double> link;                   // by link: when it is free
  std::vector<double> arrival;                // by lane and slot
  std::vector<std::size_t> round_links;       // links that the repeated round uses
  std::vector<char> link_used;
  std::vector<double> before, now;  // state after the last two rounds
  PipelineResult result;

  void choose_program(const PipelineShape& s);
  void load(const PipelineShape& s, std::span<const ChunkTime> chunks,
            std::span<const SendTime> forward_send, std::span<const SendTime> backward_send);
  void find_round_links(const Segment& g);
  void run_segment(const Segment& g, bool with_timeline);
  template <bool kTimeline>
  void run_round(const Segment& g, std::int64_t shift);
  void snapshot(std::int64_t shift);
  std::int64_t leap(std::int64_t rounds_left, std::int64_t shift);
  void sum_up(const PipelineShape& s, std::span<const ChunkTime> chunks,
              std::span<const SendTime> forward_send, std::span<const SendTime> backward_send);
  std::size_t slot(std::int32_t lane, std::int64_t microbatch) const {
    const std::int64_t mask = (std::int64_t{1} << program->ring_bits) - 1;
    return (static_cast<std::size_t>(lane) << program->ring_bits) | index(microbatch & mask);
  }
};

void PipelineRunner::State::choose_program(const PipelineShape& s) {
  const auto fitting =
      std::find_if(programs.begin(), programs.end(), [&](const Program& p) { return fits(p, s); });
  if (fitting != programs.end()) {
    program = &*fitting;
    return;
  }
  if (programs.size() < kMaxPrograms) {
    programs.push_back(compile(s));
    program = &programs.back();
    return;
  }
  program = &programs[oldest];
  *program = compile(s);
  oldest = (oldest + 1) % kMaxPrograms;
}

void PipelineRunner::State::load(const PipelineShape& s, std::span<const ChunkTime> chunks,
                                 std::span<const SendTime> forward_send,
                                 std::span<const SendTime> backward_send) {
  durations.clear();
  for (const auto& c : chunks) {
    const double w = c.backward_weight.si();
    const double b = c.backward_input.si();
    durations.insert(durations.end(), {c.forward.si(), b + w, b, w});
  }
  durations.push_back(0);  // of steps that only wait or send
  static_assert(static_cast<int>(TaskKind::kForward) == 0 &&
                static_cast<int>(TaskKind::kBackward) == 1 &&
                static_cast<int>(TaskKind::kBackwardInput) == 2 &&
                static_cast<int>(TaskKind::kBackwardWeight) == 3);
  transfer.clear();
  sent.clear();
  taken.clear();
  for (std::size_t b = 0; b < forward_send.size(); ++b) {
    for (const SendTime& t : {forward_send[b], backward_send[b]}) {
      transfer.push_back(t.transfer.si());
      sent.push_back(t.sender_busy.si());
      taken.push_back(t.receiver_busy.si());
    }
  }
  free.assign(index(s.pp), 0.0);
  link.assign(index(2 * s.pp), 0.0);
  arrival.assign(transfer.size() << program->ring_bits, 0.0);
}

template <bool kTimeline>
void PipelineRunner::State::run_round(const Segment& g, std::int64_t shift) {
  for (std::size_t i = g.begin; i < g.end; ++i) {
    const Step& step = program->steps[i];
    double& rank_free = free[index(step.rank)];
    double start = rank_free;
    if (step.in != kNone) {
      start =
          std::max(start + taken[index(step.in)], arrival[slot(step.in, step.microbatch + shift)]);
    }
    double end = start + durations[index(step.duration)];
    if (kTimeline && index(step.duration) + 1 < durations.size()) {
      result.timeline[index(step.rank)].push_back(
          {task_of(step, shift), Seconds{start}, Seconds{end}});
    }
    if (step.out != kNone) {
      double& link_free = link[index(step.link)];
      const double leaves = std::max(end, link_free);
      link_free = leaves + transfer[index(step.out)];
      if (kTimeline) {
        Message& message = result.messages.emplace_back(message_of(program->shape, step, shift));
        message.start = Seconds{leaves}, message.end = Seconds{link_free};
      }
      arrival[slot(step.out, step.microbatch + shift)] = link_free;
      end += sent[index(step.out)];
    }
    rank_free = end;
  }
}

// All that later rounds can see: ranks, the round's links, and messages on their way.
void PipelineRunner::State::snapshot(std::int64_t shift) {
  now.assign(free.begin(), free.end());
  for (const std::size_t l : round_links) now.push_back(link[l]);
  for (const auto& m : program->live) now.push_back(arrival[slot(m.lane, m.microbatch + shift)]);
}

// Rounds skipped: all that are left if the state moved uniformly over the last round, else none.
std::int64_t PipelineRunner::State::leap(std::int64_t rounds_left, std::int64_t shift) {
  std::swap(before, now);
  snapshot(shift);
  if (before.size() != now.size() || rounds_left == 0) return 0;
  double least = std::numeric_limits<double>::infinity();
  double most = 0;
  double latest = 0;
  for (std::size_t i = 0; i < now.size(); ++i) {
    const double moved = now[i] - before[i];
    least = std::min(least, moved);
    most = std::max(most, moved);
    latest = std::max(latest, now[i]);
  }
  if (most - least > 8 * std::numeric_limits<double>::epsilon() * latest) return 0;
  const double jump = most * static_cast<double>(rounds_left);
  for (double& t : free) t += jump;
  for (const std::size_t l : round_links) link[l] += jump;
  const std::int64_t later = shift + rounds_left * program->round;
  const std::size_t first_live = now.size() - program->live.size();
  for (std::size_t i = 0; i < program->live.size(); ++i) {
    const LiveMessage& m = program->live[i];
    arrival[slot(m.lane, m.microbatch + later)] = now[first_live + i] + jump;
  }
  return rounds_left;
}

void PipelineRunner::State::find_round_links(const Segment& g) {
  link_used.assign(link.size(), 0);
  for (std::size_t i = g.begin; i < g.end; ++i) {
    if (program->steps[i].link != kNone) link_used[index(program->steps[i].link)] = 1;
  }
  round_links.clear();
  for (std::size_t l = 0; l < link.size(); ++l) {
    if (link_used[l] != 0) round_links.push_back(l);
  }
}

void PipelineRunner::State::run_segment(const Segment& g, bool with_timeline) {
  before.clear();
  now.clear();
  if (g.begin == g.end) return;
  if (g.repeats > 1) find_round_links(g);
  for (std::int64_t k = 0; k < g.repeats; ++k) {
    const std::int64_t shift = g.first_shift + k * program->round;
    if (with_timeline) {
      run_round<true>(g, shift);
    } else {
      run_round<false>(g, shift);
      if (g.repeats > 1) k += leap(g.repeats - 1 - k, shift);
    }
  }
}

void PipelineRunner::State::sum_up(const PipelineShape& s, std::span<const ChunkTime> chunks,
                                   std::span<const SendTime> forward_send,
                                   std::span<const SendTime> backward_send) {
  result.busy.assign(index(s.pp), Seconds{});
  result.communication.assign(index(s.pp), Seconds{});
  const int directions = s.schedule == Schedule::kDualPipe ? 2 : 1;
  const double each = static_cast<double>(s.microbatches) / directions;
  for (int d = 0; d < directions; ++d) {
    for (std::size_t c = 0; c < chunks.size(); ++c) {
      const auto here = index(rank_of_chunk(s, static_cast<std::int64_t>(c), d));
      const ChunkTime& t = chunks[c];
      result.busy[here] += each * (t.forward + t.backward_input + t.backward_weight);
      if (c + 1 == chunks.size()) continue;
      const auto next = index(rank_of_chunk(s, static_cast<std::int64_t>(c) + 1, d));
      if (next == here) continue;
      const SendTime& f = forward_send[c];
      const SendTime& b = backward_send[c];
      result.communication[here] += each * (f.sender_busy + b.receiver_busy);
      result.communication[next] += each * (f.receiver_busy + b.sender_busy);
    }
  }
  // A rank's first task is the forward of its first chunk, whose input is the first message there.
  result.start.assign(index(s.pp), Seconds{});
  for (std::int64_t r = 1; r < s.pp; ++r) {
    if (s.schedule == Schedule::kDualPipe && r >= s.pp / 2) {  // the other direction's mirror image
      result.start[index(r)] = result.start[index(s.pp - 1 - r)];
      continue;
    }
    const SendTime& t = forward_send[index(r - 1)];
    const Seconds sent_at = result.start[index(r - 1)] + chunks[index(r - 1)].forward;
    result.start[index(r)] = std::max(t.receiver_busy, sent_at + t.transfer);
  }
  result.makespan = Seconds{};
  result.finish.clear();
  for (const double t : free) {
    result.finish.push_back(Seconds{t});
    result.makespan = std::max(result.makespan, Seconds{t});
  }
}

PipelineRunner::PipelineRunner() : state_(std::make_unique<State>()) {}
PipelineRunner::~PipelineRunner() = default;
PipelineRunner::PipelineRunner(PipelineRunner&&) noexcept = default;
PipelineRunner& PipelineRunner::operator=(PipelineRunner&&) noexcept = default;

const PipelineResult& PipelineRunner::run(const PipelineShape& s, std::span<const ChunkTime> chunks,
                                          std::span<const SendTime> forward_send,
                                          std::span<const SendTime> backward_send,
                                          bool with_timeline) {
  PLAN_CHECK(illegal_reason(s).empty());
  PLAN_CHECK(chunks.size() == index(num_chunks(s)));
  PLAN_CHECK(forward_send.size() + 1 == chunks.size());
  PLAN_CHECK(backward_send.size() + 1 == chunks.size());
  State& state = *state_;
  state.choose_program(s);
  state.load(s, chunks, forward_send, backward_send);
  state.result.timeline.clear();
  state.result.messages.clear();
  if (with_timeline) state.result.timeline.resize(index(s.pp));
  for (const Segment& g : state.program->segments(s.microbatches))
    state.run_segment(g, with_timeline);
  state.sum_up(s, chunks, forward_send, backward_send);
  return state.result;
}

PipelineResult run_pipeline(const PipelineShape& s, std::span<const ChunkTime> chunks,
                            std::span<const SendTime> forward_send,
                            std::span<const SendTime> backward_send, bool with_timeline) {
  PipelineRunner runner;
  return runner.run(s, chunks, forward_send, backward_send, with_timeline);
}

}  // namespace meshplan
