#include "schedule/pipeline.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/units.hpp"
#include "schedule/executor.hpp"

namespace meshplan {
namespace {

constexpr std::size_t kMaxPrograms = 16;

Task task_of(const Step& step, std::int64_t shift) {
  constexpr auto kKinds = static_cast<std::int32_t>(kTaskKinds);
  return {static_cast<TaskKind>(step.duration % kKinds), step.duration / kKinds,
          static_cast<std::int32_t>(step.microbatch + shift)};
}

// Lane 2b is forward over the boundary after chunk b, 2b + 1 backward.
TimedMessage message_of(const PipelineShape& s, const Step& step, std::int64_t shift) {
  TimedMessage m;
  m.backward = step.out % 2 != 0;
  m.boundary = step.out / 2;
  m.microbatch = static_cast<std::int32_t>(step.microbatch + shift);
  m.from = step.rank;
  const std::int64_t chunk = m.backward ? m.boundary : m.boundary + 1;
  m.to = static_cast<std::int32_t>(rank_of_chunk(s, chunk, m.microbatch % 2));
  return m;
}

struct PlainClock {
  using Time = double;
  static double seconds(double t) { return t; }
  static double task(double t, std::int32_t, double s) { return t + s; }
  static double message(double t, double s) { return t + s; }
  static double moved(double t, double s, std::size_t) { return t + s; }
  void begin_round() {}
  void leap(const std::vector<double>&, const std::vector<double>&, std::int64_t) {}
};

struct TimelineObserver {
  static constexpr bool kEveryRound = true;
  const PipelineShape& shape;
  PipelineResult& result;

  void task(const Step& step, std::int64_t shift, double start, double end) {
    if (step.duration == no_task(shape)) return;
    result.timeline[index(step.rank)].push_back(
        {task_of(step, shift), Seconds{start}, Seconds{end}});
  }
  void message(const Step& step, std::int64_t shift, double leaves, double arrives) {
    if (step.out == lane_to_nowhere(shape)) return;
    TimedMessage& message = result.messages.emplace_back(message_of(shape, step, shift));
    message.start = Seconds{leaves}, message.end = Seconds{arrives};
  }
};

}  // namespace

struct PipelineRunner::State {
  std::vector<Program> programs;  // the last kMaxPrograms shapes
  std::size_t oldest = 0;
  Program* program = nullptr;  // the one of this run
  Executor<PlainClock> executor;
  PipelineResult result;

  void choose_program(const PipelineShape& s);
  template <class Observer>
  void execute(const PipelineShape& s, std::span<const ChunkTime> chunks,
               std::span<const SendTime> forward_send, std::span<const SendTime> backward_send,
               Observer observe);
  void sum_up(const PipelineShape& s, std::span<const ChunkTime> chunks,
              std::span<const SendTime> forward_send, std::span<const SendTime> backward_send);
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

void PipelineRunner::State::sum_up(const PipelineShape& s, std::span<const ChunkTime> chunks,
                                   std::span<const SendTime> forward_send,
                                   std::span<const SendTime> backward_send) {
  result.busy.assign(index(s.pp), Seconds{});
  result.communication.assign(index(s.pp), Seconds{});
  const int directions = traits_of(s.schedule).copies();
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
    if (directions == 2 && r >= s.pp / 2) {  // the other direction's mirror image
      result.start[index(r)] = result.start[index(s.pp - 1 - r)];
      continue;
    }
    const SendTime& t = forward_send[index(r - 1)];
    const Seconds sent_at = result.start[index(r - 1)] + chunks[index(r - 1)].forward;
    result.start[index(r)] = std::max(t.receiver_busy, sent_at + t.transfer);
  }
  result.makespan = *std::max_element(result.finish.begin(), result.finish.end());
}

PipelineRunner::PipelineRunner() : state_(std::make_unique<State>()) {}
PipelineRunner::~PipelineRunner() = default;
PipelineRunner::PipelineRunner(PipelineRunner&&) noexcept = default;
PipelineRunner& PipelineRunner::operator=(PipelineRunner&&) noexcept = default;

template <class Observer>
void PipelineRunner::State::execute(const PipelineShape& s, std::span<const ChunkTime> chunks,
                                    std::span<const SendTime> forward_send,
                                    std::span<const SendTime> backward_send, Observer observe) {
  PLAN_CHECK(illegal_reason(s).empty());
  PLAN_CHECK(chunks.size() == index(num_chunks(s)));
  PLAN_CHECK(forward_send.size() + 1 == chunks.size());
  PLAN_CHECK(backward_send.size() + 1 == chunks.size());
  choose_program(s);
  executor.load(*program, chunks, forward_send, backward_send);
  executor.run(s.microbatches, observe);
  result.finish.clear();
  for (const double t : executor.free()) result.finish.push_back(Seconds{t});
}

const PipelineResult& PipelineRunner::run(const PipelineShape& s, std::span<const ChunkTime> chunks,
                                          std::span<const SendTime> forward_send,
                                          std::span<const SendTime> backward_send,
                                          bool with_timeline) {
  PipelineResult& result = state_->result;
  result.timeline.clear();
  result.messages.clear();
  if (with_timeline) {
    result.timeline.resize(index(s.pp));
    state_->execute(s, chunks, forward_send, backward_send, TimelineObserver{s, result});
  } else {
    state_->execute(s, chunks, forward_send, backward_send, NoObserver{});
  }
  state_->sum_up(s, chunks, forward_send, backward_send);
  return result;
}

const std::vector<Seconds>& PipelineRunner::finish(const PipelineShape& s,
                                                   std::span<const ChunkTime> chunks,
                                                   std::span<const SendTime> forward_send,
                                                   std::span<const SendTime> backward_send) {
  state_->execute(s, chunks, forward_send, backward_send, NoObserver{});
  return state_->result.finish;
}

const Program& PipelineRunner::program(const PipelineShape& s) {
  PLAN_CHECK(illegal_reason(s).empty());
  state_->choose_program(s);
  return *state_->program;
}

}  // namespace meshplan
