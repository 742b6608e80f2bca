#include "partition/layer_reductions.hpp"

#include "base/units.hpp"
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

}  // namespace

LayerReductions layer_reductions(const ModelSpec& m, const ClusterSpec& c, const Strategy& s,
                                 const BlockCosts& blocks, const LayerPrefix& prefix,
                                 const Placement& placement, LeastEndsMemo& memo) {
  LayerReductions reductions;
  if (s.zero == 3 || traits_of(s.schedule).copies() > 1 || !c.exact_collectives.empty()) {
    return reductions;
  }
  BlockParameters layers;
  for (std::size_t k = kFirstLayerBlock; k < mtp_block(blocks.size()); ++k) {
    const std::int64_t n = prefix.all()[k];
    if (n == 0) continue;
    layers.dense += n * blocks[k].parameters.dense;
    layers.experts += n * blocks[k].parameters.experts;
  }
  const auto number = static_cast<std::int64_t>(placement.number());
  const RankEnd& whole = memo.layers.get({number}, [&] { return placement.end_of(m, c, layers); });
  reductions.gradients = shares(whole.gradients, layers, blocks, prefix);
  // What an update hides ([F-DP-8]) is not told here.
  const bool early = s.overlap.param_gather_with_optimizer_step && s.overlap.param_gather;
  if (!early) reductions.weights = shares(whole.weights, layers, blocks, prefix);
  const double o = c.device.overlap_slowdown;
  const double beside = o <= 2 ? (2 - o) * microbatches_beside(s) : 0;  // else hiding takes more
  reductions.gradients.hides = reduces_beside(s) ? beside : 0;
  reductions.weights.hides = gathers_beside(s) ? beside : 0;
  return reductions;
}

}  // namespace meshplan
