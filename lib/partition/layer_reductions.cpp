#include "partition/layer_reductions.hpp"

#include <algorithm>

#include "base/units.hpp"
#include "cost/data_parallel.hpp"
#include "cost/memory.hpp"
#include "partition/least_ends.hpp"
#include "schedule/traits.hpp"

namespace meshplan {
namespace {

// Shares of the reductions of `layers`, all of them on one rank.
LayerReductions::Kind shares(const Reductions& all, const BlockParameters& layers,
                             const BlockCosts& blocks, const LayerPrefix& prefix) {
  LayerReductions::Kind kind;
  double dense = 0, experts = 0;  // seconds per parameter
  for (std::size_t i = 0; i < all.count; ++i) {
    const Reduction& r = all.all[i];
    const double whole = (r.each * r.times).si();
    kind.whole += whole;
    if (r.group == Group::kExpertDp) {
      experts += whole / real(layers.experts);
    } else {
      dense += whole / real(layers.dense);
    }
  }
  kind.seconds.assign(blocks.size());
  for (std::size_t k = kFirstLayerBlock; k < mtp_block(blocks.size()); ++k) {
    if (prefix.all()[k] == 0) continue;
    const BlockParameters& p = blocks[k].parameters;
    kind.seconds[k] = dense * real(p.dense) + experts * real(p.experts);
  }
  return kind;
}

// Whether something is known of them.
bool is_told(const ClusterSpec& c, const Strategy& s) {
  return s.zero < 3 && traits_of(s.schedule).copies() == 1 && c.exact_collectives.empty();
}

// Whether gathers of weights count. What an update hides ([F-DP-8]) is not told here.
bool tells_weights(const Strategy& s) {
  return !(s.overlap.param_gather_with_optimizer_step && s.overlap.param_gather);
}

BlockParameters parameters_of_layers(const BlockCosts& blocks, const LayerPrefix& prefix) {
  BlockParameters layers;
  for (std::size_t k = kFirstLayerBlock; k < mtp_block(blocks.size()); ++k) {
    const std::int64_t n = prefix.all()[k];
    if (n == 0) continue;
    layers.dense += n * blocks[k].parameters.dense;
    layers.experts += n * blocks[k].parameters.experts;
  }
  return layers;
}

// The same with embedding, head and all: no rank has more parameters.
BlockParameters parameters_of_model(const ModelSpec& m, const ClusterSpec& c, const Strategy& s,
                                    const BlockCosts& blocks, const LayerPrefix& prefix) {
  Chunk whole(blocks.size());
  whole.blocks = prefix.with_ends(m);
  return held_parameters(memory_rates(m, c, s), blocks, whole);
}

// Adds what is certainly seen of reductions of `layers`; `most`: those of the whole model, whose
// last bucket takes least per byte.
void add_late(const ClusterSpec& c, const Strategy& s, const Reductions& layers,
              const Reductions& most, Seconds (*never_hidden)(const Strategy&, const Reduction&),
              WholeReductions& to) {
  const double share = hidden_share(c);
  for (std::size_t i = 0; i < layers.count; ++i) {
    const Reduction& r = layers.all[i];
    const double whole = (r.each * r.times).si();
    LateReductions& late = r.group == Group::kExpertDp ? to.experts : to.dense;
    double last = 0;
    for (std::size_t k = 0; k < most.count; ++k) {
      const Reduction& m = most.all[k];
      if (m.op == r.op && m.group == r.group) last = never_hidden(s, m).si();
    }
    if (last >= whole) {  // of no rank anything is hidden
      late.always += whole;
      continue;
    }
    late.always += (1 - share) * whole, late.late += share * whole;
    late.bucket = std::min(late.bucket, last / whole);
  }
}

double seconds_of(const Reductions& all) {
  double seconds = 0;
  for (std::size_t i = 0; i < all.count; ++i) seconds += (all.all[i].each * all.all[i].times).si();
  return seconds;
}

}  // namespace

double hidden_share(const ClusterSpec& c) {
  return std::max(0.0, 2 - c.device.overlap_slowdown);  // beyond that hiding takes more
}

WholeReductions whole_reductions(const ModelSpec& m, const ClusterSpec& c, const Strategy& s,
                                 const BlockCosts& blocks, const LayerPrefix& prefix,
                                 const StepEndGroups& groups) {
  if (!is_told(c, s)) return {};
  const BlockParameters layers = parameters_of_layers(blocks, prefix);
  const RankEnd whole = rank_end(m, c, s, groups, layers);
  WholeReductions all;
  all.gradients = seconds_of(whole.gradients);
  if (tells_weights(s)) all.weights = seconds_of(whole.weights);
  if (all.gradients + all.weights == 0) return all;
  const RankEnd most = rank_end(m, c, s, groups, parameters_of_model(m, c, s, blocks, prefix));
  all.dense.parameters = real(layers.dense), all.experts.parameters = real(layers.experts);
  add_late(c, s, whole.gradients, most.gradients, never_hidden_gradients, all);
  if (tells_weights(s)) add_late(c, s, whole.weights, most.weights, never_hidden_weights, all);
  return all;
}

LayerReductions layer_reductions(const ModelSpec& m, const ClusterSpec& c, const Strategy& s,
                                 const BlockCosts& blocks, const LayerPrefix& prefix,
                                 const Placement& placement, LeastEndsMemo& memo) {
  LayerReductions reductions;
  if (!is_told(c, s)) return reductions;
  const BlockParameters layers = parameters_of_layers(blocks, prefix);
  const auto number = static_cast<std::int64_t>(placement.number());
  const RankEnd& whole = memo.layers.get({number}, [&] { return placement.end_of(m, c, layers); });
  reductions.gradients = shares(whole.gradients, layers, blocks, prefix);
  if (tells_weights(s)) reductions.weights = shares(whole.weights, layers, blocks, prefix);
  const double beside = hidden_share(c) * microbatches_beside(s);
  reductions.gradients.hides = reduces_beside(s) ? beside : 0;
  reductions.weights.hides = gathers_beside(s) ? beside : 0;
  return reductions;
}

}  // namespace meshplan
