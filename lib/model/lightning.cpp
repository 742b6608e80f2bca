// Linear attention with one fixed decay per head (lightning attention of MiniMax-01, 2501.08313).
#include "model/state_mixer.hpp"

namespace meshplan {
namespace {

constexpr double kBlock = 256;  // tokens (MiniMax-01's modeling code, BLOCK)

double features_of(const LightningSpec& kind, const Strategy& s) {
  return real(ceil_div(kind.num_heads, s.tp)) * real(kind.head_dim);
}

}  // namespace

// [F-LGT-1] Queries, keys, values 3 h d, gate h d, out projection d h, a norm of d: d features of
// all heads. 2501.08313 sec. 2.2.1; transformers modeling_minimax.py, MiniMaxLightningAttention.
void add_parameters(const LightningSpec& kind, const ModelSpec& m, LayerParameters& p) {
  const std::int64_t d = kind.num_heads * kind.head_dim;
  p.attention_linear += 5 * m.hidden_size * d + d;
}

std::int64_t copied_parameters(const LightningSpec&, const ModelSpec&, std::int64_t) { return 0; }

// The state's update and its product with the queries.
double token_flops(const LightningSpec& kind, std::int64_t) {
  return 4 * real(kind.num_heads) * real(kind.head_dim) * real(kind.head_dim);
}

// [F-LGT-2] Blocks of B tokens: inside of each two products over half of the pairs 2 B d, the state
// updated and read 4 d d_h; traffic of queries, keys, values and output 4 e d and of one state a
// block; backward 2.5 times the products inside, twice the others, and twice the traffic
// (lightning attention 2, 2401.04658 sec. 3.2).
void append_operations(const LightningSpec& kind, const BlockContext& x, BlockOps& ops) {
  const LocalShape& l = x.shape;
  const double features = features_of(kind, x.strategy), tokens = real(l.tokens), e = l.bytes;
  const auto d = static_cast<std::int64_t>(features);
  append_residual_norm(x, "input norm", ops);
  const LinearTimes column = append_linear(x, "linear attention in", l.tokens, 4 * d, l.hidden,
                                           false, ops, 1, &kStateInput);
  append_elementwise(x, "linear attention activation", 6 * e * tokens * features, 1,
                     9 * e * tokens * features, 1, ops);
  append_head_exchange(x, 3 * features, features, ops);
  const double inside = 2 * kBlock * features, states = 4 * features * real(kind.head_dim);
  const double bytes = e * (4 * features + 2 * features * real(kind.head_dim) / kBlock);
  const FusedWork forward{inside + states, bytes, 2};
  const FusedWork backward{2.5 * inside + 2 * states, 2 * bytes, 4};
  append_fused(x, "linear attention", Pass::kForward, {&forward, 1}, tokens, ops);
  append_fused(x, "linear attention", Pass::kBackwardInput, {&backward, 1}, tokens, ops);
  append_norm(x, "linear attention norm", l.tokens * d, ops);
  append_elementwise(x, "output gate", 3 * e * tokens * features, 1, 5 * e * tokens * features, 1,
                     ops);
  append_mixer_output(x, "linear attention out", d, column, ops);
}

// Queries, keys and values before and behind their activation, gate, output, and the norm's.
KeptBytes saved_bytes(const LightningSpec& kind, const BlockContext& x) {
  const double features = features_of(kind, x.strategy), tokens = real(x.shape.tokens);
  const double inside = tokens * x.shape.bytes * 8 * features + norm_bytes(x, tokens * features);
  return state_mixer_bytes(x, inside, static_cast<std::int64_t>(features));
}

double temporary_bytes(const LightningSpec& kind, const BlockContext& x) {
  return 4 * x.shape.bytes * real(x.shape.tokens) * features_of(kind, x.strategy);
}

}  // namespace meshplan
