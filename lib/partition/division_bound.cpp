#include "partition/division_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/units.hpp"
#include "cost/chunks.hpp"
#include "partition/least_ends.hpp"

namespace meshplan {
namespace {

TaskTimes larger(const TaskTimes& a, const TaskTimes& b) {
  return {std::max(a.forward, b.forward), std::max(a.input, b.input), std::max(a.weight, b.weight)};
}

TaskTimes smaller(const TaskTimes& a, const TaskTimes& b) {
  return {std::min(a.forward, b.forward), std::min(a.input, b.input), std::min(a.weight, b.weight)};
}

// What layers that follow each other take less than so much each, at most.
TaskTimes most_below(const TaskTimes& each, const std::vector<TaskTimes>& layers) {
  TaskTimes most, now;
  for (const TaskTimes& layer : layers) {
    now = at_least_zero(now + each - layer);
    most = larger(most, now);
  }
  return most;
}

}  // namespace

TaskTimes least_times(std::size_t block, const BlockCosts& blocks, Recompute mode, bool layer) {
  Chunk one(blocks.size());
  one.blocks[block] = 1;
  const auto times = [&](Recompute recompute) {
    const ChunkTime t = chunk_cost(one, blocks, recompute).time;
    return TaskTimes{t.forward.si(), t.backward_input.si(), t.backward_weight.si()};
  };
  if (!layer) return times(Recompute::kNone);
  const TaskTimes kept = times(mode);  // with kFull, as nothing is marked, without any
  if (mode == Recompute::kNone) return kept;
  one.recomputed[block] = 1;
  return mode == Recompute::kFull ? times(mode) : smaller(kept, times(mode));
}

DivisionBound::DivisionBound(const ModelSpec& m, const Strategy& s, const BlockCosts& blocks,
                             const LayerPrefix& prefix, Recompute recompute, const SendTime& send)
    : traits_(traits_of(s.schedule)), layers_(m.num_layers) {
  p_.ranks = s.pp, p_.vp = s.vp;
  p_.microbatches = static_cast<double>(num_microbatches(s));
  p_.layout = traits_.layout;
  const BlockCounts& all = prefix.all();
  PerBlock<TaskTimes> kinds(all.size());
  TaskTimes layers;
  for (std::size_t k = 0; k < all.size(); ++k) {
    kinds[k] = least_times(k, blocks, recompute, prefix.table.is_layer(k));
    layers += kinds[k] * static_cast<double>(all[k]);
  }
  p_.embedding = kinds.embedding();
  p_.head = kinds.head();
  for (std::int64_t i = 0; i < m.mtp_layers; ++i) p_.head += kinds.mtp();
  p_.whole = layers + p_.embedding + p_.head;
  std::vector<TaskTimes> in_order;
  in_order.reserve(prefix.table.of_layer.size());
  for (const std::size_t k : prefix.table.of_layer) in_order.push_back(kinds[k]);
  p_.even = p_.vp > 1 && p_.layout != ChunkLayout::kBidirectional;
  p_.even ? add_chunks(in_order, prefix) : add_layers(in_order);
  add_messages(s, send);
}

void DivisionBound::add_layers(const std::vector<TaskTimes>& layers) {
  p_.first.resize(1);
  for (const TaskTimes& layer : layers) p_.first.push_back(p_.first.back() + layer);
  p_.rank = p_.first;
}

// Layers count as if each were one of the uniform tail, or the mean of all. Those of a chunk follow
// each other, so what they take less than that is limited. Leading layers of a uniform tail are in
// the first round alone, which has got an even share, rounded down, of what the ranks before took.
void DivisionBound::add_chunks(const std::vector<TaskTimes>& layers, const LayerPrefix& prefix) {
  until_.resize(1);
  for (const TaskTimes& layer : layers) until_.push_back(until_.back() + layer);
  const auto vp = static_cast<double>(p_.vp);
  const bool tail = prefix.has_uniform_tail();
  const double n = static_cast<double>(layers.size());
  const TaskTimes each = tail ? layers.back() : (p_.whole - p_.embedding - p_.head) * (1 / n);
  p_.first.resize(1), p_.rank.resize(1);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const TaskTimes of_first = tail ? smaller(layers[i / index(p_.vp)], each) : each;
    p_.first.push_back(p_.first.back() + of_first * (1 / vp));
    p_.rank.push_back(p_.rank.back() + each);
  }
  p_.each = each;
  p_.rounding = each * ((vp - 1) / vp);
  if (!tail) {
    p_.below = most_below(each, layers);
    p_.rounding += p_.below;
    p_.shortfall.assign(layers.size() + 1, p_.below * vp);
    return;
  }
  if (prefix.leading == 0) return;
  const auto leading = static_cast<std::size_t>(prefix.leading);
  std::vector<TaskTimes> left(layers.size() + 1);  // by the layers that the first round has given
  for (std::size_t i = leading; i-- > 0;) {
    left[i] = left[i + 1] + at_least_zero(each - layers[i]);
  }
  for (std::size_t i = 0; i <= layers.size(); ++i) p_.shortfall.push_back(left[i / index(p_.vp)]);
}

