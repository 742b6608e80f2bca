#include "partition/least_ends.hpp"

#include <algorithm>
#include <functional>

#include "base/units.hpp"
#include "cost/memory.hpp"
#include "partition/division_bound.hpp"
#include "schedule/traits.hpp"

namespace meshplan {
namespace {

constexpr double kAnyTime = 1e30;  // seconds: hides whatever can be hidden

// Sums of the first 0, 1, ... in order.
template <class T, class Order>
std::vector<T> sums(std::vector<T> each, const Order& order, std::size_t most) {
  std::sort(each.begin(), each.end(), order);
  std::vector<T> all(1);
  for (const T& value : each) {
    if (all.size() > most) break;
    all.push_back(all.back() + value);
  }
  return all;
}

}  // namespace

LeastEnds::LeastEnds(const ModelSpec& m, const ClusterSpec& c, const Strategy& s,
                     const BlockCosts& blocks, const LayerPrefix& prefix,
                     const Placement& placement, LeastEndsMemo& memo, Recompute recompute,
                     double most)
    : model_(m),
      cluster_(c),
      strategy_(s),
      blocks_(blocks),
      prefix_(prefix),
      placement_(placement),
      memo_(memo),
      beside_(microbatches_beside(s)),
      hides_gradients_(static_cast<double>(num_microbatches(s)) - 1 >= beside_) {
  // Of a rank that holds two copies nothing is said; and what was measured of one collective says
  // nothing of a larger one.
  if (s.zero == 3 || traits_of(s.schedule).copies() > 1 || !c.exact_collectives.empty()) return;
  set_layers(recompute, most);
  const RankEnd& largest = largest_end();
  any_ = largest.gradients.count + largest.weights.count > 0;
  if (!any_) return;
  const LayerReductions layers = layer_reductions(m, c, s, blocks, prefix, placement, memo);
  gradients_ = in_order(layers.gradients), weights_ = in_order(layers.weights);
  const bool v = traits_of(s.schedule).layout == ChunkLayout::kV;
  first_ = by_layers(true, v || s.pp == 1);
  if (s.pp > 1) last_ = by_layers(false, !v);
  if (s.pp > 2) inner_ = by_layers(false, false);
}

// Chunks hold even shares of their rank's layers, whichever these are: such a chunk has no less
// than so many mean layers less `below`.
LeastEnds::InOrder LeastEnds::in_order(const LayerReductions::Kind& kind) const {
  InOrder found;
  if (kind.seconds.size() == 0) return found;
  found.hides = kind.hides;
  const std::vector<std::size_t>& kinds = prefix_.table.of_layer;
  const double mean = kind.whole / static_cast<double>(kinds.size());
  found.until.resize(1);
  for (const std::size_t k : kinds) found.until.push_back(found.until.back() + kind.seconds[k]);
  if (strategy_.vp == 1) return found;
  found.until_mean.resize(1);
  double below = 0, now = 0;
  for (const std::size_t k : kinds) {
    now = std::max(0.0, now + mean - kind.seconds[k]), below = std::max(below, now);
    found.until_mean.push_back(found.until_mean.back() + mean);
  }
  found.below = below * static_cast<double>(strategy_.vp);
  return found;
}

// `pass`: seconds of one microbatch on the rank.
double LeastEnds::InOrder::exposed(std::size_t begin, std::size_t end, double pass) const {
  const std::vector<double>& sums = until_mean.empty() ? until : until_mean;
  if (sums.empty()) return 0;
  return std::max(0.0, sums[end] - sums[begin] - below - hides * pass);
}

double LeastEnds::InOrder::exposed(const std::vector<LayerRange>& chunks, double pass) const {
  if (until.empty()) return 0;
  double reduced = 0;
  for (const LayerRange& layers : chunks) {
    reduced += until[index(layers.end)] - until[index(layers.begin)];
  }
  return std::max(0.0, reduced - hides * pass);
}

// Of a rank with all layers.
const RankEnd& LeastEnds::largest_end() const {
  return memo_.largest.get({static_cast<std::int64_t>(placement_.number())}, [&] {
    Chunk whole(blocks_.size());
    whole.blocks = prefix_.with_ends(model_);
    const MemoryRates rates = memory_rates(model_, cluster_, strategy_);
    return placement_.end_of(model_, cluster_, held_parameters(rates, blocks_, whole));
  });
}

// As many as one rank has time for: all microbatches pass them.
void LeastEnds::set_layers(Recompute recompute, double most) {
  std::vector<double> forward, all;
  std::vector<std::int64_t> dense, experts;
  for (std::size_t k = kFirstLayerBlock; k < mtp_block(blocks_.size()); ++k) {
    const auto number = static_cast<std::size_t>(prefix_.all()[k]);
    if (number == 0) continue;
    const TaskTimes times = least_times(k, blocks_, recompute, true);
    forward.insert(forward.end(), number, times.forward);
    all.insert(all.end(), number, times.all());
    dense.insert(dense.end(), number, blocks_[k].parameters.dense);
    experts.insert(experts.end(), number, blocks_[k].parameters.experts);
  }
  const auto fewest = static_cast<std::int64_t>(all.size()) - strategy_.pp + 1;
  const std::vector<double> work = sums(
      std::move(all), std::less<>(), static_cast<std::size_t>(std::max<std::int64_t>(1, fewest)));
  const double each = most / static_cast<double>(num_microbatches(strategy_));
  const auto too_many = std::upper_bound(work.begin(), work.end(), each) - work.begin();
  const auto n = static_cast<std::size_t>(std::max<std::ptrdiff_t>(2, too_many) - 1);
  forward_ = sums(std::move(forward), std::greater<>(), n);
  dense_ = sums(std::move(dense), std::less<>(), n);
  experts_ = sums(std::move(experts), std::less<>(), n);
}

BlockParameters LeastEnds::parameters(bool embedding, bool head, std::size_t layers) const {
  Chunk ends(blocks_.size());
  ends.blocks.embedding() = embedding ? 1 : 0;
  ends.blocks.head() = head ? 1 : 0;
  BlockParameters p = held_parameters(memory_rates(model_, cluster_, strategy_), blocks_, ends);
  p.dense += dense_[layers], p.experts += experts_[layers];
  return p;
}

const LeastRankEnd& LeastEnds::end_of(bool embedding, bool head, std::size_t layers) const {
  const auto number = static_cast<std::int64_t>(placement_.number());
  const std::int64_t ends = (embedding ? 1 : 0) + (head ? 2 : 0);
  return memo_.least.get({number, ends, static_cast<std::int64_t>(layers)}, [&] {
    const BlockParameters p = parameters(embedding, head, layers);
    return least_rank_end(strategy_, placement_.end_of(model_, cluster_, p), largest_end());
  });
}

LeastEnds::ByLayers LeastEnds::by_layers(bool embedding, bool head) const {
  double ends = 0;
  if (embedding) ends += least_times(kEmbeddingBlock, blocks_, Recompute::kNone, false).forward;
  if (head) {
    const auto mtp = static_cast<double>(model_.mtp_layers);
    const std::size_t n = blocks_.size();
    ends += least_times(head_block(n), blocks_, Recompute::kNone, false).forward;
    if (mtp > 0) ends += mtp * least_times(mtp_block(n), blocks_, Recompute::kNone, false).forward;
  }
  ByLayers all;
  all.gradients.resize(dense_.size());
  all.gathers.resize(dense_.size());
  double least = kAnyTime;
  for (std::size_t n = dense_.size(); n-- > 0;) {
    const LeastRankEnd& end = end_of(embedding, head, n);
    all.gradients[n] = end.gradients;
    const Seconds window{(ends + forward_[n]) * beside_};
    const double seen = least_exposed(cluster_, end.weights, window).si();
    const bool alike = strategy_.vp > 1;  // else what the layers gather depends on which they are
    const double of_layers = alike ? weights_.exposed(0, n, ends + forward_[n]) : 0;
    least = std::min(least, std::max(seen, of_layers));
    all.gathers[n] = least;
  }
  return all;
}

LeastEnds::Least LeastEnds::least(std::int64_t rank, std::size_t layers, double backward) const {
  const ByLayers& all = rank == 0 ? first_ : rank == strategy_.pp - 1 ? last_ : inner_;
  const std::size_t n = std::min(layers, all.gathers.size() - 1);
  const double hidden = hides_gradients_ ? backward * beside_ : kAnyTime;
  return {least_exposed(cluster_, all.gradients[n], Seconds{hidden}).si(), all.gathers[n]};
}

double LeastEnds::exposed(std::int64_t rank, std::size_t begin, std::size_t end,
                          const TaskTimes& own) const {
  const double backward = own.input + own.weight;
  const Least any = least(rank, end - begin, backward);
  const double gradients = hides_gradients_ ? gradients_.exposed(begin, end, backward) : 0;
  // A slower forward pass hides more, but each microbatch takes as much longer.
  const double gathers = strategy_.vp == 1 ? weights_.exposed(begin, end, own.forward) : 0;
  return std::max(any.gradients, gradients) + std::max(any.gathers, gathers);
}

double LeastEnds::exposed(std::int64_t rank, const std::vector<LayerRange>& chunks,
                          const TaskTimes& own) const {
  std::int64_t layers = 0;
  for (const LayerRange& chunk : chunks) layers += chunk.end - chunk.begin;
  const double backward = own.input + own.weight;
  const Least any = least(rank, index(layers), backward);
  const double gradients = hides_gradients_ ? gradients_.exposed(chunks, backward) : 0;
  const double gathers = weights_.exposed(chunks, own.forward);
  return std::max(any.gradients, gradients) + std::max(any.gathers, gathers);
}

}  // namespace meshplan
