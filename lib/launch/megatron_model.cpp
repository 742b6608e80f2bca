#include <algorithm>

#include "base/quantity.hpp"
#include "cost/chunks.hpp"
#include "frameworks/target.hpp"
#include "launch/megatron.hpp"
#include "spec/hybrid_pattern.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

void add_attention(const ModelSpec& m, Options& o) {
  o.push_back({"--num-attention-heads", std::to_string(m.num_attention_heads)});
  if (m.mla) {
    o.push_back({"--multi-latent-attention"});
    // Its default is no compression of the queries, as q_lora_rank 0 means.
    if (m.mla->q_lora_rank > 0) o.push_back({"--q-lora-rank", std::to_string(m.mla->q_lora_rank)});
    o.push_back({"--kv-lora-rank", std::to_string(m.mla->kv_lora_rank)});
    o.push_back({"--qk-head-dim", std::to_string(m.mla->qk_nope_head_dim)});
    o.push_back({"--qk-pos-emb-head-dim", std::to_string(m.mla->qk_rope_head_dim)});
    o.push_back({"--v-head-dim", std::to_string(m.mla->v_head_dim)});
    o.push_back({"--kv-channels", std::to_string(m.mla->v_head_dim)});
    o.push_back({"--qk-layernorm"});  // norms of the latents
    return;
  }
  o.push_back({"--kv-channels", std::to_string(m.head_dim)});
  // Without the first flag the second is ignored (A: num_query_groups).
  if (m.num_query_groups != m.num_attention_heads) {
    o.push_back({"--group-query-attention"});
    o.push_back({"--num-query-groups", std::to_string(m.num_query_groups)});
  }
  if (m.qk_norm) o.push_back({"--qk-layernorm"});
  if (m.attention_output_gate) o.push_back({"--attention-output-gate"});
  if (m.attention_sinks) o.push_back({"--softmax-type", "learnable"});
}

void add_window(const ModelSpec& m, Options& o) {
  if (m.window == 0) return;
  // Tokens to the left and to the right of each; the window of a model counts the token itself.
  o.push_back({"--window-size", std::to_string(m.window - 1) + ",0"});
  if (m.window_every == 1) return;
  o.push_back({"--window-attn-skip-freq",
               python_list(m.num_layers, [&](std::int64_t i) { return layer_is_windowed(m, i); })});
}

void add_mlp(const ModelSpec& m, Options& o) {
  o.push_back({"--ffn-hidden-size", std::to_string(m.ffn_hidden_size)});
  if (m.activation == Activation::kSilu) o.push_back({"--swiglu"});
  if (m.activation == Activation::kRelu2) o.push_back({"--squared-relu"});
  if (!all_linear_biased(m)) {
    o.push_back({"--disable-bias-linear"});
    if (m.qkv_bias) o.push_back({"--add-qkv-bias"});
  }
}

void add_experts(const ModelSpec& m, Options& o) {
  if (!m.moe) return;
  const MoeSpec& e = *m.moe;
  o.push_back({"--num-experts", std::to_string(e.num_experts)});
  o.push_back({"--moe-router-topk", std::to_string(e.top_k)});
  if (e.router_num_groups > 0) {
    o.push_back({"--moe-router-num-groups", std::to_string(e.router_num_groups)});
    o.push_back({"--moe-router-group-topk", std::to_string(e.router_group_top_k)});
  }
  o.push_back({"--moe-ffn-hidden-size", std::to_string(e.expert_ffn_hidden_size)});
  if (e.shared_expert_ffn_hidden_size > 0) {
    o.push_back(
        {"--moe-shared-expert-intermediate-size", std::to_string(e.shared_expert_ffn_hidden_size)});
  }
  if (e.latent_size > 0) o.push_back({"--moe-latent-size", std::to_string(e.latent_size)});
  if (m.layers.empty() && num_moe_layers(m) != m.num_layers) {
    o.push_back({"--moe-layer-freq", python_list(m.num_layers, [&](std::int64_t i) {
                   return layer_kind(m, i) == LayerKind::kMoe;
                 })});
  }
  o.push_back({"--moe-router-dtype", "fp32"});
  if (e.router_bias && !all_linear_biased(m)) {  // balanced by a correction per expert
    o.push_back({"--moe-router-score-function", "sigmoid"});
    o.push_back({"--moe-router-enable-expert-bias"});
    o.push_back({"--moe-router-load-balancing-type", "none"});
  } else {
    o.push_back({"--moe-router-load-balancing-type", "aux_loss"});
    o.push_back({"--moe-aux-loss-coeff", "0.01"});
    if (e.top_k == 1) o.push_back({"--moe-router-pre-softmax"});
  }
}

