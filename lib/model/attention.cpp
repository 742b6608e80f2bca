// Grouped-query attention, which multi-head and multi-query attention are the ends of, over all
// tokens before or a sliding window of them.
#include <array>

#include "model/attention_core.hpp"

namespace meshplan {
namespace {

std::int64_t value_dim(const AttentionSpec& kind) {
  return kind.v_head_dim > 0 ? kind.v_head_dim : kind.head_dim;
}

// Columns of the projection that values have: none where they are the keys.
std::int64_t projected_values(const AttentionSpec& kind, std::int64_t groups) {
  return kind.shared_values ? 0 : groups * value_dim(kind);
}

HeadShape heads_of(const AttentionSpec& kind, const Strategy& s) {
  HeadShape h;
  h.heads = ceil_div(kind.num_attention_heads, s.tp);
  h.groups = ceil_div(kind.num_query_groups, s.tp);
  h.query_size = h.heads * kind.head_dim;
  h.value_size = h.heads * value_dim(kind);
  h.key_size = h.groups * kind.head_dim;
  h.sent_values = projected_values(kind, h.groups);
  h.window = kind.window;
  h.chunked = kind.chunked;
  h.top_k = kind.index.top_k;
  h.output_gate = kind.output_gate;
  h.bidirectional = kind.bidirectional;
  return h;
}

// Elements of queries and keys that rotate, of all of them.
double rotary_share(const AttentionSpec& kind, const ModelSpec& m) {
  return kind.rotary_dim < 0 ? m.rotary_percent : real(kind.rotary_dim) / real(kind.head_dim);
}

// Queries through a latent, which every tensor rank projects for itself, keys and values by a
// product of their own.
LinearTimes append_through_latent(const BlockContext& x, std::int64_t rank, std::int64_t queries,
                                  const HeadShape& h, bool bias, BlockOps& ops) {
  const LocalShape& l = x.shape;
  const AdapterSite q_down{.layer = LoraTarget::kQDown}, q_up{.layer = LoraTarget::kQUp};
  append_linear(x, "q down", l.norm_tokens, rank, l.hidden, false, ops, 1, &q_down);
  append_norm(x, "q norm", l.norm_tokens * rank, ops);
  AdapterSite site{.layer = LoraTarget::kQkv};
  site.parts = {
      {{LoraTarget::kQ, 0}, {LoraTarget::kK, h.key_size}, {LoraTarget::kV, h.sent_values}}};
  const std::array<Projection, 2> parts{{{"key", h.key_size}, {"value", h.sent_values}}};
  const LinearTimes kv =
      append_split_linear(x, "key value", parts, l.tokens, l.hidden, bias, ops, site);
  const LinearTimes q = append_linear(x, "q up", l.tokens, queries, rank, bias, ops, 1, &q_up);
  return {q.forward + kv.forward, q.backward_input + kv.backward_input,
          q.backward_weight + kv.backward_weight};
}

LinearTimes append_direct(const BlockContext& x, std::int64_t queries, const HeadShape& h,
                          bool bias, BlockOps& ops) {
  AdapterSite site{.layer = LoraTarget::kQkv};
  site.parts = {
      {{LoraTarget::kQ, queries}, {LoraTarget::kK, h.key_size}, {LoraTarget::kV, h.sent_values}}};
  const std::array<Projection, 3> parts{
      {{"query", queries}, {"key", h.key_size}, {"value", h.sent_values}}};
  return append_split_linear(x, "qkv", parts, x.shape.tokens, x.shape.hidden, bias, ops, site);
}

LinearTimes append_qkv(const BlockContext& x, const AttentionSpec& kind, const HeadShape& h,
                       BlockOps& ops) {
  const LocalShape& l = x.shape;
  const bool bias = x.model.linear_bias || x.model.qkv_bias;
  const std::int64_t queries = h.query_size + (h.output_gate ? h.value_size : 0);
  const std::int64_t columns = queries + h.key_size + h.sent_values;
  const LinearTimes column = kind.q_lora_rank > 0
                                 ? append_through_latent(x, kind.q_lora_rank, queries, h, bias, ops)
                                 : append_direct(x, queries, h, bias, ops);
  repeat_product(x, "qkv", real(h.key_size) / real(columns), ops);
  repeat_product(x, "key", 1, ops);
  const double qkv = real(l.tokens) * real(columns);
  append_elementwise(x, "qkv layout", 2 * l.bytes * qkv, 1, 2 * l.bytes * qkv, 1, ops);
  const double qk = real(l.tokens) * real(h.query_size + h.key_size);
  if (x.model.qk_norm) append_norm(x, "qk norm", l.tokens * (h.query_size + h.key_size), ops);
  append_rotary(x, qk * rotary_share(kind, x.model), ops);
  return column;
}

}  // namespace

// [F-PAR-1] Queries h*a*d, or through a latent of rank r h*r + r + r*a*d; keys and values 2*h*g*d,
// output a*d*h; biases follow the outputs. The output bias is added after the tensor-parallel
// reduction, so every tensor rank holds it. Vaswani et al. 2017 sec. 3.2.2; Ainslie et al. 2023
// (GQA); Shoeybi et al. 2019 sec. 3.
void add_parameters(const AttentionSpec& kind, const ModelSpec& m, LayerParameters& p) {
  const std::int64_t h = m.hidden_size;
  const std::int64_t outputs = kind.num_attention_heads * value_dim(kind);
  const std::int64_t queries =
      kind.num_attention_heads * kind.head_dim + (kind.output_gate ? outputs : 0);
  const std::int64_t keys_values =
      kind.num_query_groups * kind.head_dim + projected_values(kind, kind.num_query_groups);
  const std::int64_t query_input = kind.q_lora_rank > 0 ? kind.q_lora_rank : h;
  p.attention_linear += query_input * queries + h * keys_values + outputs * h;
  p.attention_other += h * kind.q_lora_rank + norm_parameters(m, kind.q_lora_rank);
  if (m.linear_bias || m.qkv_bias) p.attention_linear += queries + keys_values;
  add_index_parameters(kind.index, m, h, p);
  add_output_bias(m, kind.num_attention_heads, p);
  if (m.qk_norm) p.attention_other += 2 * norm_parameters(m, kind.head_dim);
}

// Key and value heads are copied to every tensor rank beyond their number.
std::int64_t copied_parameters(const AttentionSpec& kind, const ModelSpec& m, std::int64_t tp) {
  if (tp <= kind.num_query_groups) return 0;
  const std::int64_t one = m.hidden_size * (kind.head_dim + projected_values(kind, 1));
  return one - one * kind.num_query_groups / tp;
}

double token_flops(const AttentionSpec& kind, std::int64_t seq_len) {
  return score_flops(kind.num_attention_heads, real(kind.head_dim), real(value_dim(kind)),
                     seen_tokens(kind.window, kind.index), seq_len) +
         index_token_flops(kind.index, seq_len);
}

double causal_token_flops(const AttentionSpec& kind, std::int64_t seq_len) {
  return causal_score_flops(kind.num_attention_heads, real(kind.head_dim), real(value_dim(kind)),
                            seen_tokens(kind.window, kind.index), seq_len) +
         index_token_flops(kind.index, seq_len) * causal_fraction(seq_len, seq_len, 0);
}

void append_operations(const AttentionSpec& kind, const BlockContext& x, BlockOps& ops) {
  const HeadShape heads = heads_of(kind, x.strategy);
  append_residual_norm(x, "input norm", ops);
  const LinearTimes column = append_qkv(x, kind, heads, ops);
  append_index(x, kind.index, x.shape.hidden, ops);
  append_scores(x, heads, ops);
  append_attention_output(x, heads, column, ops);
}

KeptBytes saved_bytes(const AttentionSpec& kind, const BlockContext& x) {
  const HeadShape h = heads_of(kind, x.strategy);
  const double t = real(x.shape.tokens), e = x.shape.bytes;
  double projections = t * e * (real(h.query_size) + real(h.key_size) + real(h.sent_values));
  if (x.model.qk_norm) projections += t * e * (real(h.query_size) + real(h.key_size));
  projections += real(x.shape.norm_tokens) * e * 2 * real(kind.q_lora_rank);
  projections += index_saved_bytes(x, kind.index);
  LoraTargets first = kQkvTargets;
  if (kind.q_lora_rank > 0) first.insert(LoraTarget::kQDown);
  return attention_saved_bytes(x, h, projections, 0, false, first);
}

double temporary_bytes(const AttentionSpec& kind, const BlockContext& x) {
  return score_temporary_bytes(x, heads_of(kind, x.strategy).heads);
}

}  // namespace meshplan
