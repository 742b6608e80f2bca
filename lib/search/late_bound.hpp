#pragma once
// How fast a step can be at best with what its slowest rank must still reduce behind its last pass.
#include "cost/block.hpp"
#include "model/layer_prefix.hpp"
#include "partition/layer_reductions.hpp"

namespace meshplan {

// [F-SEARCH-21] Every rank keeps, with y_g of the parameters of kind g (dense, experts'),
//   work + sum over g of (y_g always_g + min(y_g, q_g) late_g) <= T,
// which for each set S of kinds with a whole bucket or more is a sum over its blocks:
//   work + sum y_g always_g + sum over g not in S of y_g late_g <= T - sum over g in S of q_g
//   late_g.
// With any price c_k of a block of kind k the sum of a rank's prices is at most the most that such
// a rank can have, and all of them together pay for all blocks. So
//   T >= max over c of min over S of (sum over g in S of q_g late_g + c_all / (p max_k c_k /
//   a_Sk)),
// a_Sk what a block of kind k takes of the left side of S, p ranks. Prices are a_Sk of each S;
// those of blocks that reduce nothing are lowered to where no S minds them. Seconds of the
// pipeline's step, without what follows on all ranks. `blocks`: costs that none of the strategy's
// undercuts, its reductions: of all layers on one rank.
[[nodiscard]] double late_bound(const BlockCosts& blocks, const BlockCounts& counts,
                                double microbatches, double ranks, const WholeReductions& all);

}  // namespace meshplan
