#include "spec/model.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace meshplan {
namespace {

// Parameters of one norm over `width` elements: a scale, and a shift for LayerNorm.
std::int64_t norm_parameters(const ModelSpec& m, std::int64_t width) {
  return m.norm == Norm::kLayerNorm ? 2 * width : width;
}

// Two or three matrices between `hidden` and `ffn`.
std::int64_t mlp_matrices(const ModelSpec& m, std::int64_t ffn) {
  return (m.gated_mlp ? 3 : 2) * m.hidden_size * ffn;
}

// Biases of the MLP's first projection (and gate), one per output element.
std::int64_t mlp_first_bias(const ModelSpec& m, std::int64_t ffn) {
  return (m.gated_mlp ? 2 : 1) * ffn;
}

// [F-PAR-1] Queries h*a*d, keys and values 2*h*g*d, output a*d*h; biases follow the outputs.
// The output bias is added after the tensor-parallel reduction, so every tensor rank holds it.
// Vaswani et al. 2017 sec. 3.2.2; Ainslie et al. 2023 (GQA); Shoeybi et al. 2019 sec. 3.
void add_attention(const ModelSpec& m, LayerParameters& p) {
  const std::int64_t h = m.hidden_size;
  const std::int64_t queries = m.num_attention_heads * m.head_dim;
  const std::int64_t keys_values = 2 * m.num_query_groups * m.head_dim;
  p.attention_linear += h * (queries + keys_values) + queries * h;
  if (m.linear_bias || m.qkv_bias) p.attention_linear += queries + keys_values;
  if (m.qk_norm) p.attention_other += 2 * norm_parameters(m, m.head_dim);
}

// [F-PAR-2] Multi-head latent attention: down projections h*q_r and h*(kv_r + d_rope) with a norm
// over each latent (RMSNorm), up projections q_r*a*(d_nope + d_rope) and kv_r*a*(d_nope + d_v),
// output a*d_v*h. DeepSeek-V2 (2405.04434) sec. 2.1, app. C; the latent projections are copied on
// every tensor rank (Megatron-LM multi_latent_attention.py, parallel_mode "duplicated").
void add_latent_attention(const ModelSpec& m, LayerParameters& p) {
  PLAN_CHECK(m.mla.has_value());
  const MlaSpec& mla = *m.mla;
  const std::int64_t h = m.hidden_size;
  const std::int64_t a = m.num_attention_heads;
  const std::int64_t query = a * (mla.qk_nope_head_dim + mla.qk_rope_head_dim);
  const std::int64_t key_value = a * (mla.qk_nope_head_dim + mla.v_head_dim);
  const std::int64_t compressed = mla.kv_lora_rank + mla.qk_rope_head_dim;
  const std::int64_t query_input = mla.q_lora_rank > 0 ? mla.q_lora_rank : h;
  p.attention_linear += query_input * query + mla.kv_lora_rank * key_value + a * mla.v_head_dim * h;
  p.attention_other += h * (mla.q_lora_rank + compressed);
  p.attention_other += norm_parameters(m, mla.q_lora_rank) + norm_parameters(m, mla.kv_lora_rank);
  if (m.linear_bias || m.qkv_bias) {
    p.attention_linear += query + key_value;
    p.attention_other += mla.q_lora_rank + compressed;
  }
}

// [F-PAR-3] Plain or gated MLP: 2*h*f or 3*h*f, biases f (2f gated) and h.
// Vaswani et al. 2017 sec. 3.3; Shazeer 2020 (GLU variants).
void add_mlp(const ModelSpec& m, std::int64_t ffn, LayerParameters& p) {
  if (ffn == 0) return;
  p.mlp_linear += mlp_matrices(m, ffn);
  if (m.linear_bias) {
    p.mlp_linear += mlp_first_bias(m, ffn);
    p.norms += m.hidden_size;
  }
}

// [F-PAR-4] E experts, each an MLP of width f_e, a router h*E (and E where it has a bias), of which
// a token passes top_k. Shazeer et al. 2017; Fedus et al. 2021 (Switch) sec. 2; biases of gpt-oss.
void add_experts(const ModelSpec& m, const MoeSpec& moe, LayerParameters& p) {
  std::int64_t expert = mlp_matrices(m, moe.expert_ffn_hidden_size);
  if (m.linear_bias || m.expert_bias) {
    expert += mlp_first_bias(m, moe.expert_ffn_hidden_size) + m.hidden_size;
  }
  p.experts = moe.num_experts * expert;
  p.experts_active = moe.top_k * expert;
  p.router = moe.num_experts * (m.hidden_size + (moe.router_bias ? 1 : 0));
  add_mlp(m, moe.shared_expert_ffn_hidden_size, p);
}

std::int64_t sum(const LayerParameters& p) {
  return p.attention_linear + p.attention_other + p.mlp_linear + p.router + p.experts + p.norms;
}

}  // namespace

