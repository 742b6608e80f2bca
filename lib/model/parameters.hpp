#pragma once
// How many parameters a model and its layers have.
#include <cstdint>

#include "spec/model.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

// Parameters of the parts of one layer, in elements: what a rank of tp = ep = 1 holds.
struct LayerParameters {
  std::int64_t attention_linear = 0;  // matrices and biases that tensor parallelism splits
  // Norms, latent projections, output bias: copied on every tensor rank.
  std::int64_t attention_other = 0;
  std::int64_t mlp_linear = 0;      // dense MLP or shared experts, split by tensor parallelism
  std::int64_t router = 0;          // copied on every tensor rank
  std::int64_t experts = 0;         // routed experts, all of them; split by ep and etp
  std::int64_t experts_active = 0;  // the top_k of them that a token passes
  std::int64_t norms = 0;  // norms, and biases behind a reduction: copied on every tensor rank
};

[[nodiscard]] LayerParameters layer_parameters(const ModelSpec& m, const LayerSpec& layer);

struct ParameterCount {
  std::int64_t total = 0;        // as published counts do: without multi-token-prediction layers
  std::int64_t active = 0;       // passed by one token: equals `total` for dense models
  std::int64_t embedding = 0;    // token embedding, and position table where learned
  std::int64_t output_head = 0;  // 0 when tied
  std::int64_t encoder = 0;      // vision encoder and projector
  std::int64_t mtp = 0;          // multi-token-prediction layers
};

[[nodiscard]] ParameterCount parameter_count(const ModelSpec& m);

// Those that `frozen` of the strategy leaves alone, without adapters.
[[nodiscard]] std::int64_t frozen_parameters(const ModelSpec& m, const Strategy& s);

// Parameters of one norm over `width` elements: a scale, and a shift for LayerNorm.
[[nodiscard]] std::int64_t norm_parameters(const ModelSpec& m, std::int64_t width);

}  // namespace meshplan
