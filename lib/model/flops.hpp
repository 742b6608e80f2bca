#pragma once
// Floating-point operations of the model itself, as papers count them.
#include "base/units.hpp"
#include "spec/model.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

// How the scores of causal attention are counted. In full: as if every token saw all of its
// sequence (PaLM, 2204.02311 app. B; Megatron-LM's earlier releases, 2104.04473 app.). Causal: only
// those that the mask leaves, about half, as fused kernels compute them, so that no device exceeds
// its peak (FlashAttention-2, 2307.08691 sec. 4.1; Megatron-LM's num_floating_point_operations
// today: "only half of the mask is non-zero"). Both respect windows.
enum class AttentionCount { kFull, kCausal };

// Which parts of a model a step makes gradients of.
struct TrainedParts {
  bool language_model = true, vision_model = true, vision_projection = true;
};
[[nodiscard]] TrainedParts trained_parts(const Strategy& s);

// [F-FLOP-1] Operations of one training step over `tokens` tokens: three times the forward matrix
// products (backward is twice the forward), the output head included and the embedding look-up
// not, attention counted in full as if it were not causal (windows respected): 6 N + 12 L h s per
// token for a plain transformer (Chowdhery et al. 2204.02311 appendix B; Narayanan et al.
// 2104.04473 eq. 3 without recomputation). Of frozen weights, beside which adapters are trained,
// there are no gradients: twice their products (4 N), attention as above, adapters not counted; and
// once those of a vision encoder before which nothing is trained.
[[nodiscard]] Flops model_flops(const ModelSpec& m, std::int64_t seq_len, double tokens,
                                AttentionCount count = AttentionCount::kFull,
                                const TrainedParts& trained = {});

// Forward products per token of one decoder layer, attention scores at length seq_len included.
[[nodiscard]] double layer_forward_flops(const ModelSpec& m, const LayerSpec& layer,
                                         std::int64_t seq_len,
                                         AttentionCount count = AttentionCount::kFull);

}  // namespace meshplan
