#pragma once
// What reductions add to the time of layers, wherever these are.
#include "cost/block.hpp"
#include "search/candidate.hpp"

namespace meshplan {

// [F-SEARCH-18] A rank that works for a seconds on every microbatch, of which f are forward passes
// and b backward ones, is through with its reductions after
//   m a + sum of `reduced` over its layers - backward_hides b - forward_hides f
// at least, m microbatches; seconds of one step.
struct LayerEnds {
  PerBlock<double> reduced;                      // of one layer of each kind; empty: nothing
  double backward_hides = 0, forward_hides = 0;  // microbatches
};

// `blocks`: of the context, no slower than those of `s`, whose sharding and order `placement` is
// of. Without what says less than that nothing is reduced.
[[nodiscard]] LayerEnds layer_ends(SearchContext& x, const Strategy& s, const BlockCosts& blocks,
                                   const Placement& placement);

}  // namespace meshplan
