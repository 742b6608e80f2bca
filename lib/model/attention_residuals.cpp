#include "model/attention_residuals.hpp"

#include "model/parts.hpp"

namespace meshplan {

// Of layers 0 .. L - 1 in blocks of B, layer l reads the states of l / B + 1 blocks and the sum.
double mixed_states(const ModelSpec& m) {
  if (!has_attention_residuals(m)) return 1;
  const double block = real(m.attn_res_block_size);
  const double whole = real(m.num_layers / m.attn_res_block_size);
  const double rest = real(m.num_layers % m.attn_res_block_size);
  const double before = block * whole * (whole - 1) / 2 + rest * whole;  // sum of l / B
  return 2 + before / real(m.num_layers);
}

// [F-ARES-1] A norm of the hidden size and a projection to one score (Megatron-Bridge
// models/kimi/kimi_k3_layers.py, self_attention_res_norm and self_attention_res_proj).
std::int64_t mixture_parameters(const ModelSpec& m) {
  return has_attention_residuals(m) ? 2 * m.hidden_size : 0;
}

// [F-ARES-2] Of n states of h elements of e bytes a token. Operation by operation in fp32: put
// together, cast, squares and their mean, two products with scale and score, a sum, and the states
// by their probabilities and summed: (3 e + 48) n h forward, and (96 + 4 e) n h backward
// (Megatron-Bridge models/kimi/kimi_k3_ops.py, attn_res_aggregate; Primus attn_res_kernels/_eager).
// Fused, forward reads the states and writes one; backward reads them and the gradient, writes
// theirs, and adds those to what other parts gave (Primus attn_res_kernels/_flydsl_v1).
void append_mixture(const BlockContext& x, BlockOps& ops) {
  if (!has_attention_residuals(x.model)) return;
  const double one = real(x.shape.norm_tokens) * real(x.shape.hidden), e = x.shape.bytes;
  const double states = mixed_states(x.model) * one;
  if (x.strategy.runtime.fused_attn_res) {
    append_elementwise(x, "residual mixture", e * (states + one), 1, e * (5 * states + one), 2,
                       ops);
    return;
  }
  append_elementwise(x, "residual mixture", (3 * e + 48) * states + (8 + e) * one, 15,
                     (96 + 4 * e) * states + (4 + e) * one, 20, ops);
}

// [F-ARES-3] Operation by operation the fp32 states and, scaled, once more; fused the sum alone:
// the blocks' states are there once for all.
double mixture_saved_bytes(const BlockContext& x) {
  if (!has_attention_residuals(x.model)) return 0;
  const double one = real(x.shape.norm_tokens) * real(x.shape.hidden);
  if (x.strategy.runtime.fused_attn_res) return x.shape.bytes * one;
  return 8 * mixed_states(x.model) * one;
}

// Backward three fp32 tensors of the states' size at once: their gradient from the sum, that from
// the scores, and the product which becomes the next; fused their gradient in the training dtype.
double mixture_working_bytes(const BlockContext& x) {
  if (!has_attention_residuals(x.model)) return 0;
  const double one = real(x.shape.norm_tokens) * real(x.shape.hidden);
  const double each = x.strategy.runtime.fused_attn_res ? x.shape.bytes : 12;
  return each * mixed_states(x.model) * one;
}

}  // namespace meshplan
