// The index of sparse attention (DeepSeek-V3.2, 2512.02556 sec. 2.1): light heads score every token
// before a query, and attention looks at the best of them.
#include <algorithm>

#include "model/attention_core.hpp"

namespace meshplan {

// [F-IDX-1] Queries q * a_i * d_i from q elements, one key h * d_i with a LayerNorm, a weight per
// head h * a_i; copied on every tensor rank (Megatron-Core experimental_attention_variant/dsa.py,
// DSAIndexer: parallel_mode "duplicated").
void add_index_parameters(const IndexSpec& index, const ModelSpec& m, std::int64_t query_input,
                          LayerParameters& p) {
  if (index.heads == 0) return;
  p.attention_other += query_input * index.heads * index.head_dim + m.hidden_size * index.head_dim +
                       2 * index.head_dim + m.hidden_size * index.heads;
}

// Scores as attention is counted: over all tokens, not only those before.
double index_token_flops(const IndexSpec& index, std::int64_t seq_len) {
  return 2 * real(seq_len) * real(index.heads) * real(index.head_dim);
}

// [F-IDX-2] Its projections; scores of all tokens before, a_i products of d_i each, summed to one
// of four bytes that is written and read by the choice; backward the chosen scores alone, twice the
// products (same file: the loss of the index is over the tokens that attention saw).
void append_index(const BlockContext& x, const IndexSpec& index, std::int64_t query_input,
                  BlockOps& ops) {
  if (index.heads == 0) return;
  const LocalShape& l = x.shape;
  append_linear(x, "index queries", l.tokens, index.heads * index.head_dim, query_input, false,
                ops);
  append_linear(x, "index key", l.tokens, index.head_dim + index.heads, l.hidden, false, ops);
  append_norm(x, "index norm", l.tokens * index.head_dim, ops);
  append_index_scores(x, index, real(l.document) / 2, ops);
}

void append_index_scores(const BlockContext& x, const IndexSpec& index, double before,
                         BlockOps& ops) {
  const double width = real(index.heads) * real(index.head_dim), e = x.shape.bytes;
  const double tokens = real(x.shape.tokens);
  const double chosen = std::min(before, real(index.top_k));
  const double operands = e * (width + real(index.head_dim));
  const FusedWork forward{2 * before * width, operands + 8 * before, 2};
  const FusedWork backward{4 * chosen * width, 2 * operands + 12 * chosen, 2};
  append_fused(x, "index scores", Pass::kForward, {&forward, 1}, tokens, ops);
  append_fused(x, "index scores", Pass::kBackwardInput, {&backward, 1}, tokens, ops);
}

// Queries, key and weights of the index, its choice (8 bytes each) and the scores of the chosen.
double index_saved_bytes(const BlockContext& x, const IndexSpec& index) {
  if (index.heads == 0) return 0;
  const double chosen = std::min(real(x.shape.document), real(index.top_k));
  return x.shape.bytes * real(x.shape.tokens) * real(index.head_dim) +
         index_score_bytes(x, index, chosen);
}

double index_score_bytes(const BlockContext& x, const IndexSpec& index, double chosen) {
  const double width = real(index.heads) * (real(index.head_dim) + 1);
  return real(x.shape.tokens) * (x.shape.bytes * width + 12 * chosen);
}

}  // namespace meshplan
