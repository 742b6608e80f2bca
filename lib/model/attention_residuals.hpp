#pragma once
// Attention residuals in blocks (Kimi K3, 2607.24653 sec. 2.2): each part of a layer reads a
// mixture of what was handed on at the begin of every block of layers before it and of the sum
// since.
#include "model/context.hpp"
#include "model/operations.hpp"

namespace meshplan {

[[nodiscard]] inline bool has_attention_residuals(const ModelSpec& m) {
  return m.attn_res_block_size > 0;
}

// Hidden states that a part reads a mixture of, the mean of all layers; 1 without such residuals.
[[nodiscard]] double mixed_states(const ModelSpec& m);
// Parameters of one mixture; 0 without. Copied on every tensor rank.
[[nodiscard]] std::int64_t mixture_parameters(const ModelSpec& m);
// Kernels of one mixture; nothing without.
void append_mixture(const BlockContext& x, BlockOps& ops);
// Bytes that one mixture leaves for its backward pass.
[[nodiscard]] double mixture_saved_bytes(const BlockContext& x);
// And that its backward pass has in use.
[[nodiscard]] double mixture_working_bytes(const BlockContext& x);

}  // namespace meshplan
