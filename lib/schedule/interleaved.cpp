#include <algorithm>
#include <cmath>

#include "schedule/chains.hpp"
#include "schedule/divided.hpp"
#include "schedule/in_flight.hpp"
#include "schedule/orders.hpp"

namespace meshplan {
namespace {

// Microbatches per chunk turn: the given group, or pp.
std::int64_t interleaved_group(const PipelineShape& s) { return s.group == 0 ? s.pp : s.group; }

struct Turn {
  std::int64_t local_chunk;
  std::int64_t microbatch;
};

// The k-th forward of a rank: groups of microbatches, and within a group one chunk after the other.
// The last group may be smaller. Backwards run the chunks in the reverse order.
Turn turn(const PipelineShape& s, std::int64_t k) {
  const std::int64_t group = interleaved_group(s);
  const std::int64_t first = k / (group * s.vp) * group;
  const std::int64_t size = std::min(group, s.microbatches - first);
  const std::int64_t in_group = k - first * s.vp;
  return {in_group / size, first + in_group % size};
}

// Narayanan et al. 2021, sec. 2.2.2; Megatron-Core schedules.py, get_pp_rank_microbatches:
// 2 (p - r - 1) + (v - 1) group forwards, at most all, before the rank alternates.
std::int64_t interleaved_warmup(const PipelineShape& s, std::int64_t rank) {
  return std::min(2 * (s.pp - rank - 1) + (s.vp - 1) * interleaved_group(s), s.microbatches * s.vp);
}

// [F-PIPE-3] Idle time with equal chunks (p - 1)(F + B) / v, where F and B are a rank's times for
// all of its v chunks (Narayanan et al. 2021, sec. 2.2.2). A last group of at least p adds nothing.
TaskOrder interleaved_order(const PipelineShape& s, std::int64_t rank) {
  TaskOrder order;
  const std::int64_t total = s.microbatches * s.vp;
  order.reserve(static_cast<std::size_t>(2 * total));
  const std::int64_t warmup = interleaved_warmup(s, rank);
  const auto forward = [&](std::int64_t k) {
    const Turn t = turn(s, k);
    order.push_back(make_task(TaskKind::kForward, t.local_chunk * s.pp + rank, t.microbatch));
  };
  for (std::int64_t k = 0; k < warmup; ++k) forward(k);
  for (std::int64_t k = 0; k < total; ++k) {
    if (warmup + k < total) forward(warmup + k);
    const Turn t = turn(s, k);
    const std::int64_t local = s.vp - 1 - t.local_chunk;
    order.push_back(make_task(TaskKind::kBackward, local * s.pp + rank, t.microbatch));
  }
  return order;
}

// Megatron-Core schedules.py, forward_backward_pipelining_with_interleaving: the three checks.
std::string interleaved_illegal_reason(const PipelineShape& s) {
  const auto number = [](std::int64_t n) { return std::to_string(n); };
  const std::int64_t group = interleaved_group(s);
  if (group == s.pp) {
    if (s.microbatches % s.pp == 0) return {};
    return "needs a multiple of 'pp' " + number(s.pp) + " microbatches, got " +
           number(s.microbatches);
  }
  if (group < s.pp) {
    return "needs a microbatch group of at least pp=" + number(s.pp) + ", got " + number(group);
  }
  if (group > s.microbatches) {
    return "has a microbatch group of " + number(group) + ", more than all " +
           number(s.microbatches) + " microbatches";
  }
  const std::int64_t rest = s.microbatches % group;
  if (rest == 0 || rest >= s.pp) return {};
  return "leaves a last group of " + number(rest) + " of " + number(s.microbatches) +
         " microbatches, less than pp=" + number(s.pp) + "; use " + number(s.microbatches - rest) +
         " or " + number(s.microbatches - rest + s.pp) + " microbatches";
}

std::int32_t least_of(const std::vector<Held>& held) {
  std::int32_t least = held.front().whole;
  for (const Held& h : held) least = std::min(least, h.whole);
  return least;
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
      const std::vector<Held> now = at(turns_[i]);
      result.least_held = std::max(result.least_held, least_between(now, turns_[i], end));
      result.add_moment(now);
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
  [[nodiscard]] std::vector<Held> at(std::int64_t backwards) const {
    std::vector<Held> held(static_cast<std::size_t>(vp_));
    for (std::int64_t c = 0; c < vp_; ++c) {
      const std::int64_t whole = passed(backwards + ahead_, c) - passed(backwards, vp_ - 1 - c);
      held[static_cast<std::size_t>(c)].whole = static_cast<std::int32_t>(whole);
    }
    return held;
  }
  // What every chunk holds at some moment of a turn.
  [[nodiscard]] std::int32_t least_between(const std::vector<Held>& begin, std::int64_t from,
                                           std::int64_t to) const {
    std::int32_t most = least_of(begin);
    if (to - from < 2) return most;
    const std::vector<Held> next = at(from + 1);
    std::size_t gains = 0, loses = 0;
    for (std::size_t c = 0; c < next.size(); ++c) {
      if (next[c].whole > begin[c].whole) gains = c;
      if (next[c].whole < begin[c].whole) loses = c;
    }
    const std::int64_t middle = (begin[loses].whole - begin[gains].whole) / 2;
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

InFlight interleaved_in_flight(const PipelineShape& s, std::int64_t rank) {
  InFlight result;
  const RankChunks chunks = chunks_on_rank(s, rank);
  for (std::int64_t i = 0; i < chunks.count; ++i) result.chunks.push_back(chunks[i]);
  InterleavedMoments(s, rank).fill(result);
  return result;
}

RankPaths interleaved_paths(const PipelineShape& s, std::int64_t rank, const Chain& chain) {
  return alternating_paths(s, rank, chain, interleaved_group(s), interleaved_warmup(s, rank));
}

// Through the last chunks of the ranks behind, and the first chunks of those before. Chunks hold an
// even share of their rank's layers, up to less than a layer; what they take more than that counts
// as nothing, as each task that the rank runs before its first backward it runs again after it.
double through_last_chunks(const DividedRank& x) {
  const DividedPipeline& d = x.pipeline;
  if (!d.even) return 0;
  const auto p = static_cast<double>(d.ranks), v = static_cast<double>(d.vp);
  const double behind_ranks = p - static_cast<double>(x.r) - 1;
  const double ahead = std::min(d.microbatches * v, 2 * behind_ranks + (v - 1) * p + 1);
  TaskTimes layers = x.layers();
  TaskTimes behind = at_least_zero(d.first.back() - d.first[x.end] - d.rounding * behind_ranks);
  TaskTimes before = d.first[x.begin];
  if (x.r > 0) before = at_least_zero(before - d.rounding) + d.embedding;
  double most_first = layers.forward / v + d.rounding.forward;
  double least_last = std::max(0.0, layers.forward / v - d.rounding.forward);
  if (x.chunks != nullptr) {
    layers = {};
    for (const TaskTimes& chunk : x.chunks->own) layers += chunk;
    behind = x.chunks->behind, before = x.before;
    most_first = x.chunks->own.front().forward, least_last = x.chunks->own.back().forward;
  }
  double backward = behind.input + behind.weight + before.input + before.weight;
  if (x.r < x.last_rank()) backward += d.head.input + d.head.weight;
  // p forwards of each chunk, less those of the last chunks or plus those of the first.
  double forward = p * layers.forward;
  if (ahead < p * v) {
    forward -= (p * v - ahead) * least_last;
  } else {
    forward += (ahead - p * v) * most_first;
  }
  if (x.r == 0) forward += std::min(d.microbatches, ahead) * d.embedding.forward;
  if (x.r == x.last_rank()) forward += std::max(0.0, ahead - (v - 1) * p) * d.head.forward;
  const double later = d.stalls(x.r, d.microbatches - std::ceil(ahead / v) - 1);
  const double work = d.microbatches * (layers + d.ends(x.r)).all();
  return d.whole.forward + backward + work - forward + later + d.hops(d.ranks * d.vp + d.ranks - 2);
}

double interleaved_chain(const DividedRank& x) {
  return std::max(x.entered_and_left(), through_last_chunks(x));
}

}  // namespace

extern const ScheduleTraits kInterleavedTraits;
const ScheduleTraits kInterleavedTraits{
    .fact = "1f1b over vp chunks per rank; the bubble divided by vp, sends multiplied by vp",
    .source = "Narayanan et al. 2021 (2104.04473)",
    .chunks = ChunksPerRank::kSeveral,
    .widely_available = true,
    .order = interleaved_order,
    .illegal_reason = interleaved_illegal_reason,
    .period = interleaved_group,
    .in_flight = interleaved_in_flight,
    .paths = interleaved_paths,
    .chain = interleaved_chain,
};

}  // namespace meshplan
