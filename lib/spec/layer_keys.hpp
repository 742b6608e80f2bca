#pragma once
// The keys of each kind of layer, as sections of model files spell them: readers, writers and the
// checks of ranges go through these lists, so that a kind's sizes stand in one place.
#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "spec/findings.hpp"
#include "spec/layers.hpp"
#include "spec/model.hpp"

namespace meshplan {

inline constexpr IntegerRange kLayerWidth{1, 1 << 22};
inline constexpr IntegerRange kLayerHeads{1, 1 << 16};
inline constexpr IntegerRange kLayerHeadDim{1, 1 << 16};
inline constexpr IntegerRange kLatentWidth{1, 1 << 20};
inline constexpr IntegerRange kExpertCount{1, 1 << 16};
inline constexpr IntegerRange kWindowTokens{0, 1 << 30};
// The same sizes where none is meant by 0.
[[nodiscard]] constexpr IntegerRange or_none(IntegerRange range) { return {0, range.highest}; }

// One key: its name, which values a number may have, and whether a section may leave it out.
struct LayerKey {
  std::string_view name;
  IntegerRange range;
  bool has_default = false;
};

// visit(LayerKey, value) for every key of a kind, with `value` a whole number or a flag; flags have
// a default and no range.
template <class Kind, class Visit>
requires std::same_as<std::remove_const_t<Kind>, IndexSpec>
void for_each_layer_key(Kind& index, const Visit& visit) {
  visit(LayerKey{"index_heads", or_none(kLayerHeads), true}, index.heads);
  visit(LayerKey{"index_head_dim", or_none(kLayerHeadDim), true}, index.head_dim);
  visit(LayerKey{"index_top_k", kWindowTokens, true}, index.top_k);
}

template <class Kind, class Visit>
requires std::same_as<std::remove_const_t<Kind>, AttentionSpec>
void for_each_layer_key(Kind& k, const Visit& visit) {
  visit(LayerKey{"num_attention_heads", kLayerHeads}, k.num_attention_heads);
  visit(LayerKey{"num_query_groups", kLayerHeads}, k.num_query_groups);
  visit(LayerKey{"head_dim", kLayerHeadDim}, k.head_dim);
  visit(LayerKey{"window", kWindowTokens, true}, k.window);
  visit(LayerKey{"v_head_dim", or_none(kLayerHeadDim), true}, k.v_head_dim);
  visit(LayerKey{"rotary_dim", {-1, kLayerHeadDim.highest}, true}, k.rotary_dim);
  visit(LayerKey{"q_lora_rank", or_none(kLatentWidth), true}, k.q_lora_rank);
  visit(LayerKey{"chunked", {}, true}, k.chunked);
  visit(LayerKey{"output_gate", {}, true}, k.output_gate);
  visit(LayerKey{"shared_values", {}, true}, k.shared_values);
  for_each_layer_key(k.index, visit);
}

template <class Kind, class Visit>
requires std::same_as<std::remove_const_t<Kind>, MlaSpec>
void for_each_layer_key(Kind& k, const Visit& visit) {
  visit(LayerKey{"q_lora_rank", or_none(kLatentWidth), true}, k.q_lora_rank);
  visit(LayerKey{"kv_lora_rank", kLatentWidth}, k.kv_lora_rank);
  visit(LayerKey{"qk_nope_head_dim", kLayerHeadDim}, k.qk_nope_head_dim);
  visit(LayerKey{"qk_rope_head_dim", or_none(kLayerHeadDim)}, k.qk_rope_head_dim);
  visit(LayerKey{"v_head_dim", kLayerHeadDim}, k.v_head_dim);
  visit(LayerKey{"output_gate", {}, true}, k.output_gate);
  for_each_layer_key(k.index, visit);
}

template <class Kind, class Visit>
requires std::same_as<std::remove_const_t<Kind>, LatentAttentionSpec>
void for_each_layer_key(Kind& k, const Visit& visit) {
  visit(LayerKey{"num_attention_heads", kLayerHeads}, k.num_attention_heads);
  visit(LayerKey{"window", kWindowTokens, true}, k.window);
  for_each_layer_key(k.sizes, visit);
}

template <class Kind, class Visit>
requires std::same_as<std::remove_const_t<Kind>, CompressedAttentionSpec>
void for_each_layer_key(Kind& k, const Visit& visit) {
  visit(LayerKey{"num_attention_heads", kLayerHeads}, k.num_attention_heads);
  visit(LayerKey{"head_dim", kLayerHeadDim}, k.head_dim);
  visit(LayerKey{"rotary_dim", or_none(kLayerHeadDim), true}, k.rotary_dim);
  visit(LayerKey{"q_lora_rank", kLatentWidth}, k.q_lora_rank);
  visit(LayerKey{"o_groups", kLayerHeads, true}, k.o_groups);
  visit(LayerKey{"o_lora_rank", kLatentWidth}, k.o_lora_rank);
  visit(LayerKey{"window", {1, kWindowTokens.highest}, true}, k.window);
  visit(LayerKey{"compress_ratio", {0, 1 << 16}, true}, k.compress_ratio);
  visit(LayerKey{"overlap", {}, true}, k.overlap);
  for_each_layer_key(k.index, visit);
}

template <class Kind, class Visit>
requires std::same_as<std::remove_const_t<Kind>, Mamba2Spec>
void for_each_layer_key(Kind& k, const Visit& visit) {
  visit(LayerKey{"num_heads", kLayerHeads}, k.num_heads);
  visit(LayerKey{"head_dim", kLayerHeadDim}, k.head_dim);
  visit(LayerKey{"state_size", kLayerHeadDim}, k.state_size);
  visit(LayerKey{"num_groups", kLayerHeads}, k.num_groups);
  visit(LayerKey{"conv_kernel", {1, 64}, true}, k.conv_kernel);
  visit(LayerKey{"chunk_size", {1, 1 << 16}, true}, k.chunk_size);
}

template <class Kind, class Visit>
requires std::same_as<std::remove_const_t<Kind>, ParallelMixerSpec>
void for_each_layer_key(Kind& k, const Visit& visit) {
  for_each_layer_key(k.attention, visit);
  visit(LayerKey{"mamba_num_heads", kLayerHeads}, k.mamba.num_heads);
  visit(LayerKey{"mamba_head_dim", kLayerHeadDim}, k.mamba.head_dim);
  visit(LayerKey{"mamba_state_size", kLayerHeadDim}, k.mamba.state_size);
  visit(LayerKey{"mamba_num_groups", kLayerHeads}, k.mamba.num_groups);
  visit(LayerKey{"mamba_conv_kernel", {1, 64}, true}, k.mamba.conv_kernel);
  visit(LayerKey{"mamba_chunk_size", {1, 1 << 16}, true}, k.mamba.chunk_size);
}

template <class Kind, class Visit>
requires std::same_as<std::remove_const_t<Kind>, MambaSpec>
void for_each_layer_key(Kind& k, const Visit& visit) {
  visit(LayerKey{"inner_size", kLayerWidth}, k.inner_size);
  visit(LayerKey{"state_size", kLayerHeadDim, true}, k.state_size);
  visit(LayerKey{"dt_rank", kLatentWidth}, k.dt_rank);
  visit(LayerKey{"conv_kernel", {1, 64}, true}, k.conv_kernel);
  visit(LayerKey{"inner_norms", {}, true}, k.inner_norms);
}

template <class Kind, class Visit>
requires std::same_as<std::remove_const_t<Kind>, GatedDeltaNetSpec>
void for_each_layer_key(Kind& k, const Visit& visit) {
  visit(LayerKey{"num_key_heads", kLayerHeads}, k.num_key_heads);
  visit(LayerKey{"num_value_heads", kLayerHeads}, k.num_value_heads);
  visit(LayerKey{"key_head_dim", kLayerHeadDim}, k.key_head_dim);
  visit(LayerKey{"value_head_dim", kLayerHeadDim}, k.value_head_dim);
  visit(LayerKey{"conv_kernel", {1, 64}, true}, k.conv_kernel);
  visit(LayerKey{"gate_rank", or_none(kLatentWidth), true}, k.gate_rank);
  visit(LayerKey{"full_rank_gate", {}, true}, k.full_rank_gate);
}

template <class Kind, class Visit>
requires std::same_as<std::remove_const_t<Kind>, LightningSpec>
void for_each_layer_key(Kind& k, const Visit& visit) {
  visit(LayerKey{"num_heads", kLayerHeads}, k.num_heads);
  visit(LayerKey{"head_dim", kLayerHeadDim}, k.head_dim);
}

template <class Kind, class Visit>
requires std::same_as<std::remove_const_t<Kind>, NoneSpec>
void for_each_layer_key(Kind&, const Visit&) {}

template <class Kind, class Visit>
requires std::same_as<std::remove_const_t<Kind>, DenseMlpSpec>
void for_each_layer_key(Kind& k, const Visit& visit) {
  visit(LayerKey{"ffn_hidden_size", kLayerWidth}, k.ffn_hidden_size);
}

template <class Kind, class Visit>
requires std::same_as<std::remove_const_t<Kind>, MoeSpec>
void for_each_layer_key(Kind& k, const Visit& visit) {
  visit(LayerKey{"num_experts", kExpertCount}, k.num_experts);
  visit(LayerKey{"top_k", kExpertCount}, k.top_k);
  visit(LayerKey{"expert_ffn_hidden_size", kLayerWidth}, k.expert_ffn_hidden_size);
  visit(LayerKey{"shared_expert_ffn_hidden_size", or_none(kLayerWidth), true},
        k.shared_expert_ffn_hidden_size);
  visit(LayerKey{"latent_size", or_none(kLayerWidth), true}, k.latent_size);
  visit(LayerKey{"latent_norm", {}, true}, k.latent_norm);
  visit(LayerKey{"router_bias", {}, true}, k.router_bias);
  visit(LayerKey{"router_num_groups", or_none(kExpertCount), true}, k.router_num_groups);
  visit(LayerKey{"router_group_top_k", or_none(kExpertCount), true}, k.router_group_top_k);
}

template <class Kind, class Visit>
requires std::same_as<std::remove_const_t<Kind>, EncoderSpec>
void for_each_layer_key(Kind& k, const Visit& visit) {
  visit(LayerKey{"num_layers", {1, 10'000}}, k.num_layers);
  visit(LayerKey{"hidden_size", kLayerWidth}, k.hidden_size);
  visit(LayerKey{"num_attention_heads", kLayerHeads}, k.num_attention_heads);
  visit(LayerKey{"head_dim", or_none(kLayerWidth), true}, k.head_dim);
  visit(LayerKey{"ffn_hidden_size", kLayerWidth}, k.ffn_hidden_size);
  visit(LayerKey{"gated_mlp", {}, true}, k.gated_mlp);
  visit(LayerKey{"linear_bias", {}, true}, k.linear_bias);
  visit(LayerKey{"patch_size", {1, 1024}, true}, k.patch_size);
  visit(LayerKey{"channels", {1, 1024}, true}, k.channels);
  visit(LayerKey{"positions", or_none(kLatentWidth), true}, k.positions);
  visit(LayerKey{"patches_per_image", kLatentWidth}, k.patches_per_image);
  visit(LayerKey{"merged_patches", {1, 1024}, true}, k.merged_patches);
  visit(LayerKey{"projector_hidden_size", or_none(kLayerWidth), true}, k.projector_hidden_size);
  visit(LayerKey{"projectors", {1, 64}, true}, k.projectors);
  visit(LayerKey{"images_per_sequence", {1, 4096}, true}, k.images_per_sequence);
}

// What `kind` of a section says.
[[nodiscard]] constexpr std::string_view kind_name(const AttentionSpec&) { return "gqa"; }
[[nodiscard]] constexpr std::string_view kind_name(const LatentAttentionSpec&) { return "mla"; }
[[nodiscard]] constexpr std::string_view kind_name(const CompressedAttentionSpec&) {
  return "compressed";
}
[[nodiscard]] constexpr std::string_view kind_name(const Mamba2Spec&) { return "mamba2"; }
[[nodiscard]] constexpr std::string_view kind_name(const ParallelMixerSpec&) { return "parallel"; }
[[nodiscard]] constexpr std::string_view kind_name(const MambaSpec&) { return "mamba"; }
[[nodiscard]] constexpr std::string_view kind_name(const GatedDeltaNetSpec&) {
  return "gated_delta_net";
}
[[nodiscard]] constexpr std::string_view kind_name(const LightningSpec&) { return "lightning"; }
[[nodiscard]] constexpr std::string_view kind_name(const NoneSpec&) { return "none"; }
[[nodiscard]] constexpr std::string_view kind_name(const DenseMlpSpec&) { return "dense"; }
[[nodiscard]] constexpr std::string_view kind_name(const MoeSpec&) { return "experts"; }

}  // namespace meshplan
