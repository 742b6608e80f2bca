#include "search/in_flight.hpp"

#include <algorithm>
#include <array>

#include "base/check.hpp"
#include "schedule/orders.hpp"

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
  if (runs > kMostRuns || until.empty()) {
    for (std::size_t i = 0; i < held.size(); i += width) {
      Bytes now;
      for (std::size_t c = 0; c < width; ++c) {
        now += saved[c] * held[i + c].whole + kept[c] * held[i + c].kept;
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

std::int32_t least_held(const InFlight& f) {
  std::int32_t most = 0;
  const std::size_t width = f.chunks.size();
  for (std::size_t i = 0; i < f.held.size(); i += width) {
    std::int32_t least = f.held[i].whole;
    for (std::size_t c = 1; c < width; ++c) least = std::min(least, f.held[i + c].whole);
    most = std::max(most, least);
  }
  return most;
}

}  // namespace

InFlight in_flight(const PipelineShape& s, std::int64_t rank) {
  InFlight result;
  if (s.schedule == Schedule::kGpipe || s.schedule == Schedule::k1f1b) {
    result.chunks = {static_cast<std::size_t>(rank)};
    result.held = {{static_cast<std::int32_t>(peak_in_flight(s, rank)), 0}};
    result.least_held = least_held(result);
    return result;
  }
  const std::vector<Task> order = task_order(steady_template(s), rank);
  for (const Task& t : order) result.chunks.push_back(static_cast<std::size_t>(t.chunk));
  std::sort(result.chunks.begin(), result.chunks.end());
  result.chunks.erase(std::unique(result.chunks.begin(), result.chunks.end()), result.chunks.end());
  std::vector<Moment> moments;
  Moment now{std::vector<Held>(result.chunks.size()), 0, 0};
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto at = std::lower_bound(result.chunks.begin(), result.chunks.end(),
                                     static_cast<std::size_t>(order[i].chunk));
    Held& held = now.held[static_cast<std::size_t>(at - result.chunks.begin())];
    now.whole -= held.whole, now.all -= held.whole + held.kept;
    apply(held, order[i].kind);
    now.whole += held.whole, now.all += held.whole + held.kept;
    const bool grows_on = i + 1 < order.size() && order[i + 1].kind == TaskKind::kForward;
    if (order[i].kind == TaskKind::kForward && !grows_on) add_moment(moments, now);
  }
  for (const Moment& m : moments) {
    result.held.insert(result.held.end(), m.held.begin(), m.held.end());
    Held sum;
    result.until.push_back(sum);
    for (const Held& h : m.held) {
      sum.whole += h.whole, sum.kept += h.kept;
      result.until.push_back(sum);
    }
  }
  result.least_held = least_held(result);
  return result;
}

const std::vector<InFlight>& InFlightCache::of(const PipelineShape& s) {
  const bool all = s.schedule == Schedule::kGpipe;  // holds every microbatch
  const std::int64_t microbatches = all ? s.microbatches : steady_template(s).microbatches;
  return known_.get({static_cast<std::int64_t>(s.schedule), s.pp, s.vp, microbatches}, [&] {
    std::vector<InFlight> ranks;
    for (std::int64_t r = 0; r < s.pp; ++r) ranks.push_back(in_flight(s, r));
    return ranks;
  });
}

}  // namespace meshplan
