#include "search/in_flight.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "base/check.hpp"
#include "schedule/orders.hpp"
#include "schedule/traits.hpp"

namespace meshplan {
namespace {

struct Moment {
  std::vector<Held> held;           // by chunk
  std::int64_t whole = 0, all = 0;  // sums
};

// Kept bytes never exceed saved ones, so a whole microbatch outweighs a kept one. Most moments of a
// schedule hold as much as each other: then only the same one covers another.
bool covers(const Moment& a, const Moment& b) {
  if (a.whole < b.whole || a.all < b.all) return false;
  if (a.whole == b.whole && a.all == b.all) return a.held == b.held;
  for (std::size_t i = 0; i < a.held.size(); ++i) {
    const Held &x = a.held[i], &y = b.held[i];
    if (x.whole < y.whole || x.whole + x.kept < y.whole + y.kept) return false;
  }
  return true;
}

void add_moment(std::vector<Moment>& moments, const Moment& now) {
  for (const Moment& m : moments) {
    if (covers(m, now)) return;
  }
  std::erase_if(moments, [&](const Moment& m) { return covers(now, m); });
  moments.push_back(now);
}

void apply(Held& held, TaskKind kind) {
  switch (kind) {
    case TaskKind::kForward:
      ++held.whole;
      return;
    case TaskKind::kBackward:
      --held.whole;
      return;
    case TaskKind::kBackwardInput:
      --held.whole, ++held.kept;
      return;
    case TaskKind::kBackwardWeight:
      --held.kept;
      return;
  }
}

}  // namespace

// Chunks that follow each other mostly hold the same bytes each: where they make up few runs, a run
// counts at once.
Bytes InFlight::peak(std::span<const Bytes> saved, std::span<const Bytes> kept) const {
  constexpr std::size_t kMostRuns = 8;
  const std::size_t width = chunks.size();
  std::array<std::size_t, kMostRuns + 1> ends{};  // of each run; the first begins at 0
  std::size_t runs = 0;
  for (std::size_t c = 0; c < width && runs <= kMostRuns; ++c) {
    const bool same = c > 0 && saved[c] == saved[c - 1] && kept[c] == kept[c - 1];
    if (!same) ++runs;
    ends[std::min(runs, kMostRuns)] = c + 1;
  }
  Bytes most;
  if (runs > kMostRuns) {
    for (std::size_t i = 0; i < until.size(); i += width + 1) {
      Bytes now;
      for (std::size_t c = 0; c < width; ++c) {
        const Held &begin = until[i + c], &end = until[i + c + 1];
        now += saved[c] * (end.whole - begin.whole) + kept[c] * (end.kept - begin.kept);
      }
      most = std::max(most, now);
    }
  } else {
    for (std::size_t i = 0; i < until.size(); i += width + 1) {
      Bytes now;
      for (std::size_t r = 0; r < runs; ++r) {
        const Held &begin = until[i + ends[r]], &end = until[i + ends[r + 1]];
        now += saved[ends[r]] * (end.whole - begin.whole) + kept[ends[r]] * (end.kept - begin.kept);
      }
      most = std::max(most, now);
    }
  }
  return most;
}

namespace {

std::int32_t least_of(const Moment& m) {
  std::int32_t least = m.held.front().whole;
  for (const Held& h : m.held) least = std::min(least, h.whole);
  return least;
}

void add(InFlight& result, const Moment& m) {
  Held sum;
  result.until.push_back(sum);
  for (const Held& h : m.held) {
    sum.whole += h.whole, sum.kept += h.kept;
    result.until.push_back(sum);
  }
  result.least_held = std::max(result.least_held, least_of(m));
}

// The interleaved schedule in closed form. Forwards and backwards take turns of one chunk each, so
// between two changes of turn one chunk gains and one loses a microbatch per moment: bytes held are
// linear in between, and most where a turn changes.
class InterleavedMoments {
 public:
  InterleavedMoments(const PipelineShape& s, std::int64_t rank)
      : vp_(s.vp),
        microbatches_(s.microbatches),
        group_(interleaved_group(s)),
        round_(group_ * s.vp),
        ahead_(std::min(s.microbatches * s.vp, interleaved_warmup(s, rank) + 1)) {
    for (std::int64_t first = 0; first <= microbatches_; first += group_) {
      const std::int64_t size = std::min(group_, microbatches_ - first);
      for (std::int64_t i = 0; i < vp_ && size > 0; ++i) {
        add_turn(first * vp_ + i * size);
        add_turn(first * vp_ + i * size - ahead_);
      }
    }
    add_turn(0), add_turn(last());
    std::sort(turns_.begin(), turns_.end());
    turns_.erase(std::unique(turns_.begin(), turns_.end()), turns_.end());
  }

  void fill(InFlight& result) {
    for (std::size_t i = 0; i < turns_.size(); ++i) {
      const std::int64_t end = i + 1 < turns_.size() ? turns_[i + 1] : turns_[i];
      // The same as one round of full groups before.
      const std::int64_t full = microbatches_ / group_ * round_;
      if (turns_[i] >= round_ && end + ahead_ <= full) continue;
      const Moment now = at(turns_[i]);
      result.least_held = std::max(result.least_held, least_between(now, turns_[i], end));
      add(result, now);
    }
    result.until.shrink_to_fit();
  }

