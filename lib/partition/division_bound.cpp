#include "partition/division_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace meshplan {
namespace {

// The backward pass waits for the layer to be recomputed, selectively or as a whole.
TaskTimes times_of(const BlockCost& b, Recompute recompute) {
  const Seconds full = b.recompute_full.total();
  const Seconds more = recompute == Recompute::kFull ? full
                       : recompute == Recompute::kSelective
                           ? std::min(b.recompute_selective.total(), full)
                           : Seconds{};
  return {b.forward.total().si(), (b.backward_input.total() + more).si(),
          b.backward_weight.total().si()};
}

// Of decoder layers.
TaskTimes fastest(const PerBlock<TaskTimes>& kinds) {
  TaskTimes least{1e300, 1e300, 1e300};
  for (std::size_t k = kFirstLayerBlock; k < mtp_block(kinds.size()); ++k) {
    least.forward = std::min(least.forward, kinds[k].forward);
    least.input = std::min(least.input, kinds[k].input);
    least.weight = std::min(least.weight, kinds[k].weight);
  }
  return least;
}

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace

DivisionBound::DivisionBound(const ModelSpec& m, const Strategy& s, const BlockCosts& blocks,
                             const LayerPrefix& prefix, Recompute recompute, const SendTime& send)
    : traits_(traits_of(s.schedule)), units_(m.num_layers / s.vp) {
  p_.ranks = s.pp, p_.vp = s.vp;
  p_.microbatches = static_cast<double>(num_microbatches(s));
  p_.layout = traits_.layout;
  const BlockCounts& all = prefix.all();
  PerBlock<TaskTimes> kinds(all.size());
  TaskTimes layers;
  for (std::size_t k = 0; k < all.size(); ++k) {
    kinds[k] = times_of(blocks[k], prefix.table.is_layer(k) ? recompute : Recompute::kNone);
    layers += kinds[k] * static_cast<double>(all[k]);
  }
  p_.embedding = kinds.embedding();
  p_.head = kinds.head();
  for (std::int64_t i = 0; i < m.mtp_layers; ++i) p_.head += kinds.mtp();
  p_.whole = layers + p_.embedding + p_.head;
  add_units(m, prefix, kinds);
  add_messages(s, send);
}

void DivisionBound::add_units(const ModelSpec& m, const LayerPrefix& prefix,
                              const PerBlock<TaskTimes>& kinds) {
  const auto vp = static_cast<double>(p_.vp);
  spread_ = p_.vp > 1 && p_.layout != ChunkLayout::kBidirectional && prefix.has_free_chunks();
  const auto layer = [&](std::int64_t i) { return kinds[prefix.table.of_layer[index(i)]]; };
  p_.alike = prefix.table.layers.size() == 1;
  // Spread layers are counted as if each were the fastest kind.
  if (spread_) units_ = m.num_layers;
  const TaskTimes least = spread_ ? fastest(kinds) : TaskTimes{};
  p_.first.resize(1), p_.rank.resize(1);
  for (std::int64_t u = 0; u < units_; ++u) {
    p_.first.push_back(p_.first.back() + (spread_ ? least * (1.0 / vp) : layer(u)));
    TaskTimes unit = spread_ ? least : layer(u);
    for (std::int64_t c = 1; c < p_.vp && !spread_; ++c) {
      unit += layer(p_.layout == ChunkLayout::kV ? m.num_layers - 1 - u : c * units_ + u);
    }
    p_.rank.push_back(p_.rank.back() + unit);
  }
  p_.rounding = spread_ ? least * ((vp - 1) / vp) : TaskTimes{};
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
  double high = 2 * low;
  while (!possible(high)) low = high, high *= 2;
  for (const double precision = low / 2048; high - low > precision;) {
    const double middle = (low + high) / 2;
    (possible(middle) ? high : low) = middle;
  }
  return low;
}

bool DivisionBound::possible(double limit, std::int64_t rank, std::int64_t begin) const {
  for (std::int64_t r = rank; r < p_.ranks; ++r) {
    const bool end = r == 0 || r == p_.ranks - 1;
    const std::int64_t fewest = spread_ ? p_.vp - (end ? 1 : 0) : 1;
    const std::int64_t left = p_.ranks - r - 1;
    const std::int64_t later = left == 0 ? 0 : spread_ ? left * p_.vp - 1 : left;
    std::int64_t fits = begin, too_far = units_ - later + 1;
    while (fits + 1 < too_far) {
      const std::int64_t middle = fits + (too_far - fits) / 2;
      (chain(r, begin, middle) <= limit ? fits : too_far) = middle;
    }
    if (fits - begin < fewest) return false;
    begin = fits;
  }
  return begin == units_;
}

double DivisionBound::chain(std::int64_t r, std::int64_t begin, std::int64_t end) const {
  const DividedRank rank(p_, r, begin, end);
  return traits_.chain == nullptr ? rank.entered() : traits_.chain(rank);
}

double division_bound(const ModelSpec& m, const Strategy& s, const BlockCosts& blocks,
                      const LayerPrefix& prefix, double limit) {
  return DivisionBound(m, s, blocks, prefix).least(limit);
}

}  // namespace meshplan
