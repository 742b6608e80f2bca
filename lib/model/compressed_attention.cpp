// Attention of DeepSeek-V4 over a window of tokens and over pooled entries of those before it.
#include <algorithm>

#include "model/attention_core.hpp"
#include "model/parts.hpp"

namespace meshplan {
namespace {

// Of the projection that pools: entries and their weights, and twice as many where an entry takes
// from two spans of tokens.
std::int64_t pooled_columns(const CompressedAttentionSpec& kind, std::int64_t head_dim) {
  return (kind.overlap ? 4 : 2) * head_dim;
}

// [F-CSA-2] Entries that a token sees in the mean: floor(t / r) of them are before token t, n = s /
// r in all, (n - 1) / 2 in the mean; of at most k that an index chooses k - k (k + 1) / 2n (Primus
// patches/deepseek_v4_flops_patches.py counts the same pairs, and k for every token).
double seen_entries(const CompressedAttentionSpec& kind, double tokens) {
  if (kind.compress_ratio == 0) return 0;
  const double all = tokens / real(kind.compress_ratio);
  const auto most = real(kind.index.top_k);
  if (most == 0 || most >= all) return std::max(0.0, all - 1) / 2;
  return most - most * (most + 1) / (2 * all);
}

double seen_window(const CompressedAttentionSpec& kind, std::int64_t tokens) {
  return real(tokens) * causal_fraction(tokens, tokens, kind.window);
}

HeadShape heads_of(const CompressedAttentionSpec& kind, const BlockContext& x) {
  HeadShape h;
  h.heads = ceil_div(kind.num_attention_heads, x.strategy.tp);
  h.groups = 1;
  h.query_size = h.value_size = h.heads * kind.head_dim;
  h.key_size = kind.head_dim;  // the values are the keys
  h.window = kind.window;
  h.seen = seen_window(kind, x.shape.document) + seen_entries(kind, real(x.shape.document));
  h.latent_output = ceil_div(kind.o_groups, x.strategy.tp) * kind.o_lora_rank;
  return h;
}

// [F-CSA-3] Entries of `head_dim` elements: a projection that stays outside of 8-bit layers
// (Primus transformer/compressor.py), a softmax over each span with learned positions and the
// weighted sum in one kernel, the norm of the entries.
void append_compressor(const BlockContext& x, const CompressedAttentionSpec& kind,
                       std::string_view name, std::int64_t head_dim, BlockOps& ops) {
  const LocalShape& l = x.shape;
  const Strategy wide = unquantised(x.strategy);
  const BlockContext plain{x.model, x.cluster, wide, x.shape, x.groups};
  const std::int64_t columns = pooled_columns(kind, head_dim);
  append_linear(plain, name, l.tokens, columns, l.hidden, false, ops);
  const double read = l.bytes * real(l.tokens) * real(columns);
  const std::int64_t entries = ceil_div(l.tokens, kind.compress_ratio) * head_dim;
  const double written = l.bytes * real(entries);
  append_elementwise(x, "pooling", read + written, 1, 2 * read + written, 1, ops);
  append_norm(x, "entry norm", entries, ops);
}

// One batched product over the groups of heads, in 16 bits (Primus deepseek_v4_attention.py,
// _grouped_o_projection).
void append_output_latents(const BlockContext& x, const CompressedAttentionSpec& kind,
                           const HeadShape& h, BlockOps& ops) {
  Strategy batched = unquantised(x.strategy);
  batched.runtime.grouped_kernel = true;
  const BlockContext plain{x.model, x.cluster, batched, x.shape, x.groups};
  const std::int64_t groups = ceil_div(kind.o_groups, x.strategy.tp);
  append_linear(plain, "output latents", x.shape.tokens, kind.o_lora_rank, h.value_size / groups,
                false, ops, groups);
}

LinearTimes append_projections(const BlockContext& x, const CompressedAttentionSpec& kind,
                               const HeadShape& h, BlockOps& ops) {
  const LocalShape& l = x.shape;
  const AdapterSite q_down{.layer = LoraTarget::kQDown}, q_up{.layer = LoraTarget::kQUp},
      kv{.layer = LoraTarget::kKvDown};
  append_linear(x, "q down", l.tokens, kind.q_lora_rank, l.hidden, false, ops, 1, &q_down);
  append_norm(x, "q norm", l.tokens * kind.q_lora_rank, ops);
  const PartBegin up = part_begin(ops);
  const LinearTimes q =
      append_linear(x, "q up", l.tokens, h.query_size, kind.q_lora_rank, false, ops, 1, &q_up);
  append_norm(x, "query norm", l.tokens * h.query_size, ops);
  append_linear(x, "kv", l.tokens, kind.head_dim, l.hidden, false, ops, 1, &kv);
  append_norm(x, "kv norm", l.tokens * kind.head_dim, ops);
  append_rotary(x, real(l.tokens) * real((h.heads + 1) * kind.rotary_dim), ops);
  if (repeats(x, RecomputeModule::kMlaUpProj, x.strategy.flash_attention)) repeat_part(up, ops);
  return q;
}

}  // namespace

// [F-CSA-1] h q_r + q_r a d for queries with the latent's norm, h d for the latent of keys and
// values with its norm, a d o_r + g o_r h for an output of g groups, a sink per head. Pooled:
// h 2 d c, learned positions r d c and a norm, c = 2 with overlap, else 1; an index has queries
// q_r a_i d_i, a weight per head h a_i, and entries of d_i of its own. Everything but the heads'
// projections is copied on every tensor rank (Primus transformer/deepseek_v4_attention.py,
// compressor.py; Megatron-Bridge models/deepseek/deepseek_v4_bridge.py names the same tensors).
void add_parameters(const CompressedAttentionSpec& kind, const ModelSpec& m, LayerParameters& p) {
  const std::int64_t h = m.hidden_size, a = kind.num_attention_heads, d = kind.head_dim;
  p.attention_linear += kind.q_lora_rank * a * d + a * d * kind.o_lora_rank +
                        kind.o_groups * kind.o_lora_rank * h + a;
  p.attention_other +=
      h * (kind.q_lora_rank + d) + norm_parameters(m, kind.q_lora_rank) + norm_parameters(m, d);
  const auto entries = [&](std::int64_t dim) {
    const std::int64_t spans = kind.overlap ? 2 : 1;
    return h * pooled_columns(kind, dim) + kind.compress_ratio * spans * dim +
           norm_parameters(m, dim);
  };
  if (kind.compress_ratio > 0) p.attention_other += entries(d);
  const IndexSpec& index = kind.index;
  if (index.top_k == 0) return;
  p.attention_other +=
      kind.q_lora_rank * index.heads * index.head_dim + h * index.heads + entries(index.head_dim);
}

std::int64_t copied_parameters(const CompressedAttentionSpec&, const ModelSpec&, std::int64_t) {
  return 0;  // keys and values are counted as copied
}

// As attention is counted where nothing is masked: window and entries whole, the index over all.
double token_flops(const CompressedAttentionSpec& kind, std::int64_t seq_len) {
  const double a = real(kind.num_attention_heads), d = real(kind.head_dim);
  double seen = real(std::min(kind.window, seq_len)), scored = 0;
  if (kind.compress_ratio > 0) {
    const double entries = real(seq_len) / real(kind.compress_ratio);
    const auto most = real(kind.index.top_k);
    seen += most > 0 ? std::min(most, entries) : entries;
    if (most > 0) scored = 2 * entries * real(kind.index.heads) * real(kind.index.head_dim);
  }
  return 4 * a * d * seen + scored;
}

double causal_token_flops(const CompressedAttentionSpec& kind, std::int64_t seq_len) {
  const double seen = seen_window(kind, seq_len) + seen_entries(kind, real(seq_len));
  double scored = 0;
  if (kind.index.top_k > 0) {
    scored = real(kind.index.heads) * real(kind.index.head_dim) * real(seq_len) /
             real(kind.compress_ratio);
  }
  return 4 * real(kind.num_attention_heads) * real(kind.head_dim) * seen + scored;
}

void append_operations(const CompressedAttentionSpec& kind, const BlockContext& x, BlockOps& ops) {
  const HeadShape heads = heads_of(kind, x);
  const LocalShape& l = x.shape;
  append_residual_norm(x, "input norm", ops, true);
  const LinearTimes column = append_projections(x, kind, heads, ops);
  if (kind.compress_ratio > 0) append_compressor(x, kind, "entries", kind.head_dim, ops);
  if (kind.index.top_k > 0) {
    const IndexSpec& index = kind.index;
    const std::int64_t width = index.heads * index.head_dim;
    append_linear(x, "index queries", l.tokens, width, kind.q_lora_rank, false, ops);
    append_linear(x, "index weights", l.tokens, index.heads, l.hidden, false, ops);
    append_compressor(x, kind, "index entries", index.head_dim, ops);
    append_rotary(x, real(l.tokens) * real(index.heads) * real(kind.rotary_dim), ops);
    append_index_scores(x, index, real(l.document) / (2 * real(kind.compress_ratio)), ops);
  }
  append_scores(x, heads, ops);
  // Keys are values: the output is rotated back by its own position (apply_rotary_emb, inverse).
  append_rotary(x, real(l.tokens) * real(heads.heads * kind.rotary_dim), ops);
  append_output_latents(x, kind, heads, ops);
  append_attention_output(x, heads, column, ops);
}

// [F-CSA-4] The latents before and behind their norms, queries before and behind theirs, what is
// pooled and the entries; attention's output as it is and rotated back, and the output's latents.
// Recomputed up-projections leave the queries and the latent of keys and values.
KeptBytes saved_bytes(const CompressedAttentionSpec& kind, const BlockContext& x) {
  const HeadShape h = heads_of(kind, x);
  const double t = real(x.shape.tokens), e = x.shape.bytes;
  const auto pooled = [&](std::int64_t dim) {
    if (kind.compress_ratio == 0) return 0.0;
    return real(pooled_columns(kind, dim)) + 2 * real(dim) / real(kind.compress_ratio);
  };
  const double repeated = t * e * 2 * real(h.query_size + kind.head_dim);
  double inside = repeated + t * e * (2 * real(kind.q_lora_rank) + pooled(kind.head_dim));
  if (kind.index.top_k > 0) {
    inside += t * e * pooled(kind.index.head_dim) +
              index_score_bytes(x, kind.index, seen_entries(kind, real(x.shape.document)));
  }
  inside += t * e * real(h.value_size) + kept(x, {LoraTarget::kProj}) * t * real(h.latent_output);
  return attention_saved_bytes(x, h, inside, repeated, true,
                               {LoraTarget::kQDown, LoraTarget::kKvDown});
}

double temporary_bytes(const CompressedAttentionSpec& kind, const BlockContext& x) {
  return score_temporary_bytes(x, heads_of(kind, x).heads);
}

}  // namespace meshplan