 private:
  [[nodiscard]] std::int64_t last() const { return microbatches_ * vp_ - ahead_; }
  void add_turn(std::int64_t backwards) {
    if (backwards >= 0 && backwards <= last()) turns_.push_back(backwards);
  }
  // Microbatches that the i-th chunk in turn has passed after n tasks of one direction.
  [[nodiscard]] std::int64_t passed(std::int64_t n, std::int64_t i) const {
    const std::int64_t first = n / round_ * group_;
    const std::int64_t size = std::min(group_, microbatches_ - first);
    return first + std::clamp<std::int64_t>(n - first * vp_ - i * size, 0, size);
  }
  // Before the next of so many backwards.
  [[nodiscard]] Moment at(std::int64_t backwards) const {
    Moment m{std::vector<Held>(static_cast<std::size_t>(vp_)), 0, 0};
    for (std::int64_t c = 0; c < vp_; ++c) {
      const std::int64_t whole = passed(backwards + ahead_, c) - passed(backwards, vp_ - 1 - c);
      m.held[static_cast<std::size_t>(c)].whole = static_cast<std::int32_t>(whole);
      m.whole += whole;
    }
    m.all = m.whole;
    return m;
  }
  // What every chunk holds at some moment of a turn.
  [[nodiscard]] std::int32_t least_between(const Moment& begin, std::int64_t from,
                                           std::int64_t to) const {
    std::int32_t most = least_of(begin);
    if (to - from < 2) return most;
    const Moment next = at(from + 1);
    std::size_t gains = 0, loses = 0;
    for (std::size_t c = 0; c < next.held.size(); ++c) {
      if (next.held[c].whole > begin.held[c].whole) gains = c;
      if (next.held[c].whole < begin.held[c].whole) loses = c;
    }
    const std::int64_t middle = (begin.held[loses].whole - begin.held[gains].whole) / 2;
    for (const std::int64_t step : {middle, middle + 1}) {
      most = std::max(most, least_of(at(from + std::clamp<std::int64_t>(step, 0, to - from))));
    }
    return most;
  }

  std::int64_t vp_, microbatches_, group_;
  std::int64_t round_;               // tasks of one direction that a group takes
  std::int64_t ahead_;               // forwards more than backwards before a backward
  std::vector<std::int64_t> turns_;  // backwards done when a turn begins
};

}  // namespace

InFlight in_flight(const PipelineShape& s, std::int64_t rank) {
  constexpr std::size_t kElsewhere = std::numeric_limits<std::size_t>::max();
  InFlight result;
  if (s.schedule == Schedule::kGpipe || s.schedule == Schedule::k1f1b) {
    result.chunks = {static_cast<std::size_t>(rank)};
    const auto held = static_cast<std::int32_t>(peak_in_flight(s, rank));
    add(result, {{{held, 0}}, held, held});
    return result;
  }
  if (s.schedule == Schedule::kInterleaved) {
    for (std::int64_t c = 0; c < s.vp; ++c) {
      result.chunks.push_back(static_cast<std::size_t>(c * s.pp + rank));
    }
    InterleavedMoments(s, rank).fill(result);
    return result;
  }
  const std::vector<Task> order = task_order(steady_template(s), rank);
  std::vector<std::size_t> place(static_cast<std::size_t>(num_chunks(s)), kElsewhere);
  for (const Task& t : order) place[static_cast<std::size_t>(t.chunk)] = 0;
  for (std::size_t chunk = 0; chunk < place.size(); ++chunk) {
    if (place[chunk] == kElsewhere) continue;
    place[chunk] = result.chunks.size();
    result.chunks.push_back(chunk);
  }
  std::vector<Moment> moments;
  Moment now{std::vector<Held>(result.chunks.size()), 0, 0};
  for (std::size_t i = 0; i < order.size(); ++i) {
    Held& held = now.held[place[static_cast<std::size_t>(order[i].chunk)]];
    now.whole -= held.whole, now.all -= held.whole + held.kept;
    apply(held, order[i].kind);
    now.whole += held.whole, now.all += held.whole + held.kept;
    const bool grows_on = i + 1 < order.size() && order[i + 1].kind == TaskKind::kForward;
    if (order[i].kind == TaskKind::kForward && !grows_on) add_moment(moments, now);
  }
  for (const Moment& m : moments) add(result, m);
  return result;
}

const std::vector<InFlight>& InFlightCache::of(const PipelineShape& s) {
  const bool all = traits_of(s.schedule).forwards_first;  // holds every microbatch
  const std::int64_t microbatches = all ? s.microbatches : steady_template(s).microbatches;
  return known_.get({static_cast<std::int64_t>(s.schedule), s.pp, s.vp, microbatches}, [&] {
    std::vector<InFlight> ranks;
    for (std::int64_t r = 0; r < s.pp; ++r) ranks.push_back(in_flight(s, r));
    return ranks;
  });
}

}  // namespace meshplan
