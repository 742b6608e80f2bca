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
  bool chunked = false;    // the window is a chunk
  std::int64_t top_k = 0;  // tokens that sparse attention keeps; 0: all
  double seen = 0;         // tokens or entries that one sees in the mean, where stated
  // Input of the output projection, where that is not the values themselves.
  std::int64_t latent_output = 0;
  bool output_gate = false;  // the output is multiplied by a gate as wide
  bool bidirectional = false;
};

// Products over scores, fused or materialised, with context parallelism.
void append_scores(const BlockContext& x, const HeadShape& heads, BlockOps& ops);
// Output projection, collectives of tensor parallelism, residual.
void append_attention_output(const BlockContext& x, const HeadShape& heads,
                             const LinearTimes& column, BlockOps& ops);

// `projections`: bytes of queries, keys and values; `repeated`: of which selective recomputation
// of fused attention repeats. `latent`: the norm before it is a module of its own, and `repeated`
// are its up-projections.
[[nodiscard]] KeptBytes attention_saved_bytes(const BlockContext& x, const HeadShape& heads,
                                              double projections, double repeated, bool latent,
                                              LoraTargets first);
// Scores of materialised attention.
[[nodiscard]] double materialised_scores(const BlockContext& x, std::int64_t heads);
// [F-ATT-5] Gradients of the scores going in and coming out of materialised attention's softmax.
[[nodiscard]] double score_temporary_bytes(const BlockContext& x, std::int64_t heads);

// Whether scale, mask and softmax of materialised scores run as one kernel: Megatron-LM's takes
// 16-bit scores and multiples of four matrices (fused_softmax.py, is_kernel_available).
[[nodiscard]] bool softmax_is_fused(const BlockContext& x, std::int64_t heads);

// What sparse attention's index adds: its projections, scores over all tokens before, and the
// choice among them. `query_input`: elements that its queries are projected from.
void add_index_parameters(const IndexSpec& index, const ModelSpec& m, std::int64_t query_input,
                          LayerParameters& p);
[[nodiscard]] double index_token_flops(const IndexSpec& index, std::int64_t seq_len);
void append_index(const BlockContext& x, const IndexSpec& index, std::int64_t query_input,
                  BlockOps& ops);
[[nodiscard]] double index_saved_bytes(const BlockContext& x, const IndexSpec& index);
// Of `before` keys before a query in the mean, and of those chosen, without projections and keys.
void append_index_scores(const BlockContext& x, const IndexSpec& index, double before,
                         BlockOps& ops);
[[nodiscard]] double index_score_bytes(const BlockContext& x, const IndexSpec& index,
                                       double chosen);

// Per token: products of queries with the keys that they see, and of these with the values, as if
// attention were not causal.
[[nodiscard]] double score_flops(std::int64_t heads, double qk_dim, double v_dim,
                                 std::int64_t window, std::int64_t seq_len);
// The same of the scores that a causal mask leaves [F-ATT-1].
[[nodiscard]] double causal_score_flops(std::int64_t heads, double qk_dim, double v_dim,
                                        std::int64_t window, std::int64_t seq_len);
// Tokens that a query sees at most, for score_flops(); 0: all.
[[nodiscard]] std::int64_t seen_tokens(std::int64_t window, const IndexSpec& index);

}  // namespace meshplan