// A rank sends and receives forwards and backwards over every boundary of its chunks to others.
void DivisionBound::add_messages(const Strategy& s, const SendTime& send) {
  p_.transfer = send.transfer.si();
  p_.end_stall = (send.sender_busy + send.receiver_busy).si();
  p_.stall.assign(index(p_.ranks), 0.0);
  if (p_.end_stall == 0 || p_.layout == ChunkLayout::kBidirectional) return;
  const PipelineShape shape = pipeline_shape(s);
  for (std::int64_t c = 0; c + 1 < num_chunks(shape); ++c) {
    const std::int64_t here = rank_of_chunk(shape, c), next = rank_of_chunk(shape, c + 1);
    if (here == next) continue;
    p_.stall[index(here)] += p_.end_stall, p_.stall[index(next)] += p_.end_stall;
  }
}

double DivisionBound::least(double limit) const {
  double low = p_.microbatches * p_.whole.all() / static_cast<double>(p_.ranks);
  if (p_.layout == ChunkLayout::kBidirectional) return low;
  // Further above the limit than bisection is from the least: most are.
  constexpr double kFar = 1 + 1.0 / 1024;
  if (low > limit * kFar || !possible(limit * kFar)) {
    return std::numeric_limits<double>::infinity();
  }
  if (possible(low)) return low;
  const double precision = low / 2048;
  double high = std::min(2 * low, limit * kFar);
  while (high < limit * kFar && !possible(high)) {
    low = high, high = std::min(2 * high, limit * kFar);
  }
  while (high - low > precision) {
    const double middle = (low + high) / 2;
    (possible(middle) ? high : low) = middle;
  }
  return low;
}

bool DivisionBound::keeps(double limit, const DividedRank& rank, const LeastEnds* ends) const {
  const RankChains found = chains_of(rank);
  if (found.step > limit) return false;
  if (traits_.loop != nullptr && traits_.loop(rank) > limit) return false;
  if (ends == nullptr) return true;
  return found.until_last + ends->exposed(rank.r, rank.begin, rank.end, rank.own) <= limit;
}

bool DivisionBound::possible(double limit, std::int64_t rank, std::int64_t begin,
                             const LeastEnds* ends) const {
  for (std::int64_t r = rank; r < p_.ranks; ++r) {
    const bool end = r == 0 || r == p_.ranks - 1;
    const std::int64_t fewest = p_.even ? p_.vp - (end ? 1 : 0) : 1;
    const std::int64_t left = p_.ranks - r - 1;
    const std::int64_t later = left == 0 ? 0 : p_.even ? left * p_.vp - 1 : left;
    std::int64_t fits = begin, too_far = layers_ - later + 1;
    while (fits + 1 < too_far) {
      const std::int64_t middle = fits + (too_far - fits) / 2;
      (keeps(limit, DividedRank(p_, r, begin, middle), ends) ? fits : too_far) = middle;
    }
    if (fits - begin < fewest) return false;
    begin = fits;
  }
  return begin == layers_;
}

DivisionBound::RankChains DivisionBound::chains(std::int64_t r, std::int64_t begin,
                                                std::int64_t end) const {
  return chains_of(DividedRank(p_, r, begin, end));
}

DivisionBound::RankChains DivisionBound::chains(std::int64_t r, std::int64_t begin,
                                                std::int64_t end,
                                                const std::vector<LayerRange>& chunks,
                                                bool in_rounds) const {
  DividedRank rank(p_, r, begin, end);
  ChunksOfRank known;
  rank.own = p_.ends(r);
  for (const LayerRange& layers : chunks) {
    known.own.push_back(times_of(layers.begin, layers.end));
    rank.own += known.own.back();
  }
  rank.work = p_.microbatches * rank.own.all();
  rank.before = times_of(0, chunks.front().begin);
  if (r > 0) rank.before += p_.embedding;
  if (in_rounds) {
    known.behind = times_of(chunks.back().end, layers_);
    rank.chunks = &known;
  }
  return chains_of(rank);
}

DivisionBound::RankChains DivisionBound::chains(const StageLayout& layout, int stage,
                                                const StageAssignment& share,
                                                std::vector<LayerRange>& chunks) const {
  const std::int64_t from = share.place.taken, to = from + share.first;
  if (!knows_chunks()) return chains(stage, from, to);
  layout.ranges(stage, share, chunks);
  return chains(stage, from, to, chunks, layout.rounds() != nullptr);
}

// Where they come back to the first rank, they do so behind the rank's last task.
DivisionBound::RankChains DivisionBound::chains_of(const DividedRank& rank) const {
  RankChains found;
  found.own = rank.own;
  found.step = traits_.chain == nullptr ? rank.entered() : traits_.chain(rank);
  found.until_last = traits_.until_last == nullptr ? rank.entered() : traits_.until_last(rank);
  if (comes_back() && traits_.chain != nullptr) {
    const double back = rank.before.input + rank.before.weight + p_.hops(rank.r);
    found.until_last = std::max(found.until_last, found.step - back);
  }
  return found;
}

double DivisionBound::loop(std::int64_t r, std::int64_t begin, std::int64_t end) const {
  return traits_.loop == nullptr ? 0 : traits_.loop(DividedRank(p_, r, begin, end));
}

double division_bound(const ModelSpec& m, const Strategy& s, const BlockCosts& blocks,
                      const LayerPrefix& prefix, double limit) {
  return DivisionBound(m, s, blocks, prefix).least(limit);
}

}  // namespace meshplan
