#pragma once
// What all kinds of softmax attention share: scores over keys that queries see, context
// parallelism around them, the output projection, and what they save.
#include <cstdint>

#include "model/kinds.hpp"
#include "model/parts.hpp"

namespace meshplan {

// One rank's heads. Sizes are elements per token.
struct HeadShape {
  std::int64_t heads = 0;        // query heads / tp
  std::int64_t groups = 0;       // key/value heads on this rank (copied when tp exceeds them)
  std::int64_t query_size = 0;   // of all heads
  std::int64_t key_size = 0;     // of all groups
  std::int64_t sent_values = 0;  // values as context parallelism exchanges them
  std::int64_t value_size = 0;   // of all heads: input of the output projection
  std::int64_t window = 0;
};

// Products over scores, fused or materialised, with context parallelism.
void append_scores(const BlockContext& x, const HeadShape& heads, BlockOps& ops);
// Output projection, collectives of tensor parallelism, residual.
void append_attention_output(const BlockContext& x, const HeadShape& heads,
                             const LinearTimes& column, BlockOps& ops);

// `projections`: bytes of queries, keys and values; `repeated`: of which selective recomputation
// of fused attention repeats.
[[nodiscard]] KeptBytes attention_saved_bytes(const BlockContext& x, const HeadShape& heads,
                                              double projections, double repeated);
// Scores of materialised attention.
[[nodiscard]] double materialised_scores(const BlockContext& x, std::int64_t heads);

// Whether scale, mask and softmax of materialised scores run as one kernel: Megatron-LM's takes
// 16-bit scores and multiples of four matrices (fused_softmax.py, is_kernel_available).
[[nodiscard]] bool softmax_is_fused(const BlockContext& x, std::int64_t heads);

// Per token: products of queries with the keys that they see, and of these with the values, as if
// attention were not causal.
[[nodiscard]] double score_flops(std::int64_t heads, double qk_dim, double v_dim,
                                 std::int64_t window, std::int64_t seq_len);

}  // namespace meshplan
