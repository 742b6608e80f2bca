#pragma once
// How fast a pipeline can be at best, over all divisions of the layers at once.
#include "cost/block.hpp"
#include "search/stages.hpp"

namespace meshplan {

// [F-SEARCH-4] The least T for which some division keeps, for every rank r of p, the chains of
// tasks that wait for each other (m microbatches, F, B, W a rank's forward, input and weight
// gradient, X = F + B + W; k_r forwards before the first backward):
//   until its first task, all its work, and back:  sum of X before r + m X_r
//     (zero bubble: sum of F before r + m X_r; interleaved: of the first chunks)
//   through the whole pipeline to its first backward, and back:
//     1F1B          sum of X + m X_r - (B + W)_r - k_r F_r
//     interleaved   the same with the chunks before and after r's
//     ZB-H1         sum of F + sum of B behind r + m X_r - k_r F_r
//   GPipe: sum of X + (m - 1) X_r.
// The largest first part of the layers that ranks 0 .. r can take grows with T and with what ranks
// 0 .. r - 1 took, so taking as much as possible from the front decides whether a T is possible;
// bisection finds it to 1 part in 2000 from below.
[[nodiscard]] double division_bound(const ModelSpec& m, const Strategy& s, const BlockCosts& blocks,
                                    const LayerPrefix& prefix);

}  // namespace meshplan
