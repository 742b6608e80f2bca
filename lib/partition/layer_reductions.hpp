#pragma once
// What the reductions at the end of a step add to the time of the rank that holds a layer.
#include "cost/block.hpp"
#include "cost/placement.hpp"
#include "model/layer_prefix.hpp"

namespace meshplan {

struct LeastEndsMemo;  // partition/least_ends.hpp

// [F-SEARCH-18] A rank with n_k layers of kind k reduces its gradients, and gathers its weights,
// for sum n_k x seconds of kind k at least: of what one rank with all layers takes the share of its
// parameters, as such collectives take no less per byte the fewer these are. Of that passes hide
// `hides` times what one microbatch takes on the rank at most ([F-DP-5]: 2 - o, o the device's
// overlap_slowdown, of each microbatch beside them): backward passes of gradients, forward of
// weights.
struct LayerReductions {
  struct Kind {
    PerBlock<double> seconds;  // of one layer; of other blocks nothing
    double whole = 0;          // seconds of all layers
    double hides = 0;          // microbatches
  };
  Kind gradients, weights;
};

// Nothing where [F-SEARCH-16] says nothing either: of ranks with two copies, of ZeRO-3, and where
// single collectives were measured. `placement`: of the strategy.
[[nodiscard]] LayerReductions layer_reductions(const ModelSpec& m, const ClusterSpec& c,
                                               const Strategy& s, const BlockCosts& blocks,
                                               const LayerPrefix& prefix,
                                               const Placement& placement, LeastEndsMemo& memo);

// What of reductions a pass beside them hides, in units of its own time: 2 - o, or nothing.
[[nodiscard]] double hidden_share(const ClusterSpec& c);

// [F-SEARCH-21] What parameters of one kind, dense or experts', show of their reductions and
// gathers however long the passes beside them are: seconds of all layers on one rank. A rank with
// the share y of them shows y `always` + min(y, q) `late` at least: [F-DP-5] with a window of any
// length.
struct LateReductions {
  double always = 0;  // what runs beside nothing, and what a collective beside passes slows them by
  double late = 0;    // the rest, were it all one last bucket
  double bucket = 1;  // q: the share of the parameters that one takes
  double parameters = 0;
};

// Of all layers on one rank, as `whole` of the kinds above: seconds.
struct WholeReductions {
  double gradients = 0, weights = 0;
  LateReductions dense, experts;
};
// `groups`: of the strategy.
[[nodiscard]] WholeReductions whole_reductions(const ModelSpec& m, const ClusterSpec& c,
                                               const Strategy& s, const BlockCosts& blocks,
                                               const LayerPrefix& prefix,
                                               const StepEndGroups& groups);

}  // namespace meshplan
