#include "schedule/in_flight.hpp"

#include <algorithm>
#include <array>
#include <limits>

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

// The moments of the steady state repeat from round to round, so those of the template are all.
InFlight walked_in_flight(const PipelineShape& s, std::int64_t rank) {
  constexpr std::size_t kElsewhere = std::numeric_limits<std::size_t>::max();
  InFlight result;
  const TaskOrder order = task_order(steady_template(s), rank);
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
  for (const Moment& m : moments) result.add_moment(m.held);
  return result;
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

std::int32_t InFlight::most_of_last() const {
  const std::size_t width = chunks.size();
  std::int32_t most = 0;
  for (std::size_t i = 0; i < until.size(); i += width + 1) {
    most = std::max(most, until[i + width].whole - until[i + width - 1].whole);
  }
  return most;
}

void InFlight::add_moment(std::span<const Held> held) {
  Held sum;
  std::int32_t least = held.front().whole;
  until.push_back(sum);
  for (const Held& h : held) {
    sum.whole += h.whole, sum.kept += h.kept;
    least = std::min(least, h.whole);
    until.push_back(sum);
  }
  least_held = std::max(least_held, least);
}

InFlight one_chunk_in_flight(std::int64_t chunk, std::int64_t microbatches) {
  InFlight result;
  result.chunks = {static_cast<std::size_t>(chunk)};
  result.add_moment(std::array{Held{static_cast<std::int32_t>(microbatches), 0}});
  return result;
}

InFlight in_flight(const PipelineShape& s, std::int64_t rank) {
  PLAN_CHECK(illegal_reason(s).empty() && rank >= 0 && rank < s.pp);
  const auto own = traits_of(s.schedule).in_flight;
  return own == nullptr ? walked_in_flight(s, rank) : own(s, rank);
}

}  // namespace meshplan
