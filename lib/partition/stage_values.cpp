#include <algorithm>
#include <utility>

#include "cost/memory.hpp"
#include "partition/stages.hpp"

// The entries of the table: what a share of layers needs and takes.

namespace meshplan {
namespace {

// The smallest of low..high that fits; all above one that fits do, high among them.
template <class Fits>
std::int64_t smallest_that(const Fits& fits, std::int64_t low, std::int64_t high) {
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (fits(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return high;
}

}  // namespace

// Embedding and head sit on the first and the last chunk, wherever those are.
template <class Visit>
void Stages::visit_chunks(int stage, const StageAssignment& share, std::int64_t first,
                          std::int64_t second, Visit visit) const {
  layout_.ranges(stage, share, ranges_);
  const bool holds_head = stage == (layout_.shares_both_ends() ? 0 : num_stages() - 1);
  std::int64_t left = first;
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    const LayerRange& range = ranges_[i];
    if (i == 1 && layout_.is_bidirectional()) left = second;
    chunk_.blocks.assign(x_.prefix.table.size(), 0);
    chunk_.recomputed.assign(x_.prefix.table.size(), 0);
    chunk_.layers = 0;
    add_layers(x_.prefix, range.begin, range.end, left, chunk_);
    left = std::max<std::int64_t>(0, left - chunk_.layers);
    if (stage == 0 && i == 0) chunk_.blocks.embedding() = 1;
    if (holds_head && i + 1 == ranges_.size()) {
      add_head(x_.model, x_.strategy, layout_.is_bidirectional() ? second : first, chunk_);
    }
    visit(chunk_);
  }
}

void Stages::chunk_times(int stage, const StageAssignment& share,
                         std::vector<ChunkTime>& times) const {
  const Value v = value(stage, share);
  times.clear();
  visit_chunks(stage, share, v.recomputed_first, v.recomputed_second, [&](const Chunk& chunk) {
    times.push_back(chunk_cost(chunk, x_.blocks, x_.strategy.recompute).time);
  });
}

const Chunk& Stages::fill(int stage, const StageAssignment& share, std::int64_t first,
                          std::int64_t second) const {
  saved_.clear(), kept_.clear();
  mine_.blocks.assign(x_.prefix.table.size(), 0);
  mine_.recomputed.assign(x_.prefix.table.size(), 0);
  visit_chunks(stage, share, first, second, [&](const Chunk& chunk) {
    const ChunkSaved bytes = saved_bytes(chunk, saved_rates_);
    saved_.push_back(bytes.whole), kept_.push_back(bytes.for_weight);
    if (ranges_.size() > 1) add_blocks(chunk, mine_);
  });
  return ranges_.size() > 1 ? mine_ : chunk_;
}

std::int64_t Stages::time_of(const Chunk& mine) const {
  const bool selective = x_.strategy.recompute == Recompute::kSelective;
  std::int64_t time = 0;
  for (std::size_t k = 0; k < mine.blocks.size(); ++k) {
    time += quanta_.pass[k] * mine.blocks[k] + quanta_.full[k] * mine.recomputed[k];
    if (selective) time += quanta_.selective[k] * (mine.blocks[k] - mine.recomputed[k]);
  }
  return time;
}

std::int64_t Stages::time_of(int stage, const StageAssignment& h, std::int64_t first,
                             std::int64_t second) const {
  const bool is_last = stage == (layout_.shares_both_ends() ? 0 : num_stages() - 1);
  if (time_until_.empty() || (is_last && x_.model.mtp_layers > 0)) {
    return time_of(fill(stage, h, first, second));
  }
  const bool selective = x_.strategy.recompute == Recompute::kSelective;
  const auto of_end = [&](std::size_t k) {
    return quanta_.pass[k] + (selective ? quanta_.selective[k] : 0);
  };
  const auto begin = static_cast<std::size_t>(begin_of(h));
  const std::size_t end = begin + static_cast<std::size_t>(h.first);
  const std::size_t kept = begin + static_cast<std::size_t>(first);
  std::int64_t time = time_until_[end] - time_until_[begin];
  time += recompute_until_[kept] - recompute_until_[begin];
  if (stage == 0) time += of_end(kEmbeddingBlock);
  if (is_last) time += of_end(head_block(x_.prefix.table.size()));
  return time;
}

RankMemory& Stages::stored(const Chunk& mine) const {
  constexpr std::size_t kMostBits = 64;
  std::uint64_t hash = 0, recomputed = 0;
  for (std::size_t k = 0; k < mine.blocks.size(); ++k) {
    hash = (hash + static_cast<std::uint64_t>(mine.blocks[k])) * 0x9e3779b97f4a7c15U;
    if (mine.recomputed[k] > 0) recomputed |= std::uint64_t{1} << (k % kMostBits);
  }
  Stored& known = stored_[(hash >> 32U) % stored_.size()];
  const bool told_apart = mine.blocks.size() <= kMostBits;
  if (!told_apart || known.device != mine.device || !(known.blocks == mine.blocks)) {
    known.device = mine.device, known.blocks = mine.blocks;
    set_stored(rates_, x_.blocks, mine, x_.strategy.recompute, known.memory);
  } else if (known.recomputed != recomputed) {
    known.memory.buffers = buffer_bytes(rates_, x_.blocks, mine, x_.strategy.recompute);
    known.memory.host_checkpoints = host_checkpoint_bytes(x_.blocks, mine);
  }
  known.recomputed = recomputed;
  return known.memory;
}

// `least_room`: with no room for what recomputed layers make again, nor for their inputs on the
// host.
Bytes Stages::rank_need(std::size_t rank, const Chunk& mine, bool least_room) const {
  const Strategy& s = x_.strategy;
  if (least_room) {
    plain_ = mine;
    plain_.recomputed.assign(mine.recomputed.size(), 0);
  }
  RankMemory& memory = stored(least_room ? plain_ : mine);
  Bytes needed;
  if (x_.states_only) {
    const StateBytes states = on_device(memory.states, s.offload);
    needed = states.weights + states.gradients + states.optimizer;
  } else {
    const InFlight& held = x_.in_flight[rank];
    memory.activations = held.peak(saved_, kept_);
    memory.given_back = given_back(s, x_.blocks, mine, held, saved_, kept_, memory.activations);
    set_offloaded(x_.blocks, mine, s, memory);
    needed = memory_breakdown(x_.cluster, memory, s, x_.communicators).peak;
  }
  const Bytes host = host_bytes(memory, s.offload);
  if (host > x_.host_capacity) needed = std::max(needed, x_.capacity + (host - x_.host_capacity));
  return needed;
}

Bytes Stages::need(int stage, const StageAssignment& share, std::int64_t first,
                   std::int64_t second) const {
  return need_of(stage, fill(stage, share, first, second));
}

Bytes Stages::need_of(int stage, const Chunk& mine) const {
  ++worked_out_;
  const auto rank = static_cast<std::size_t>(stage);
  const Bytes near = rank_need(rank, mine, false);
  if (!layout_.is_bidirectional()) return near;
  return std::max(near,
                  rank_need(static_cast<std::size_t>(x_.strategy.pp) - 1 - rank, mine, false));
}

// need() of which only that is asked, rank by rank.
bool Stages::fits(int stage, const StageAssignment& share, std::int64_t first, std::int64_t second,
                  bool least_room) const {
  ++worked_out_;
  const Chunk& mine = fill(stage, share, first, second);
  const auto rank = static_cast<std::size_t>(stage);
  if (rank_need(rank, mine, least_room) > x_.capacity) return false;
  if (!layout_.is_bidirectional()) return true;
  const std::size_t far = static_cast<std::size_t>(x_.strategy.pp) - 1 - rank;
  return rank_need(far, mine, least_room) <= x_.capacity;
}

const Stages::Value& Stages::value(int stage, const StageAssignment& holding) const {
  Value& known = values_.at(layout_.slot(stage, holding));
  if (known.time == kUnknown) known = compute(stage, holding);
  return known;
}

// The largest share that begins with the same layer and may keep the limit says the same of all
// others where it fits. Mostly it does.
bool Stages::holds(int stage, const StageAssignment& h) const {
  const bool all = x_.counts == CountRule::kAll;
  const auto asked = [&](int n) {
    const LayerCursor place = layout_.follow_each_other() ? h.place : LayerCursor{};
    return fits(stage, {place, n, 0}, all ? n : 0, 0);
  };
  if (!holds_) return fits(stage, h, all ? h.first : 0, 0);
  const int begin = begin_of(h);
  const auto known = [&] { return holds_->fits(stage, begin, begin + h.first); };
  if (known()) return *known();
  const std::int64_t room = limit_ - ends_[static_cast<std::size_t>(stage)] + until(begin);
  const auto past = std::upper_bound(least_until_.begin(), least_until_.end(), room);
  const int last = std::min(static_cast<int>(past - least_until_.begin()) - 1,
                            layout_.layers() - layout_.fewest_later(stage));
  for (const int end : {last, begin + h.first}) {
    if (end < begin + h.first || known()) continue;
    holds_->add(stage, begin, end, asked(end - begin));
  }
  return known().value_or(false);
}

Stages::Value Stages::compute(int stage, const StageAssignment& h) const {
  const std::int64_t most_first = h.first, most_second = h.second;
  std::int64_t first = 0, second = 0;
  if (x_.any_memory) {
    const auto least = static_cast<std::int32_t>(std::min(x_.uniform, most_first));
    if (least > 0) return {time_of(stage, h, least, 0), least, 0};
    return {base_time(stage, h, layout_.after(stage, h)), 0, 0};
  }
  switch (x_.counts) {
    case CountRule::kNone:
      if (!holds_ || measures_memory()) break;
      if (!holds(stage, h)) return {kTooMuch, 0, 0};
      return {time_of(stage, h, 0, 0), 0, 0};
    case CountRule::kFewest:
      return layout_.is_bidirectional() ? fewest_pair(stage, h) : fewest(stage, h);
    case CountRule::kUniform:
      first = std::min(x_.uniform, most_first), second = std::min(x_.uniform, most_second);
      break;
    case CountRule::kAll:
      first = most_first, second = most_second;
      if (!holds_ || measures_memory()) break;
      if (!holds(stage, h)) return {kTooMuch, 0, 0};
      return {time_of(stage, h, first, 0), h.first, 0};
    case CountRule::kGiven:
      first = (*x_.given)[static_cast<std::size_t>(stage)];
      if (layout_.is_bidirectional())
        second = (*x_.given)[static_cast<std::size_t>(x_.strategy.pp - 1 - stage)];
      if (first > most_first || second > most_second) return {kTooMuch, 0, 0};
      break;
  }
  const Chunk& mine = fill(stage, h, first, second);
  const Bytes needed = need_of(stage, mine);
  if (needed > x_.capacity) return {kTooMuch, 0, 0};
  const std::int64_t cost = measures_memory() ? needed.count() : time_of(mine);
  return {cost, static_cast<std::int32_t>(first), static_cast<std::int32_t>(second)};
}

// The fewest recomputed layers of the first rank with which the stage fits, or -1. One layer more
// frees memory, unless it is the first of its kind: then the backward pass needs room for it. So
// the numbers between the first layers of two kinds are halved, and the others looked at one by
// one.
std::int64_t Stages::fewest_first(int stage, const StageAssignment& share, std::int64_t second,
                                  std::int64_t limit) const {
  const auto does = [&](std::int64_t n) {
    if (n == 0 && second == 0 && holds_) return holds(stage, share);
    return fits(stage, share, n, second);
  };
  const std::int64_t most = std::min<std::int64_t>(limit, share.first);
  if (does(0)) return guess_ = 0;
  if (layout_.leading() == 0) {
    const std::int64_t fewest = fewest_of_kind(1, most, does);
    guess_ = fewest < 0 ? std::max<std::int64_t>(0, most) : fewest;
    return fewest;
  }
  layout_.ranges(stage, share, ranges_);
  seen_.assign(x_.prefix.table.size(), 0);
  firsts_.assign(x_.prefix.table.size(), 0);
  std::size_t kinds = 0;
  std::int64_t n = 0;
  for (const LayerRange& range : ranges_) {
    for (std::int64_t layer = range.begin; layer < range.end && n < most; ++layer) {
      ++n;
      if (seen_[x_.prefix.table.of_layer[static_cast<std::size_t>(layer)]]++ == 0) {
        firsts_[kinds++] = n;
      }
    }
  }
  firsts_[kinds] = most + 1;
  const std::int64_t least = kinds > 2 ? least_recomputed(stage, share, second, most) : 1;
  for (std::size_t i = 0; i < kinds; ++i) {
    const std::int64_t low = std::max(firsts_[i], least);
    const std::int64_t fewest = fewest_of_kind(low, firsts_[i + 1] - 1, does);
    if (fewest >= 0) return guess_ = fewest;
  }
  return -1;
}

// [F-SEARCH-20] No fewer than that many, or most + 1, fit: with the room that no recomputation
// needs, one layer more always frees memory, whatever its kind. So one search over all of them.
std::int64_t Stages::least_recomputed(int stage, const StageAssignment& share, std::int64_t second,
                                      std::int64_t most) const {
  const auto may = [&](std::int64_t n) { return fits(stage, share, n, second, true); };
  std::int64_t low = 1, high = most + 1;
  if (low < guess_ && guess_ <= most) {  // mostly that one is the answer again
    if (may(guess_)) {
      high = guess_;
      if (!may(high - 1)) return high;
    } else {
      low = guess_ + 1;
    }
  }
  if (high > most && (low > most || !may(most))) return most + 1;
  return smallest_that(may, low, std::min(high, most));
}

// The fewest of low .. high, or -1. Neighbouring shares mostly recompute as many as each other, or
// one more: what the last one did is tried first.
template <class Fits>
std::int64_t Stages::fewest_of_kind(std::int64_t low, std::int64_t high, const Fits& fits) const {
  if (low > high) return -1;
  const bool may_guess = low <= guess_ && guess_ < high;
  if (may_guess && fits(guess_)) {
    high = guess_;
    if (high > low && !fits(high - 1)) low = high;
  } else if (!fits(high)) {
    return -1;
  } else if (may_guess) {
    low = guess_ + 1;
    if (low < high && fits(low)) high = low;
  }
  return smallest_that(fits, low, high);
}

// Layers of the rank, or the two ranks together, that can be recomputed within the limit.
std::int64_t Stages::most_recomputed(int stage, const StageAssignment& share) const {
  const std::int64_t all = std::min<std::int64_t>(share.first, x_.most_recomputed) +
                           std::min<std::int64_t>(share.second, x_.most_recomputed);
  return std::min(all, most_in_time(stage, share));
}

std::int64_t Stages::most_in_time(int stage, const StageAssignment& share) const {
  const std::int64_t all = share.first + share.second;
  if (measures_memory() || least_full_ <= 0) return all;
  return std::clamp<std::int64_t>(
      (limit_ - base_time(stage, share, layout_.after(stage, share))) / least_full_, 0, all);
}

bool Stages::may_take(int stage, const StageAssignment& share) const {
  if (!layout_.allows(stage, share)) return false;
  const Value& known = values_.at(layout_.slot(stage, share));
  if (known.time != kUnknown || x_.counts != CountRule::kFewest) {
    const std::int64_t time = value(stage, share).time;
    return time >= 0 && time <= limit_;
  }
  if (base_time(stage, share, layout_.after(stage, share)) > limit_) return false;
  const std::int64_t most = most_recomputed(stage, share);
  if (fits(stage, share, most, 0)) return true;
  if (most == 0) return false;
  if (layout_.leading() == 0) return fits(stage, share, 0, 0);
  return value(stage, share).time >= 0;
}

void Stages::set_counts(std::int64_t uniform, std::int64_t most_recomputed) {
  if (!fewest_) fewest_.emplace(layout_.num_slots());
  x_.uniform = uniform, x_.most_recomputed = most_recomputed;
  values_.clear();
}

// The fewest that the stage must recompute, or -1; also more than are asked for.
std::int64_t Stages::fewest_known(int stage, const StageAssignment& h) const {
  if (!fewest_) return fewest_first(stage, h, 0, most_recomputed(stage, h));
  Value& known = fewest_->at(layout_.slot(stage, h));
  if (known.time == kUnknown) {
    const std::int64_t n = fewest_first(stage, h, 0, most_in_time(stage, h));
    known = {n < 0 ? kTooMuch : 0, static_cast<std::int32_t>(n), 0};
  }
  return known.recomputed_first;
}

Stages::Value Stages::fewest(int stage, const StageAssignment& h) const {
  std::int64_t n = fewest_known(stage, h);
  if (n < 0 || n > x_.most_recomputed) return {kTooMuch, 0, 0};
  n = std::max(n, std::min<std::int64_t>(x_.uniform, h.first));
  return {time_of(stage, h, n, 0), static_cast<std::int32_t>(n), 0};
}

// Of all pairs of numbers that fit, the least time, then the fewest of the first rank.
Stages::Value Stages::fewest_pair(int stage, const StageAssignment& h) const {
  if (is_too_much(stage, h)) return {kTooMuch, 0, 0};
  Value best{kTooMuch, 0, 0};
  std::int64_t most = most_recomputed(stage, h);  // of both ranks together, as far as is known
  // [F-SEARCH-20] Too few of the second rank never fit, whatever the first one recomputes.
  const std::int64_t most_first = std::min<std::int64_t>(h.first, most);
  const auto may = [&](std::int64_t n) { return fits(stage, h, most_first, n, true); };
  const std::int64_t most_second = std::min<std::int64_t>(h.second, most);
  if (!may(most_second)) return best;
  for (std::int64_t second = may(0) ? 0 : smallest_that(may, 1, most_second);
       second <= std::min(most_second, most); ++second) {
    const std::int64_t first = fewest_first(stage, h, second, most - second);
    if (first < 0) continue;
    const std::int64_t time = time_of(fill(stage, h, first, second));
    if (best.time < 0 || time < best.time || (time == best.time && first < best.recomputed_first)) {
      best = {time, static_cast<std::int32_t>(first), static_cast<std::int32_t>(second)};
      if (!measures_memory() && least_full_ > 0) {
        most = std::min(most, (time - base_time(stage, h, layout_.after(stage, h))) / least_full_);
      }
    }
    if (first == 0) break;
  }
  return best;
}

// Whether a share is known not to fit within the limit. A smaller one is known not to: it lacks the
// last layer of the first rank or the first one of the second, and what the larger one recomputes
// but for that layer would do for it, with less time and memory. Or it does not with as much
// recomputed on both ranks as there is time for, where all layers are of one kind: then one more
// recomputed always frees memory, but for the first. Multi-token prediction is recomputed only
// where its rank recomputes a layer.
bool Stages::is_too_much(int stage, const StageAssignment& h) const {
  if (stage == 0 && x_.model.mtp_layers > 0) return false;
  const auto is_known = [&](int first, int second) {
    if (first < 1 || second < 1 || !layout_.has_slot({h.place, first, second})) return false;
    return values_.at(layout_.slot(stage, {h.place, first, second})).time == kTooMuch;
  };
  if (is_known(h.first - 1, h.second) || is_known(h.first, h.second - 1)) return true;
  if (layout_.leading() > 0) return false;
  const std::int64_t most = most_recomputed(stage, h);
  const std::int64_t first = std::min<std::int64_t>(most, h.first);
  const std::int64_t second = std::min<std::int64_t>(most, h.second);
  return !fits(stage, h, first, second) && !fits(stage, h, 0, 0);
}

}  // namespace meshplan
