#include "search/division_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace meshplan {
namespace {

using Times = DivisionBound::Times;

// The backward pass waits for the layer to be recomputed, selectively or as a whole.
Times times_of(const BlockCost& b, Recompute again) {
  const Seconds full = b.recompute_full.total();
  const Seconds more = again == Recompute::kFull ? full
                       : again == Recompute::kSelective
                           ? std::min(b.recompute_selective.total(), full)
                           : Seconds{};
  return {b.forward.total().si(), (b.backward_input.total() + more).si(),
          b.backward_weight.total().si()};
}

// Of decoder layers.
Times fastest(const PerBlock<Times>& kinds) {
  Times least{1e300, 1e300, 1e300};
  for (std::size_t k = kFirstLayerBlock; k < mtp_block(kinds.size()); ++k) {
    least.forward = std::min(least.forward, kinds[k].forward);
    least.input = std::min(least.input, kinds[k].input);
    least.weight = std::min(least.weight, kinds[k].weight);
  }
  return least;
}

Times at_least_zero(const Times& t) {
  return {std::max(0.0, t.forward), std::max(0.0, t.input), std::max(0.0, t.weight)};
}

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace

DivisionBound::DivisionBound(const ModelSpec& m, const Strategy& s, const BlockCosts& blocks,
                             const LayerPrefix& prefix, Recompute again, const SendTime& send)
    : schedule_(s.schedule),
      layout_(traits_of(s.schedule).layout),
      ranks_(s.pp),
      vp_(s.vp),
      microbatches_(static_cast<double>(num_microbatches(s))),
      units_(m.num_layers / s.vp) {
  const BlockCounts& all = prefix.all();
  PerBlock<Times> kinds(all.size());
  Times layers;
  for (std::size_t k = 0; k < all.size(); ++k) {
    kinds[k] = times_of(blocks[k], prefix.table.is_layer(k) ? again : Recompute::kNone);
    layers += kinds[k] * static_cast<double>(all[k]);
  }
  embedding_ = kinds.embedding();
  head_ = kinds.head();
  for (std::int64_t i = 0; i < m.mtp_layers; ++i) head_ += kinds.mtp();
  whole_ = layers + embedding_ + head_;
  add_units(m, prefix, kinds);
  add_messages(s, send);
}

void DivisionBound::add_units(const ModelSpec& m, const LayerPrefix& prefix,
                              const PerBlock<Times>& kinds) {
  spread_ = vp_ > 1 && layout_ != ChunkLayout::kMirrored && prefix.has_free_chunks();
  const auto layer = [&](std::int64_t i) { return kinds[prefix.table.of_layer[index(i)]]; };
  alike_ = prefix.table.layers.size() == 1;
  // Spread layers are counted as if each were the fastest kind.
  if (spread_) units_ = m.num_layers;
  const Times least = spread_ ? fastest(kinds) : Times{};
  first_.resize(1), rank_.resize(1);
  for (std::int64_t u = 0; u < units_; ++u) {
    first_.push_back(first_.back() + (spread_ ? least * (1.0 / vp()) : layer(u)));
    Times unit = spread_ ? least : layer(u);
    for (std::int64_t c = 1; c < vp_ && !spread_; ++c) {
      unit += layer(layout_ == ChunkLayout::kV ? m.num_layers - 1 - u : c * units_ + u);
    }
    rank_.push_back(rank_.back() + unit);
  }
  rounding_ = spread_ ? least * ((vp() - 1) / vp()) : Times{};
}

// A rank sends and receives forwards and backwards over every boundary of its chunks to others.
void DivisionBound::add_messages(const Strategy& s, const SendTime& send) {
  transfer_ = send.transfer.si();
  end_stall_ = (send.sender_busy + send.receiver_busy).si();
  stall_.assign(index(ranks_), 0.0);
  if (end_stall_ == 0 || layout_ == ChunkLayout::kMirrored) return;
  const PipelineShape shape = pipeline_shape(s);
  for (std::int64_t c = 0; c + 1 < num_chunks(shape); ++c) {
    const std::int64_t here = rank_of_chunk(shape, c), next = rank_of_chunk(shape, c + 1);
    if (here == next) continue;
    stall_[index(here)] += end_stall_, stall_[index(next)] += end_stall_;
  }
}

double DivisionBound::stalls(std::int64_t r, double microbatches) const {
  if (end_stall_ == 0) return 0;
  return std::max(0.0, microbatches * stall_[index(r)] - end_stall_);
}

double DivisionBound::least(double limit) const {
  double low = microbatches_ * whole_.all() / static_cast<double>(ranks_);
  if (layout_ == ChunkLayout::kMirrored) return low;
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

double DivisionBound::carried() const {
  switch (schedule_) {
    case Schedule::kGpipe:
    case Schedule::k1f1b:
      return 1;
    case Schedule::kInterleaved:  // they pass the first chunk of a rank alone
    case Schedule::kZbH1:
    case Schedule::kZbV:
    case Schedule::kDualPipe:
      return 0;
  }
  return 0;
}

bool DivisionBound::possible(double limit, std::int64_t rank, std::int64_t begin) const {
  for (std::int64_t r = rank; r < ranks_; ++r) {
    const bool end = r == 0 || r == ranks_ - 1;
    const std::int64_t fewest = spread_ ? vp_ - (end ? 1 : 0) : 1;
    const std::int64_t left = ranks_ - r - 1;
    const std::int64_t later = left == 0 ? 0 : spread_ ? left * vp_ - 1 : left;
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

// Embedding and head, where rank r holds them.
Times DivisionBound::ends(std::int64_t r) const {
  Times t;
  if (r == 0) t += embedding_;
  if (r == (layout_ == ChunkLayout::kV ? 0 : ranks_ - 1)) t += head_;
  return t;
}

double DivisionBound::chain(std::int64_t r, std::int64_t begin, std::int64_t end) const {
  const Times own = rank_[index(end)] - rank_[index(begin)] + ends(r);
  const double m = microbatches_, work = m * own.all();
  Times before = first_[index(begin)] + (r > 0 ? embedding_ : Times{});
  // First chunks hold an even share of their rank's layers at least, the first rank's less than
  // one layer less: there the embedding counts as a burden.
  if (r > 0) before = at_least_zero(before - rounding_);
  const double ahead = std::min(m, static_cast<double>(ranks_ - r));  // forwards before a backward
  const std::int64_t last = ranks_ - 1;
  const double alone = work + stalls(r, m), later = stalls(r, m - ahead - 1);
  switch (schedule_) {
    case Schedule::kGpipe:
      return whole_.all() + work - own.all() + hops(2 * last) + stalls(r, m - 1);
    case Schedule::k1f1b:
      return std::max(before.all() + alone + hops(2 * r), whole_.all() + work - own.input -
                                                              own.weight - ahead * own.forward +
                                                              later + hops(2 * last));
    case Schedule::kInterleaved:
      return std::max(before.all() + alone + hops(2 * r), interleaved(r, begin, end, work));
    case Schedule::kZbH1: {
      const Times until = rank_[index(end)] + embedding_;
      const double behind = r == last ? 0 : whole_.input - until.input;  // input gradients
      return std::max(
          before.forward + alone + hops(r),
          whole_.forward + behind + work - ahead * own.forward + later + hops(2 * last - r));
    }
    case Schedule::kZbV:
      return before.forward + alone + hops(r);
    case Schedule::kDualPipe:
      return before.forward + work;
  }
  return work;
}

// Through the last chunks of the ranks behind, and the first chunks of those before. Chunks of
// spread layers hold an even share, up to less than a layer.
double DivisionBound::interleaved(std::int64_t r, std::int64_t begin, std::int64_t end,
                                  double work) const {
  if (!alike_) return 0;  // the chunks of a rank differ
  const double p = static_cast<double>(ranks_), v = vp();
  const double behind_ranks = p - static_cast<double>(r) - 1;
  const double ahead = std::min(microbatches_ * v, 2 * behind_ranks + (v - 1) * p + 1);
  const Times share = first_[index(end)] - first_[index(begin)];
  const Times behind = at_least_zero(first_.back() - first_[index(end)] - rounding_ * behind_ranks);
  Times before = first_[index(begin)];
  if (r > 0) before = at_least_zero(before - rounding_) + embedding_;
  double backward = behind.input + behind.weight + before.input + before.weight;
  if (r < ranks_ - 1) backward += head_.input + head_.weight;
  // p forwards of each chunk, less those of the last chunks or plus those of the first.
  double forward = p * v * share.forward;
  if (ahead < p * v) {
    forward -= (p * v - ahead) * std::max(0.0, share.forward - rounding_.forward);
  } else {
    forward += (ahead - p * v) * (share.forward + rounding_.forward);
  }
  if (r == 0) forward += std::min(microbatches_, ahead) * embedding_.forward;
  if (r == ranks_ - 1) forward += std::max(0.0, ahead - (v - 1) * p) * head_.forward;
  const double later = stalls(r, microbatches_ - std::ceil(ahead / v) - 1);
  return whole_.forward + backward + work - forward + later + hops(ranks_ * vp_ + ranks_ - 2);
}

double division_bound(const ModelSpec& m, const Strategy& s, const BlockCosts& blocks,
                      const LayerPrefix& prefix, double limit) {
  return DivisionBound(m, s, blocks, prefix).least(limit);
}

}  // namespace meshplan