LayerKind layer_kind(const ModelSpec& m, std::int64_t index) {
  if (!m.moe) return LayerKind::kDense;
  // A multi-token-prediction layer is built like the last decoder layer (DeepSeek-V3 sec. 2.2).
  const std::int64_t layer = std::min(index, m.num_layers - 1) - m.moe->first_dense;
  if (layer < 0) return LayerKind::kDense;
  return (layer + 1) % m.moe->every == 0 ? LayerKind::kMoe : LayerKind::kDense;
}

bool layer_is_windowed(const ModelSpec& m, std::int64_t index) {
  return m.window > 0 && index % m.window_every == 0;
}

std::int64_t num_moe_layers(const ModelSpec& m) {
  if (!m.moe) return 0;
  return std::max<std::int64_t>(m.num_layers - m.moe->first_dense, 0) / m.moe->every;
}

LayerParameters layer_parameters(const ModelSpec& m, LayerKind kind) {
  LayerParameters p;
  if (m.attention == AttentionKind::kMla) {
    add_latent_attention(m, p);
  } else {
    add_attention(m, p);
  }
  if (m.attention_sinks) p.attention_linear += m.num_attention_heads;
  if (m.linear_bias || m.attention_out_bias) p.attention_other += m.hidden_size;
  const bool one_norm = m.parallel_block && m.parallel_shared_norm;
  p.norms += (one_norm ? 1 : 2) * norm_parameters(m, m.hidden_size);
  if (kind == LayerKind::kMoe) {
    PLAN_CHECK(m.moe.has_value());
    add_experts(m, *m.moe, p);
  } else {
    add_mlp(m, m.ffn_hidden_size, p);
  }
  return p;
}

// [F-PAR-5] Layers, token embedding V*h, learned positions max_seq*h, output head V*h unless tied,
// norms after the embedding and before the head. Narayanan et al. 2021 (Megatron-LM) eq. 2,
// extended; active: only top_k experts. A multi-token-prediction layer adds a 2h*h projection,
// norms of its two inputs and of its output (DeepSeek-V3 2412.19437 sec. 2.2), with the embedding
// and the head shared.
ParameterCount parameter_count(const ModelSpec& m) {
  const std::int64_t h = m.hidden_size;
  const std::int64_t moe_layers = num_moe_layers(m);
  ParameterCount count;
  count.embedding = m.vocab_size * h;
  if (m.position_embedding == PositionEmbedding::kLearned) count.embedding += m.max_seq_length * h;
  count.output_head = m.tied_embeddings ? 0 : m.vocab_size * h;
  count.total = count.embedding + count.output_head + norm_parameters(m, h);
  if (m.embedding_norm) count.total += norm_parameters(m, h);
  if (moe_layers < m.num_layers) {
    count.total += (m.num_layers - moe_layers) * sum(layer_parameters(m, LayerKind::kDense));
  }
  count.active = count.total;
  if (moe_layers > 0) {
    const LayerParameters p = layer_parameters(m, LayerKind::kMoe);
    count.total += moe_layers * sum(p);
    count.active += moe_layers * (sum(p) - p.experts + p.experts_active);
  }
  if (m.mtp_layers > 0) {
    const LayerKind kind = layer_kind(m, m.num_layers);
    const std::int64_t joint = 2 * h * h + 3 * norm_parameters(m, h);
    count.mtp = m.mtp_layers * (sum(layer_parameters(m, kind)) + joint);
  }
  return count;
}

}  // namespace meshplan