// Layers by letters, stages between bars, and what the letters stand for (A: hybrid_layer_pattern;
// core/models/hybrid/hybrid_layer_allocation.py).
void add_hybrid(const ModelSpec& m, const Strategy& s, Options& o) {
  std::vector<std::int64_t> stages;
  if (s.pp > 1) {
    for (const Chunk& chunk : chunk_plan(m, s)) stages.push_back(chunk.layers);
  }
  o.push_back({"--hybrid-layer-pattern", hybrid_pattern(m, stages).value_or("")});
  o.push_back({"--spec", "megatron.core.models.hybrid.hybrid_layer_specs", "hybrid_stack_spec"});
  for (const LayerSpec& layer : distinct_layers(m)) {
    if (const auto* mamba = std::get_if<Mamba2Spec>(&layer.mixer)) {
      o.push_back({"--mamba-num-heads", std::to_string(mamba->num_heads)});
      o.push_back({"--mamba-head-dim", std::to_string(mamba->head_dim)});
      o.push_back({"--mamba-state-dim", std::to_string(mamba->state_size)});
      o.push_back({"--mamba-num-groups", std::to_string(mamba->num_groups)});
    }
    if (const auto* delta = std::get_if<GatedDeltaNetSpec>(&layer.mixer)) {
      o.push_back({"--linear-num-key-heads", std::to_string(delta->num_key_heads)});
      o.push_back({"--linear-num-value-heads", std::to_string(delta->num_value_heads)});
      o.push_back({"--linear-key-head-dim", std::to_string(delta->key_head_dim)});
      o.push_back({"--linear-value-head-dim", std::to_string(delta->value_head_dim)});
      o.push_back({"--linear-conv-kernel-dim", std::to_string(delta->conv_kernel)});
    }
  }
}

void add_streams(const ModelSpec& m, Options& o) {
  if (m.mhc_num_residual_streams == 1) return;
  o.push_back({"--enable-mhc-connections"});
  o.push_back({"--mhc-num-residual-streams", std::to_string(m.mhc_num_residual_streams)});
  o.push_back({"--mhc-sinkhorn-iterations", std::to_string(m.mhc_sinkhorn_iterations)});
}

void add_positions(const ModelSpec& m, const Strategy& s, Options& o) {
  o.push_back({"--seq-length", std::to_string(s.seq_len)});
  o.push_back({"--max-position-embeddings",
               std::to_string(m.position_embedding == PositionEmbedding::kLearned
                                  ? m.max_seq_length
                                  : std::max(m.max_seq_length, s.seq_len))});
  switch (m.position_embedding) {
    case PositionEmbedding::kLearned:
      o.push_back({"--position-embedding-type", "learned_absolute"});
      break;
    case PositionEmbedding::kRope:
      o.push_back({"--position-embedding-type", "rope"});
      if (m.rotary_percent < 1) o.push_back({"--rotary-percent", key_text(m.rotary_percent)});
      // Fused rotary embedding of latent attention is for yarn only (T:3347).
      if (m.mla) {
        o.push_back({"--rope-type", s.runtime.fused_latent_rope ? "yarn" : "rope"});
        if (!s.runtime.fused_latent_rope) o.push_back({"--no-rope-fusion"});
      } else if (!s.runtime.fused_rope) {
        o.push_back({"--no-rope-fusion"});
      }
      break;
    case PositionEmbedding::kNone:
    case PositionEmbedding::kAlibi:
      o.push_back({"--position-embedding-type", "none"});
      break;
  }
}

}  // namespace

Options megatron_model_options(const ModelSpec& m, const Strategy& s) {
  Options o;
  o.push_back(
      {"--transformer-impl", s.runtime.transformer_engine ? "transformer_engine" : "local"});
  if (is_megatron_hybrid(m)) {
    add_hybrid(m, s, o);
  } else {
    o.push_back({"--num-layers", std::to_string(m.num_layers)});
  }
  o.push_back({"--hidden-size", std::to_string(m.hidden_size)});
  add_mlp(m, o);
  add_attention(m, o);
  add_window(m, o);
  add_streams(m, o);
  add_positions(m, s, o);
  o.push_back({"--normalization", m.norm == Norm::kRmsNorm ? "RMSNorm" : "LayerNorm"});
  if (!m.tied_embeddings) o.push_back({"--untie-embeddings-and-output-weights"});
  o.push_back({"--attention-dropout", key_text(m.dropout)});
  o.push_back({"--hidden-dropout", key_text(m.dropout)});
  o.push_back({"--vocab-size", std::to_string(m.vocab_size)});
  o.push_back({"--make-vocab-size-divisible-by", "128"});
  add_experts(m, o);
  if (m.mtp_layers > 0) o.push_back({"--mtp-num-layers", std::to_string(m.mtp_layers)});
  if (m.mtp_shared) o.push_back({"--mtp-use-repeated-layer"});
  return o;
}

}  // namespace meshplan
