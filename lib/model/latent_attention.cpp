// Multi-head latent attention (DeepSeek-V2, 2405.04434): queries, keys and values are projected
// from latents of few elements.
#include "model/attention_core.hpp"

namespace meshplan {
namespace {

HeadShape heads_of(const LatentAttentionSpec& kind, const Strategy& s) {
  HeadShape h;
  h.heads = h.groups = ceil_div(kind.num_attention_heads, s.tp);
  h.query_size = h.heads * (kind.sizes.qk_nope_head_dim + kind.sizes.qk_rope_head_dim);
  h.key_size = h.query_size;
  h.value_size = h.sent_values = h.heads * kind.sizes.v_head_dim;
  h.window = kind.window;
  h.top_k = kind.sizes.index.top_k;
  h.output_gate = kind.sizes.output_gate;
  return h;
}

LinearTimes append_projections(const BlockContext& x, const MlaSpec& mla, const HeadShape& h,
                               BlockOps& ops) {
  const LocalShape& l = x.shape;
  const std::int64_t heads_qk = h.query_size;
  if (mla.q_lora_rank > 0) {
    const AdapterSite q_down{.layer = LoraTarget::kQDown};
    append_linear(x, "q down", l.norm_tokens, mla.q_lora_rank, l.hidden, false, ops, 1, &q_down);
    append_norm(x, "q norm", l.norm_tokens * mla.q_lora_rank, ops);
  }
  const AdapterSite kv_down{.layer = LoraTarget::kKvDown};
  append_linear(x, "kv down", l.norm_tokens, mla.kv_lora_rank + mla.qk_rope_head_dim, l.hidden,
                false, ops, 1, &kv_down);
  append_norm(x, "kv norm", l.norm_tokens * mla.kv_lora_rank, ops);
  const std::int64_t query_input = mla.q_lora_rank > 0 ? mla.q_lora_rank : l.hidden;
  append_index(x, mla.index, query_input, ops);
  if (h.output_gate) append_linear(x, "gate", l.tokens, h.value_size, l.hidden, false, ops);
  const PartBegin up = part_begin(ops);
  const AdapterSite q_up{.layer = mla.q_lora_rank > 0 ? LoraTarget::kQUp : LoraTarget::kQ};
  const AdapterSite kv_up{.layer = LoraTarget::kKvUp};
  const LinearTimes q =
      append_linear(x, "q up", l.tokens, heads_qk, query_input, false, ops, 1, &q_up);
  const LinearTimes kv =
      append_linear(x, "kv up", l.tokens, h.heads * (mla.qk_nope_head_dim + mla.v_head_dim),
                    mla.kv_lora_rank, false, ops, 1, &kv_up);
  const double latents = real(l.tokens) * real(2 * h.query_size + h.value_size);
  if (x.strategy.runtime.fused_latent_rope) {
    // [F-MLA-2] One kernel rotates the queries in place, one reads what the projection made of keys
    // and values and writes both, rotated; backward the same the other way.
    const double made = real(l.tokens) * real(h.heads * (mla.qk_nope_head_dim + mla.v_head_dim));
    const double rotated = real(l.tokens) * real(h.heads * mla.qk_rope_head_dim);
    const double keys_values = real(l.tokens) * real(h.query_size + h.value_size);
    const double bytes = l.bytes * (2 * rotated + made + keys_values);
    append_elementwise(x, "mla layout", bytes, 2, bytes, 2, ops);
  } else {
    // Concatenation of the rotary and the other part of queries and keys.
    append_elementwise(x, "mla layout", 2 * l.bytes * latents, 2, 2 * l.bytes * latents, 2, ops);
    append_rotary(x, real(l.tokens) * real((h.heads + 1) * mla.qk_rope_head_dim), ops);
  }
  // Selective recomputation repeats the up-projections (Megatron-Core's mla_up_proj module).
  if (repeats(x, RecomputeModule::kMlaUpProj, x.strategy.flash_attention)) repeat_part(up, ops);
  return LinearTimes{q.forward + kv.forward, q.backward_input + kv.backward_input,
                     q.backward_weight + kv.backward_weight};
}

}  // namespace

// [F-PAR-2] Multi-head latent attention: down projections h*q_r and h*(kv_r + d_rope) with a norm
// over each latent (RMSNorm), up projections q_r*a*(d_nope + d_rope) and kv_r*a*(d_nope + d_v),
// output a*d_v*h. DeepSeek-V2 (2405.04434) sec. 2.1, app. C; the latent projections are copied on
// every tensor rank (Megatron-LM multi_latent_attention.py, parallel_mode "duplicated").
void add_parameters(const LatentAttentionSpec& kind, const ModelSpec& m, LayerParameters& p) {
  const MlaSpec& mla = kind.sizes;
  const std::int64_t h = m.hidden_size;
  const std::int64_t a = kind.num_attention_heads;
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
  if (mla.output_gate) p.attention_linear += h * a * mla.v_head_dim;
  add_index_parameters(mla.index, m, query_input, p);
  add_output_bias(m, a, p);
}

std::int64_t copied_parameters(const LatentAttentionSpec&, const ModelSpec&, std::int64_t) {
  return 0;  // every head has keys and values of its own
}

double token_flops(const LatentAttentionSpec& kind, std::int64_t seq_len) {
  const double qk = real(kind.sizes.qk_nope_head_dim + kind.sizes.qk_rope_head_dim);
  return score_flops(kind.num_attention_heads, qk, real(kind.sizes.v_head_dim),
                     seen_tokens(kind.window, kind.sizes.index), seq_len) +
         index_token_flops(kind.sizes.index, seq_len);
}

double causal_token_flops(const LatentAttentionSpec& kind, std::int64_t seq_len) {
  const double qk = real(kind.sizes.qk_nope_head_dim + kind.sizes.qk_rope_head_dim);
  return causal_score_flops(kind.num_attention_heads, qk, real(kind.sizes.v_head_dim),
                            seen_tokens(kind.window, kind.sizes.index), seq_len) +
         index_token_flops(kind.sizes.index, seq_len) * causal_fraction(seq_len, seq_len, 0);
}

void append_operations(const LatentAttentionSpec& kind, const BlockContext& x, BlockOps& ops) {
  const HeadShape heads = heads_of(kind, x.strategy);
  append_residual_norm(x, "input norm", ops, true);
  const LinearTimes column = append_projections(x, kind.sizes, heads, ops);
  append_scores(x, heads, ops);
  append_attention_output(x, heads, column, ops);
}

KeptBytes saved_bytes(const LatentAttentionSpec& kind, const BlockContext& x) {
  const HeadShape h = heads_of(kind, x.strategy);
  const LocalShape& l = x.shape;
  const double t = real(l.tokens), e = l.bytes;
  double projections = t * e * (real(h.query_size) + real(h.key_size) + real(h.value_size));
  // Latents and their norms (replicated over tensor ranks, split with sequence parallelism).
  projections +=
      real(l.norm_tokens) * e * 2 * real(kind.sizes.q_lora_rank + kind.sizes.kv_lora_rank);
  if (x.model.qk_norm) projections += t * e * (real(h.query_size) + real(h.key_size));
  projections += index_saved_bytes(x, kind.sizes.index);
  const double repeated = t * e * real(h.query_size + h.key_size + h.value_size);
  return attention_saved_bytes(x, h, projections, repeated, true,
                               {LoraTarget::kQDown, LoraTarget::kQ, LoraTarget::kKvDown});
}

double temporary_bytes(const LatentAttentionSpec& kind, const BlockContext& x) {
  return score_temporary_bytes(x, heads_of(kind, x.strategy).heads);
}

}  // namespace meshplan
