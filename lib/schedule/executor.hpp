#pragma once
// Runs compiled programs (schedule/program.hpp); what a time is, the clock says.
#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include "base/units.hpp"
#include "schedule/program.hpp"

namespace meshplan {

// Sees nothing. Others see each task and message, for which every round must be run.
struct NoObserver {
  static constexpr bool kEveryRound = false;
  template <class Time>
  void task(const Step&, std::int64_t, const Time&, const Time&) {}
  template <class Time>
  void message(const Step&, std::int64_t, const Time&, const Time&) {}
};

// [F-PIPE-1] Start of a task = max(end of the rank's task before it + receiver_busy, arrival of its
// input); arrival = max(end of the sending task, end of the link's message before) + transfer.
// Because every start is a maximum of sums, the order in which steps are worked off does not matter
// and a state that moved by one and the same time in every component over a round moves by it in
// every later round (max-plus linearity; Baccelli et al. 1992, "Synchronization and Linearity",
// sec. 3.7): that is what `leap` uses.
//
// Clock: Time, seconds(Time), task(Time, duration index, s) and message(Time, s), which are so much
// later; begin_round(); leap(state before the last round, state after it, rounds skipped), after
// which moved(Time, s, i) is part i of the state later by all of them.
template <class Clock>
class Executor {
 public:
  using Time = typename Clock::Time;
  explicit Executor(Clock c = {}) : clock(std::move(c)) {}

  void load(const Program& p, std::span<const ChunkTime> chunks,
            std::span<const SendTime> forward_send, std::span<const SendTime> backward_send) {
    program_ = &p;
    durations_.clear();
    for (const ChunkTime& c : chunks) {
      const double w = c.backward_weight.si(), b = c.backward_input.si();
      durations_.insert(durations_.end(), {c.forward.si(), b + w, b, w});
    }
    durations_.push_back(0);  // of steps that only wait or send
    static_assert(static_cast<int>(TaskKind::kForward) == 0 &&
                  static_cast<int>(TaskKind::kBackward) == 1 &&
                  static_cast<int>(TaskKind::kBackwardInput) == 2 &&
                  static_cast<int>(TaskKind::kBackwardWeight) == 3);
    lanes_.clear();
    for (std::size_t b = 0; b < forward_send.size(); ++b) {
      for (const SendTime& t : {forward_send[b], backward_send[b]})
        lanes_.push_back({t.transfer.si(), t.sender_busy.si(), t.receiver_busy.si()});
    }
    lanes_.resize(lanes_.size() + 2);
    free_.assign(index(p.shape.pp), Time{});
    link_.assign(index(3 * p.shape.pp), Time{});
    arrival_.assign(lanes_.size() << p.ring_bits, Time{});
  }

  template <class Observer>
  void run(std::int64_t microbatches, Observer& observe) {
    for (const Segment& g : program_->segments(microbatches)) run_segment(g, observe);
  }

  // By rank: when its compute is free.
  [[nodiscard]] const std::vector<Time>& free() const { return free_; }

  Clock clock;

 private:
  struct Lane {
    double transfer = 0, sent = 0, taken = 0;  // as SendTime has them
  };

  static const Time& later(const Time& a, const Time& b) {
    return Clock::seconds(b) > Clock::seconds(a) ? b : a;
  }
  [[nodiscard]] std::size_t slot(std::int32_t lane, std::int64_t microbatch) const {
    const std::int64_t mask = (std::int64_t{1} << program_->ring_bits) - 1;
    return (index(lane) << program_->ring_bits) | index(microbatch & mask);
  }

  template <class Observer>
  void run_segment(const Segment& g, Observer& observe) {
    before_.clear();
    now_.clear();
    if (g.begin == g.end) return;
    if (g.repeats > 1) find_round_links(g);
    for (std::int64_t k = 0; k < g.repeats; ++k) {
      const std::int64_t shift = g.first_shift + k * program_->round;
      clock.begin_round();
      run_round(g, shift, observe);
      if (!Observer::kEveryRound && g.repeats > 1) k += leap(g.repeats - 1 - k, shift);
    }
  }

  template <class Observer>
  void run_round(const Segment& g, std::int64_t shift, Observer& observe) {
    for (std::size_t i = g.begin; i < g.end; ++i) {
      const Step& step = program_->steps[i];
      const Lane &in = lanes_[index(step.in)], &out = lanes_[index(step.out)];
      const std::int64_t microbatch = step.microbatch + shift;
      Time& rank_free = free_[index(step.rank)];
      const Time start =
          later(clock.message(rank_free, in.taken), arrival_[slot(step.in, microbatch)]);
      const Time end = clock.task(start, step.duration, durations_[index(step.duration)]);
      observe.task(step, shift, start, end);
      Time& link_free = link_[index(step.link)];
      const Time leaves = later(end, link_free);
      link_free = clock.message(leaves, out.transfer);
      observe.message(step, shift, leaves, link_free);
      arrival_[slot(step.out, microbatch)] = link_free;
      rank_free = clock.message(end, out.sent);
    }
  }

  void find_round_links(const Segment& g) {
    link_used_.assign(link_.size(), 0);
    for (std::size_t i = g.begin; i < g.end; ++i) link_used_[index(program_->steps[i].link)] = 1;
    round_links_.clear();
    for (std::size_t l = 0; l < index(link_to_nowhere(program_->shape, 0)); ++l) {
      if (link_used_[l] != 0) round_links_.push_back(l);
    }
  }

  // All that later rounds can see: ranks, the round's links, and messages on their way.
  void snapshot(std::int64_t shift) {
    now_.assign(free_.begin(), free_.end());
    for (const std::size_t l : round_links_) now_.push_back(link_[l]);
    for (const LiveMessage& m : program_->live)
      now_.push_back(arrival_[slot(m.lane, m.microbatch + shift)]);
  }

  // Rounds skipped: all that are left if the state moved uniformly over the last round, else none.
  std::int64_t leap(std::int64_t rounds_left, std::int64_t shift) {
    std::swap(before_, now_);
    snapshot(shift);
    if (before_.size() != now_.size() || rounds_left == 0) return 0;
    double least = std::numeric_limits<double>::infinity(), most = 0, latest = 0;
    for (std::size_t i = 0; i < now_.size(); ++i) {
      const double now = Clock::seconds(now_[i]), moved = now - Clock::seconds(before_[i]);
      least = std::min(least, moved), most = std::max(most, moved);
      latest = std::max(latest, now);
    }
    if (most - least > 8 * std::numeric_limits<double>::epsilon() * latest) return 0;
    clock.leap(before_, now_, rounds_left);
    const double jump = most * static_cast<double>(rounds_left);
    std::size_t part = 0;
    const auto move = [&](Time& t) {
      t = clock.moved(now_[part], jump, part);
      ++part;
    };
    for (Time& t : free_) move(t);
    for (const std::size_t l : round_links_) move(link_[l]);
    const std::int64_t later = shift + rounds_left * program_->round;
    for (const LiveMessage& m : program_->live) move(arrival_[slot(m.lane, m.microbatch + later)]);
    return rounds_left;
  }

  const Program* program_ = nullptr;
  std::vector<double> durations_;  // by Step::duration
  std::vector<Lane> lanes_;        // those from and to nowhere last
  std::vector<Time> free_;
  std::vector<Time> link_;                // by link: when it is free
  std::vector<Time> arrival_;             // by lane and slot
  std::vector<std::size_t> round_links_;  // links that the repeated round uses
  std::vector<char> link_used_;
  std::vector<Time> before_, now_;  // state after the last two rounds
};

}  // namespace meshplan
