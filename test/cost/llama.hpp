#pragma once
// A small model and plans of today's kind: every kernel of theirs is one that benchmarks have.
#include "cost/support.hpp"

namespace meshplan::test {

// Norms, rotary embedding and gated activation as in Llama, no biases and no dropout.
inline ModelSpec llama_like(std::int64_t layers) {
  ModelSpec m = plain_gpt(layers);
  m.gated_mlp = true;
  m.activation = Activation::kSilu;
  m.norm = Norm::kRmsNorm;
  m.position_embedding = PositionEmbedding::kRope;
  m.linear_bias = false;
  m.dropout = 0;
  return m;
}

// bf16, flash attention, sequence parallel.
inline Strategy modern_strategy(std::int64_t tp, std::int64_t pp, std::int64_t dp) {
  Strategy s = plain_strategy(tp, pp, dp);
  s.precision = Precision::kBf16;
  s.flash_attention = true;
  s.sequence_parallel = tp > 1;
  return s;
}

}  // namespace meshplan::test
