#include "schedule/critical_path.hpp"

#include <algorithm>

#include "base/units.hpp"
#include "schedule/executor.hpp"

namespace meshplan {
namespace {

static_assert(kTaskKinds == std::tuple_size_v<decltype(CriticalPath::tasks)::value_type>);

constexpr std::int32_t kStart = -1;   // no event before
constexpr std::int32_t kNoTask = -1;  // instead of a task; below it: the number of a leap

// Something ends: a task, a message, a wait.
struct Event {
  std::int32_t before;  // the event that it waited for; of a leap: the part of the state
  std::int32_t task;
  double more;  // seconds of a message or a wait
};

struct At {
  double time = 0;
  std::int32_t event = kStart;
};

// Rounds skipped, each like the last one run.
struct Leap {
  std::vector<At> before, now;   // parts of the state before and after that
  std::int32_t round_begin = 0;  // its first event
  std::int64_t rounds = 0;
};

// Remembers what everything waited for.
class TracingClock {
 public:
  using Time = At;
  explicit TracingClock(const PipelineShape& s) : no_task_(no_task(s)) {}

  static double seconds(const At& t) { return t.time; }
  At task(const At& t, std::int32_t duration, double s) {
    return duration == no_task_ ? t : after(t.time + s, {t.event, duration, 0});
  }
  At message(const At& t, double s) {
    return s == 0 ? t : after(t.time + s, {t.event, kNoTask, s});
  }
  void begin_round() { round_begin_ = num_events(); }
  void leap(const std::vector<At>& before, const std::vector<At>& now, std::int64_t rounds) {
    leaps_.push_back({before, now, round_begin_, rounds});
  }
  At moved(const At& t, double s, std::size_t part) {
    const auto task = static_cast<std::int32_t>(kNoTask - static_cast<int>(leaps_.size()));
    return after(t.time + s, {static_cast<std::int32_t>(part), task, 0});
  }

  // The chain that ends with `last`; false if a leap hides where it comes from.
  bool walk_back(const At& last, CriticalPath& path) const {
    for (std::int32_t at = last.event; at != kStart;) {
      const Event& e = events_[index(at)];
      if (e.task < kNoTask) {
        const Leap& leap = leaps_[index(kNoTask - 1 - e.task)];
        const std::optional<std::int32_t> before = back_over(leap, e.before, path);
        if (!before) return false;
        at = *before;
      } else {
        add(e, path);
        at = e.before;
      }
    }
    return true;
  }

 private:
  [[nodiscard]] std::int32_t num_events() const {
    return static_cast<std::int32_t>(events_.size());
  }
  At after(double time, const Event& e) {
    events_.push_back(e);
    return {time, num_events() - 1};
  }

  void add(const Event& e, CriticalPath& path) const {
    if (e.task >= 0) ++path.tasks[index(e.task) / kTaskKinds][index(e.task) % kTaskKinds];
    path.messages += e.more;
  }

  // Every skipped round is like the last one run: from which part of the state before it the chain
  // comes says where it goes on.
  std::optional<std::int32_t> back_over(const Leap& leap, std::int32_t part,
                                        CriticalPath& path) const {
    for (std::int64_t k = 0; k < leap.rounds; ++k) {
      std::int32_t at = leap.now[index(part)].event;
      while (at >= leap.round_begin) {
        const Event& e = events_[index(at)];
        add(e, path);
        at = e.before;
      }
      const auto from = std::find_if(leap.before.begin(), leap.before.end(),
                                     [&](const At& b) { return b.event == at; });
      if (from == leap.before.end()) return std::nullopt;
      part = static_cast<std::int32_t>(from - leap.before.begin());
    }
    return leap.now[index(part)].event;
  }

  std::int32_t no_task_;
  std::int32_t round_begin_ = 0;
  std::vector<Leap> leaps_;
  std::vector<Event> events_;
};

}  // namespace

Seconds CriticalPath::length(std::span<const ChunkTime> chunks) const {
  double sum = messages;
  for (std::size_t c = 0; c < chunks.size(); ++c) sum += seconds(c, chunks[c]);
  return Seconds{sum};
}

std::optional<CriticalPath> critical_path(const Program& p, const PipelineShape& s,
                                          std::span<const ChunkTime> chunks,
                                          std::span<const SendTime> forward_send,
                                          std::span<const SendTime> backward_send,
                                          std::span<const Seconds> after) {
  Executor<TracingClock> executor{TracingClock(s)};
  NoObserver observe;
  executor.load(p, chunks, forward_send, backward_send);
  executor.run(s.microbatches, observe);
  const std::vector<At>& free = executor.free();
  const auto end = [&](std::size_t r) {
    return free[r].time + (after.empty() ? 0 : after[r].si());
  };
  std::size_t last = 0;
  for (std::size_t r = 1; r < free.size(); ++r) {
    if (end(r) > end(last)) last = r;
  }
  CriticalPath path;
  path.tasks.resize(chunks.size());
  path.rank = static_cast<std::int64_t>(last);
  if (!executor.clock.walk_back(free[last], path)) return std::nullopt;
  return path;
}

}  // namespace meshplan
