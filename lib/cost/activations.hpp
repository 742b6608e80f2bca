#pragma once
// Bytes that one microbatch leaves for the backward pass, by block and recomputation mode.
#include "cost/block.hpp"
#include "cost/block_ops.hpp"

namespace meshplan {

// [F-ACT-MEM-1] Bytes saved per microbatch and decoder layer; see activations.cpp for the parts.
[[nodiscard]] SavedActivations layer_activations(const BlockContext& x, bool moe);
[[nodiscard]] SavedActivations embedding_activations(const BlockContext& x);
[[nodiscard]] SavedActivations head_activations(const BlockContext& x);

// Temporaries at the worst moment of a block's backward pass (forward and loss for the head).
[[nodiscard]] Bytes layer_working_set(const BlockContext& x, bool moe);
[[nodiscard]] Bytes head_working_set(const BlockContext& x);

}  // namespace meshplan
