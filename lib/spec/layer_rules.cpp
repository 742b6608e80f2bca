#include "spec/layer_rules.hpp"

#include <algorithm>
#include <string>

#include "base/units.hpp"

namespace meshplan {
namespace {

// T:1447; the same for latent attention, whose heads are split the same way.
void check_heads(std::int64_t heads, const Plan& p, Findings& f) {
  must_divide(f, {"tp"}, p.s.tp, heads, "attention heads");
}

// Ulysses splits heads; a ring and a gather do not care.
void check_ulysses(std::int64_t heads, std::int64_t groups, const Plan& p, Findings& f) {
  const std::int64_t ranks = product({p.s.tp, p.s.cp});
  if (p.s.cp_kind != CpKind::kUlysses || (heads % ranks == 0 && groups % ranks == 0)) return;
  f.error({"cp", "tp"},
          "cp_kind ulysses needs tp * cp = " + std::to_string(ranks) + " to divide the " +
              std::to_string(heads) + " attention heads and the " + std::to_string(groups) +
              " query groups",
          "cp_kind=ring");
}

// Layers with a state exchange tokens for heads around their scan, whatever attention does.
void check_state_heads(std::int64_t heads, const Plan& p, const char* what, Findings& f) {
  const std::int64_t ranks = product({p.s.tp, p.s.cp});
  if (heads % ranks == 0) return;
  f.error({"cp", "tp"}, "tp * cp = " + std::to_string(ranks) + " must divide the " +
                            std::to_string(heads) + " " + what +
                            ": context-parallel ranks exchange tokens for heads");
}

double score_width(std::int64_t heads, const Plan& p) {
  return p.s.flash_attention ? 0 : real(heads) * real(p.s.seq_len);
}

}  // namespace

// T:1465: groups are split, or copied where there are fewer of them than tensor ranks.
void check_split(const AttentionSpec& kind, const Plan& p, Findings& f) {
  check_heads(kind.num_attention_heads, p, f);
  const std::int64_t groups = kind.num_query_groups;
  if (groups % p.s.tp == 0 || p.s.tp % groups == 0) return;
  f.error({"tp"}, "'tp' must divide the " + std::to_string(groups) +
                      " query groups or be a multiple of them, got " + std::to_string(p.s.tp));
}

void check_split(const LatentAttentionSpec& kind, const Plan& p, Findings& f) {
  check_heads(kind.num_attention_heads, p, f);
}

// Spans of tokens that entries pool are whole (Primus transformer/compressor.py).
void check_split(const CompressedAttentionSpec& kind, const Plan& p, Findings& f) {
  check_heads(kind.num_attention_heads, p, f);
  must_divide(f, {"tp"}, p.s.tp, kind.o_groups, "groups of the output projection");
  if (kind.compress_ratio == 0 || p.s.seq_len % kind.compress_ratio == 0) return;
  f.error({"seq_len"}, "compressed attention needs 'seq_len' to be a multiple of the " +
                           std::to_string(kind.compress_ratio) + " tokens of an entry, got " +
                           std::to_string(p.s.seq_len));
}

// core/ssm/mamba_mixer.py: every tensor rank gets whole heads and whole groups.
void check_split(const Mamba2Spec& kind, const Plan& p, Findings& f) {
  must_divide(f, {"tp"}, p.s.tp, kind.num_heads, "Mamba heads");
  must_divide(f, {"tp"}, p.s.tp, kind.num_groups, "Mamba groups");
}

void check_split(const ParallelMixerSpec& kind, const Plan& p, Findings& f) {
  check_split(kind.attention, p, f);
  check_split(kind.mamba, p, f);
}

void check_split(const MambaSpec& kind, const Plan& p, Findings& f) {
  must_divide(f, {"tp"}, p.s.tp, kind.inner_size, "channels of Mamba");
}

// core/ssm/gated_delta_net/common.py.
void check_split(const GatedDeltaNetSpec& kind, const Plan& p, Findings& f) {
  must_divide(f, {"tp"}, p.s.tp, kind.num_key_heads, "key heads of linear attention");
  must_divide(f, {"tp"}, p.s.tp, kind.num_value_heads, "value heads of linear attention");
}

void check_split(const LightningSpec& kind, const Plan& p, Findings& f) {
  must_divide(f, {"tp"}, p.s.tp, kind.num_heads, "heads of linear attention");
}

void check_split(const NoneSpec&, const Plan&, Findings&) {}

// core/utils.py divide(), called when the layers are built.
void check_split(const DenseMlpSpec& kind, const Plan& p, Findings& f) {
  must_divide(f, {"tp"}, p.s.tp, kind.ffn_hidden_size, "columns of 'ffn_hidden_size'");
}

void check_split(const MoeSpec& kind, const Plan& p, Findings& f) {
  must_divide(f, {"tp"}, p.s.tp, kind.shared_expert_ffn_hidden_size,
              "columns of 'moe.shared_expert_ffn_hidden_size'");
  must_divide(f, {"etp"}, p.s.etp, kind.expert_ffn_hidden_size,
              "columns of 'moe.expert_ffn_hidden_size'");
}

void check_context_split(const AttentionSpec& kind, const Plan& p, Findings& f) {
  check_ulysses(kind.num_attention_heads, kind.num_query_groups, p, f);
}

void check_context_split(const LatentAttentionSpec& kind, const Plan& p, Findings& f) {
  check_ulysses(kind.num_attention_heads, kind.num_attention_heads, p, f);
}

void check_context_split(const CompressedAttentionSpec&, const Plan&, Findings& f) {
  f.error({"cp"}, "no training code splits the sequence of compressed attention over ranks",
          "cp=1");
}

// core/ssm/mamba_context_parallel.py: groups that are fewer than ranks are copied.
void check_context_split(const Mamba2Spec& kind, const Plan& p, Findings& f) {
  check_state_heads(kind.num_heads, p, "Mamba heads", f);
  const std::int64_t groups = kind.num_groups / p.s.tp;
  if (groups == 0 || groups % p.s.cp == 0 || p.s.cp % groups == 0) return;
  f.error({"cp"}, "'cp' must divide the " + std::to_string(groups) +
                      " Mamba groups of a tensor rank or be a multiple of them, got " +
                      std::to_string(p.s.cp));
}

void check_context_split(const ParallelMixerSpec& kind, const Plan& p, Findings& f) {
  check_context_split(kind.attention, p, f);
  check_context_split(kind.mamba, p, f);
}

void check_context_split(const MambaSpec& kind, const Plan& p, Findings& f) {
  check_state_heads(kind.inner_size, p, "channels of Mamba", f);
}

void check_context_split(const GatedDeltaNetSpec& kind, const Plan& p, Findings& f) {
  check_state_heads(kind.num_key_heads, p, "key heads of linear attention", f);
  check_state_heads(kind.num_value_heads, p, "value heads of linear attention", f);
}

void check_context_split(const LightningSpec& kind, const Plan& p, Findings& f) {
  check_state_heads(kind.num_heads, p, "heads of linear attention", f);
}

void check_context_split(const NoneSpec&, const Plan&, Findings&) {}

double tensor_width(const AttentionSpec& kind, const Plan& p) {
  return real(kind.num_attention_heads) * (real(kind.head_dim) + real(kind.v_head_dim)) +
         real(kind.index.heads) * real(kind.index.head_dim) +
         score_width(kind.num_attention_heads, p);
}

double tensor_width(const LatentAttentionSpec& kind, const Plan& p) {
  const MlaSpec& mla = kind.sizes;
  return real(mla.q_lora_rank) + real(mla.kv_lora_rank) +
         real(kind.num_attention_heads) *
             (2 * real(mla.qk_nope_head_dim + mla.qk_rope_head_dim) + real(mla.v_head_dim)) +
         real(mla.index.heads) * real(mla.index.head_dim) +
         score_width(kind.num_attention_heads, p);
}

double tensor_width(const CompressedAttentionSpec& kind, const Plan& p) {
  const double heads = real(kind.num_attention_heads);
  return real(kind.q_lora_rank) + 4 * real(kind.head_dim) + 2 * heads * real(kind.head_dim) +
         real(kind.o_groups) * real(kind.o_lora_rank) +
         real(kind.index.heads) * real(kind.index.head_dim) +
         score_width(kind.num_attention_heads, p);
}

// Channels, and of every chunk of tokens one state of all heads.
double tensor_width(const Mamba2Spec& kind, const Plan&) {
  const double inner = real(kind.num_heads) * real(kind.head_dim), state = real(kind.state_size);
  return 2 * inner + 2 * real(kind.num_groups) * state + 2 * inner * state / real(kind.chunk_size);
}

double tensor_width(const ParallelMixerSpec& kind, const Plan& p) {
  return tensor_width(kind.attention, p) + tensor_width(kind.mamba, p);
}

double tensor_width(const MambaSpec& kind, const Plan&) {
  return 4 * real(kind.inner_size) + real(kind.dt_rank) + 2 * real(kind.state_size);
}

double tensor_width(const GatedDeltaNetSpec& kind, const Plan&) {
  constexpr double kChunk = 64;
  const double heads = real(std::max(kind.num_key_heads, kind.num_value_heads));
  const double keys = real(kind.key_head_dim), values = real(kind.value_head_dim);
  return heads * (4 * (keys + values) + kChunk + keys * values / kChunk);
}

double tensor_width(const LightningSpec& kind, const Plan&) {
  return 5 * real(kind.num_heads) * real(kind.head_dim);
}

double tensor_width(const NoneSpec&, const Plan&) { return 0; }

double tensor_width(const DenseMlpSpec& kind, const Plan&) { return real(kind.ffn_hidden_size); }

double tensor_width(const MoeSpec& moe, const Plan& p) {
  const std::int64_t input = moe.latent_size > 0 ? moe.latent_size : p.m.hidden_size;
  const double experts = real(moe.top_k) * (real(input) + real(moe.expert_ffn_hidden_size));
  return experts * moe.imbalance + real(moe.shared_expert_ffn_hidden_size) + real(moe.num_experts);
}

}  // namespace meshplan
