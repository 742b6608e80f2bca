// Families with RMSNorm, rotary positions and a gated MLP, with and without experts.
#include <algorithm>
#include <utility>

#include "io/hf_parts.hpp"

namespace meshplan::hf {
namespace {

// Mistral, Mixtral, Phi-3: a window in every layer if there is one at all.
void read_plain_window(HfFields& f, ModelSpec& m, std::int64_t fallback) {
  const HfNames key{"sliding_window"};
  const bool given = f.has(key) || (!f.is_null(key) && fallback > 0);
  if (given) read_window(f, m, all_layers(m, true), f.size_or("attention.window", key, fallback));
}

// Qwen: a window only if asked for, in the layers from max_window_layers on.
void read_qwen_window(HfFields& f, ModelSpec& m, std::int64_t full_layers_fallback) {
  if (!f.flag_or({"use_sliding_window"}, false)) return;
  const std::int64_t window = f.size_or("attention.window", {"sliding_window"}, 4096);
  const std::int64_t full =
      f.count_or("attention.window_every", {"max_window_layers"}, full_layers_fallback);
  std::vector<bool> windowed = all_layers(m, true);
  for (std::size_t i = 0; i < windowed.size(); ++i) {
    windowed[i] = static_cast<std::int64_t>(i) >= full;
  }
  read_window(f, m, std::move(windowed), window);
}

}  // namespace

ModelSpec llama_without_attention(HfFields& f, std::int64_t context, const CoreNames& core,
                                  const HfNames& ffn) {
  ModelSpec m = read_core(f, core);
  m.ffn_hidden_size = f.size("ffn_hidden_size", ffn);
  m.gated_mlp = true;
  read_activation(f, m, {"hidden_act"}, "silu");
  m.norm = Norm::kRmsNorm;
  m.position_embedding = PositionEmbedding::kRope;
  m.tied_embeddings = f.flag_or({"tie_word_embeddings"}, false);
  m.max_seq_length = f.size_or("max_seq_length", {"max_position_embeddings"}, context);
  read_dropout(f, m, {"resid_pdrop"}, 0.0, {"attention_dropout"}, 0.0);
  return m;
}

ModelSpec llama_like(HfFields& f, std::int64_t context, std::int64_t groups,
                     std::int64_t head_dim) {
  ModelSpec m = llama_without_attention(f, context);
  read_groups(f, m, {"num_key_value_heads"}, groups);
  read_head_dim(f, m, head_dim);
  set_attention_kind(m);
  return m;
}

// Experts in every `decoder_sparse_step`-th layer, except for those in `mlp_only_layers`.
void read_qwen_experts(HfFields& f, ModelSpec& m, const HfNames& experts, std::int64_t top_k) {
  m.moe = read_experts(f, experts, top_k, {"moe_intermediate_size"});
  const std::int64_t step = f.size_or("moe.layers.every", {"decoder_sparse_step"}, 1);
  std::vector<bool> sparse = all_layers(m, false);
  for (std::size_t i = 0; i < sparse.size(); ++i) {
    sparse[i] = (static_cast<std::int64_t>(i) + 1) % step == 0;
  }
  for (const std::int64_t layer : f.counts({"mlp_only_layers"})) {
    if (layer < m.num_layers) sparse[static_cast<std::size_t>(layer)] = false;
  }
  set_expert_layers(m, sparse);
}

// A null q_lora_rank means that queries are projected directly (the Lite models).
MlaSpec read_latent(HfFields& f) {
  MlaSpec mla;
  // Written beside the latent's sizes, which say all.
  (void)f.has({"num_key_value_heads", "head_dim"});
  mla.q_lora_rank =
      f.is_null({"q_lora_rank"}) ? 0 : f.count_or("attention.q_lora_rank", {"q_lora_rank"}, 1536);
  mla.kv_lora_rank = f.size_or("attention.kv_lora_rank", {"kv_lora_rank"}, 512);
  mla.qk_nope_head_dim = f.size_or("attention.qk_nope_head_dim", {"qk_nope_head_dim"}, 128);
  mla.qk_rope_head_dim = f.size_or("attention.qk_rope_head_dim", {"qk_rope_head_dim"}, 64);
  mla.v_head_dim = f.size_or("attention.v_head_dim", {"v_head_dim"}, 128);
  return mla;
}

void read_deepseek_experts(HfFields& f, ModelSpec& m, const ExpertDefaults& d) {
  MoeSpec moe = read_experts(f, {"n_routed_experts", "num_local_experts", "num_experts"}, d.top_k,
                             {"moe_intermediate_size"});
  const HfNames shared_experts{"n_shared_experts", "num_shared_experts"};
  const std::int64_t shared =
      f.is_null(shared_experts)
          ? 0
          : f.count_or("moe.shared_expert_ffn_hidden_size", shared_experts, d.shared_experts);
  moe.shared_expert_ffn_hidden_size = shared * moe.expert_ffn_hidden_size;
  moe.router_bias = d.correction;
  read_router_groups(f, moe);
  m.moe = moe;
  const std::int64_t dense = f.count_or(
      "moe.layers.first_dense", {"first_k_dense_replace", "num_dense_layers"}, d.first_dense);
  const std::int64_t step = f.size_or("moe.layers.every", {"moe_layer_freq"}, 1);
  std::vector<bool> sparse = all_layers(m, false);
  for (std::size_t i = 0; i < sparse.size(); ++i) {
    const auto layer = static_cast<std::int64_t>(i);
    sparse[i] = layer >= dense && layer % step == 0;
  }
  set_expert_layers(m, sparse);
  m.mtp_layers = f.count_or("mtp_layers", {"num_nextn_predict_layers"}, 0);
}

ModelSpec deepseek_like(HfFields& f, std::int64_t context, const ExpertDefaults& d) {
  ModelSpec m = llama_without_attention(f, context);
  m.attention = AttentionKind::kMla;
  m.mla = read_latent(f);
  m.head_dim = m.mla->qk_nope_head_dim + m.mla->qk_rope_head_dim;
  set_biases(m, f.flag_or({"attention_bias"}, false), false);
  read_deepseek_experts(f, m, d);
  return m;
}

ModelSpec read_llama(HfFields& f) {
  ModelSpec m = llama_like(f, 2048, 0, 0);
  set_biases(m, f.flag_or({"attention_bias"}, false), f.flag_or({"mlp_bias"}, false));
  return m;
}

ModelSpec read_mistral(HfFields& f) {
  ModelSpec m = llama_like(f, 131072, 8, 0);
  read_plain_window(f, m, 4096);
  return m;
}

// Llama with norms before the output projections of attention and MLP, and weights of -1, 0 and 1
// that are made anew from full ones in every step (2504.12285 sec. 2).
ModelSpec read_bitnet(HfFields& f) {
  ModelSpec m = llama_like(f, 2048, 0, 0);
  read_activation(f, m, {"hidden_act"}, "relu2");
  m.notes.emplace_back(
      "BitNet's norms before its output projections, and the quantisation of its weights and "
      "activations, are not modelled: planned as without them");
  return m;
}

// The first Qwen states the width of both halves of its gated MLP together.
ModelSpec read_qwen(HfFields& f) {
  ModelSpec m = llama_like(f, 8192, 0, 0);
  m.ffn_hidden_size = std::max<std::int64_t>(m.ffn_hidden_size / 2, 1);
  m.qkv_bias = true;
  m.linear_bias = !f.flag_or({"no_bias"}, true);
  m.max_seq_length = f.size_or("max_seq_length", {"seq_length"}, m.max_seq_length);
  return m;
}

ModelSpec read_mixtral(HfFields& f) {
  ModelSpec m = llama_like(f, 131072, 8, 0);
  m.moe = read_experts(f, {"num_local_experts", "num_experts"}, 2, {"intermediate_size"});
  read_plain_window(f, m, 0);
  return m;
}

ModelSpec read_phi3(HfFields& f) {
  ModelSpec m = llama_like(f, 4096, 0, 0);
  m.rotary_percent = f.real_or("rotary_percent", {"partial_rotary_factor"}, 1.0);
  read_plain_window(f, m, 0);
  return m;
}

ModelSpec read_gemma(HfFields& f) {
  ModelSpec m = llama_like(f, 8192, 16, 256);
  // Early files say hidden_act "gelu" and mean what hidden_activation corrects.
  read_activation(f, m, {"hidden_activation"}, f.text_or({"hidden_act"}, "gelu_pytorch_tanh"));
  m.tied_embeddings = f.flag_or({"tie_word_embeddings"}, true);
  set_biases(m, f.flag_or({"attention_bias"}, false), false);
  return m;
}

ModelSpec read_qwen2(HfFields& f) {
  ModelSpec m = llama_like(f, 32768, 32, 0);
  m.qkv_bias = true;  // always on, the files have no key for it
  read_qwen_window(f, m, 28);
  return m;
}

ModelSpec read_qwen3(HfFields& f) {
  ModelSpec m = llama_like(f, 32768, 32, 128);
  m.qk_norm = true;
  set_biases(m, f.flag_or({"attention_bias"}, false), false);
  read_qwen_window(f, m, 28);
  return m;
}

ModelSpec read_qwen2_moe(HfFields& f) {
  ModelSpec m = llama_like(f, 32768, 16, 0);
  m.qkv_bias = f.flag_or({"qkv_bias"}, true);
  read_qwen_experts(f, m, {"num_experts"}, 4);
  const std::int64_t shared =
      f.count_or("moe.shared_expert_ffn_hidden_size", {"shared_expert_intermediate_size"}, 5632);
  if (m.moe) m.moe->shared_expert_ffn_hidden_size = shared;
  read_qwen_window(f, m, 28);
  return m;
}

ModelSpec read_qwen3_moe(HfFields& f) {
  ModelSpec m = llama_like(f, 32768, 4, 0);
  m.qk_norm = true;
  set_biases(m, f.flag_or({"attention_bias"}, false), false);
  read_qwen_experts(f, m, {"num_experts", "num_local_experts"}, 8);
  read_qwen_window(f, m, 28);
  return m;
}

ModelSpec read_deepseek_v2(HfFields& f) {
  return deepseek_like(f, 2048,
                       {.top_k = 0, .first_dense = 0, .shared_experts = 0, .correction = false});
}

ModelSpec read_deepseek_v3(HfFields& f) {
  return deepseek_like(f, 4096,
                       {.top_k = 8, .first_dense = 3, .shared_experts = 1, .correction = true});
}

// Latent attention without experts; values as wide as a head of the hidden size.
ModelSpec read_minicpm3(HfFields& f) {
  ModelSpec m = llama_without_attention(f, 32'768);
  m.attention = AttentionKind::kMla;
  m.mla = read_latent(f);
  m.mla->v_head_dim = f.size_or("attention.v_head_dim", {"v_head_dim"},
                                std::max<std::int64_t>(m.hidden_size / m.num_attention_heads, 1));
  m.head_dim = m.mla->qk_nope_head_dim + m.mla->qk_rope_head_dim;
  m.tied_embeddings = f.flag_or({"tie_word_embeddings"}, true);
  set_biases(m, f.flag_or({"attention_bias"}, false), false);
  return m;
}

// GLM-4.5: grouped queries, of whose projections only the inner three have biases.
ModelSpec read_glm4_moe(HfFields& f) {
  ModelSpec m = llama_like(f, 131072, 8, 0);
  m.qkv_bias = f.flag_or({"attention_bias"}, false);
  m.qk_norm = f.flag_or({"use_qk_norm"}, false);
  read_deepseek_experts(f, m,
                        {.top_k = 8, .first_dense = 1, .shared_experts = 1, .correction = true});
  return m;
}

ModelSpec read_gpt_oss(HfFields& f) {
  ModelSpec m = llama_like(f, 131072, 8, 64);
  const bool bias = f.flag_or({"attention_bias"}, true);
  m.qkv_bias = bias;
  m.attention_out_bias = bias;
  m.attention_sinks = true;
  m.moe = read_experts(f, {"num_local_experts", "num_experts"}, 4, {"intermediate_size"});
  m.moe->router_bias = true;
  m.expert_bias = true;
  if (f.is_null({"sliding_window"})) return m;
  std::vector<bool> windowed = all_layers(m, true);
  for (std::size_t i = 1; i < windowed.size(); i += 2) windowed[i] = false;
  read_window(f, m, std::move(windowed), f.size_or("attention.window", {"sliding_window"}, 128));
  return m;
}

}  // namespace meshplan::hf
