#pragma once
// What lists of recomputed modules save, told without the costs of blocks: where memory is the
// objective most lists of most choices are ruled out by that alone.
#include "cost/block.hpp"
#include "model/layer_prefix.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

// Whether all that a list changes of what a block needs is what it saves: not where scores are
// materialised, modules go to the host, or one microbatch's forward runs beside another's backward.
[[nodiscard]] bool lists_change_only_saved(const Strategy& s);

// `blocks` with the activations that selective recomputation saves under the list of `s`, as
// block_costs() gives them: bytes per microbatch, by block; of such strategies. `blocks`: of the
// same strategy but for the list.
[[nodiscard]] PerBlock<SavedActivations> listed_saved(const ModelSpec& m, const ClusterSpec& c,
                                                      const Strategy& s, const LayerPrefix& prefix,
                                                      const BlockCosts& blocks);

}  // namespace meshplan
