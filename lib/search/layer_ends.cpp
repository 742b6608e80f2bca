#include "search/layer_ends.hpp"

#include "base/units.hpp"
#include "partition/layer_reductions.hpp"

namespace meshplan {

LayerEnds layer_ends(SearchContext& x, const Strategy& s, const BlockCosts& blocks,
                     const Placement& placement) {
  LayerEnds ends;
  const LayerPrefix& prefix = x.prefix(s);
  const LayerReductions reductions =
      layer_reductions(x.model, x.cluster, s, blocks, prefix, placement, x.ends);
  const BlockCounts counts = prefix.with_ends(x.model);
  double forward = 0, backward = 0;
  for (std::size_t k = 0; k < counts.size(); ++k) {
    const double n = real(counts[k]);
    forward += n * blocks[k].forward.total().si();
    backward += n * (blocks[k].backward_input.total() + blocks[k].backward_weight.total()).si();
  }
  const auto add = [&](const LayerReductions::Kind& kind, double passes, double& hides) {
    // More microbatches beside a reduction than there are would count a pass as less than nothing.
    if (kind.hides > real(num_microbatches(s)) || kind.whole <= kind.hides * passes) return;
    hides = kind.hides;
    if (ends.reduced.size() == 0) ends.reduced.assign(counts.size());
    for (std::size_t k = 0; k < counts.size(); ++k) ends.reduced[k] += kind.seconds[k];
  };
  add(reductions.gradients, backward, ends.backward_hides);
  add(reductions.weights, forward, ends.forward_hides);
  return ends;
}

}  // namespace meshplan
