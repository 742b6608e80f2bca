#include "cost/activations.hpp"

#include <algorithm>

#include "spec/expert_load.hpp"

namespace meshplan {
namespace {

double real(std::int64_t n) { return static_cast<double>(n); }

// Bytes of an input that a linear layer keeps for its weight gradient: fp8 layers keep the cast
// copy (Transformer Engine), others the bf16 tensor.
double kept(const BlockContext& x) {
  return x.strategy.precision == Precision::kFp8 ? 1 : x.shape.bytes;
}

// The input that a column-parallel layer keeps: this rank's share of the sequence, or all of it
// where the gathered copy is saved.
double kept_input(const BlockContext& x) {
  const bool gathered = x.strategy.sequence_parallel && !x.strategy.kernels.tp_recompute_allgather;
  return kept(x) * real(gathered ? x.shape.tokens : x.shape.norm_tokens) * real(x.shape.hidden);
}

double hidden_mask(const BlockContext& x) {
  return x.model.dropout > 0 ? real(x.shape.norm_tokens) * real(x.shape.hidden) : 0;
}

// A norm keeps its input (e bytes per element); without a fused kernel also fp32 intermediates:
// the cast input, its square root's product and the normalised tensor.
double norm_bytes(const BlockContext& x, double elements) {
  return elements * (x.shape.bytes + (x.strategy.kernels.fused_norm ? 0 : 10));
}

// Scores of materialised attention.
double num_scores(const BlockContext& x) {
  if (x.strategy.flash_attention) return 0;
  const LocalShape& l = x.shape;
  return real(x.strategy.micro_batch) * real(l.heads) * real(l.sequence) * real(x.strategy.seq_len);
}

// What is saved of them: softmax output, and dropout's mask and output (5 a s^2 b of 2205.05198
// eq. 2). Separate kernels keep the softmax output in fp32 besides its 16-bit copy.
double score_bytes(const BlockContext& x) {
  const LocalShape& l = x.shape;
  const double scores = num_scores(x);
  double per_score = l.bytes;
  if (x.model.dropout > 0) per_score += 1 + l.bytes;
  if (l.bytes < 4 && !softmax_is_fused(x)) per_score += 4;
  return per_score * scores;
}

double projections_bytes(const BlockContext& x) {
  const LocalShape& l = x.shape;
  const double t = real(l.tokens), e = l.bytes;
  double bytes =
      t * e * (real(l.query_size) + real(l.kv_size) + real(x.model.mla ? l.value_size : l.kv_size));
  if (const auto& mla = x.model.mla) {
    // Latents and their norms (replicated over tensor ranks, split with sequence parallelism).
    bytes += real(l.norm_tokens) * e * 2 * real(mla->q_lora_rank + mla->kv_lora_rank);
  }
  if (x.model.qk_norm) bytes += t * e * (real(l.query_size) + real(l.kv_size));
  return bytes;
}

double attention_bytes(const BlockContext& x) {
  const LocalShape& l = x.shape;
  const double norm = real(l.norm_tokens) * real(l.hidden), t = real(l.tokens);
  double bytes = norm_bytes(x, norm) + kept_input(x) + projections_bytes(x);
  bytes += score_bytes(x);
  if (x.strategy.flash_attention) bytes += 4 * t * real(l.heads);  // log-sum-exp, fp32
  bytes += kept(x) * t * real(l.value_size);  // attention's output, input of the projection
  if (x.strategy.flash_attention && kept(x) < l.bytes) bytes += l.bytes * t * real(l.value_size);
  return bytes + hidden_mask(x);
}

// Input of the down projection, and what the activation function needs: both gated halves or the
// plain input; eager gated code also keeps the activated half.
double activation_function_bytes(const BlockContext& x, double features) {
  const double e = x.shape.bytes;
  const double in = x.model.gated_mlp ? 2 : 1;
  const double extra = x.model.gated_mlp && !x.strategy.kernels.fused_activation ? 1 : 0;
  return features * (e * (in + extra) + kept(x));
}

double dense_mlp_bytes(const BlockContext& x) {
  const LocalShape& l = x.shape;
  const double norm = real(l.norm_tokens) * real(l.hidden);
  double bytes = activation_function_bytes(x, real(l.tokens) * real(l.ffn)) + hidden_mask(x);
  if (!(x.model.parallel_block && x.model.parallel_shared_norm)) {
    bytes += norm_bytes(x, norm) + kept_input(x);
  }
  return bytes;
}

// Token copies that the busiest expert-parallel rank receives. Memory must suffice in bad layers
// too: the 99th percentile of [F-MOE-2], or [F-MOE-3].
double received_tokens(const BlockContext& x) {
  const MoeSpec& moe = *x.model.moe;
  return real(x.shape.norm_tokens) * real(moe.top_k) * rank_load(moe, x.strategy.ep).p99;
}

// Routed experts: permuted inputs, the experts' hidden features, router logits and probabilities in
// fp32; shared experts as a dense MLP. The probabilities weigh the hidden features (Megatron-Core
// moe/experts.py, since 0.12), so the sum over copies needs no saved outputs.
double moe_bytes(const BlockContext& x) {
  const LocalShape& l = x.shape;
  const MoeSpec& moe = *x.model.moe;
  const Strategy& s = x.strategy;
  const double norm = real(l.norm_tokens) * real(l.hidden);
  const double routed = received_tokens(x);
  const double gathered = s.etp > 1 && s.sequence_parallel ? real(s.etp) : 1;
  double bytes = norm_bytes(x, norm) + kept(x) * norm;
  bytes += routed * gathered * real(l.hidden) * kept(x);
  bytes += activation_function_bytes(
      x, routed * gathered * real(ceil_div(moe.expert_ffn_hidden_size, s.etp)));
  bytes += real(l.norm_tokens) * real(moe.num_experts) * 8;
  const std::int64_t shared = ceil_div(moe.shared_expert_ffn_hidden_size, s.tp);
  return bytes + activation_function_bytes(x, real(l.tokens) * real(shared));
}

// What selective recomputation drops. Materialised attention: scores and dropout (2205.05198
// sec. 5). Fused attention has none; there Megatron-Core's modules layernorm, mlp or moe_act and
// mla_up_proj are meant: outputs of norms and activation function, and of the up-projections of
// latent attention.
double recomputed(const BlockContext& x, bool moe) {
  const LocalShape& l = x.shape;
  if (!x.strategy.flash_attention) return score_bytes(x);
  const double norms = x.model.parallel_block && x.model.parallel_shared_norm ? 1 : 2;
  double bytes = norms * kept_input(x);
  double features = real(l.tokens) * real(l.ffn);
  if (moe) {
    const MoeSpec& e = *x.model.moe;
    const Strategy& s = x.strategy;
    const double gathered = s.etp > 1 && s.sequence_parallel ? real(s.etp) : 1;
    features = received_tokens(x) * gathered * real(ceil_div(e.expert_ffn_hidden_size, s.etp)) +
               real(l.tokens) * real(ceil_div(e.shared_expert_ffn_hidden_size, s.tp));
  }
  bytes += kept(x) * features;
  if (x.model.mla) {
    bytes += real(l.tokens) * l.bytes * real(l.query_size + l.kv_size + l.value_size);
  }
  return bytes;
}

}  // namespace

SavedActivations layer_activations(const BlockContext& x, bool moe) {
  const double all = attention_bytes(x) + (moe ? moe_bytes(x) : dense_mlp_bytes(x));
  const double input = x.shape.bytes * real(x.shape.norm_tokens) * real(x.shape.hidden);
  SavedActivations saved;
  saved.none = ceil_bytes(all);
  saved.selective = ceil_bytes(all - recomputed(x, moe));
  saved.full = ceil_bytes(input);
  return saved;
}

SavedActivations embedding_activations(const BlockContext& x) {
  // Token ids (8 bytes), and the dropout mask.
  const Bytes bytes = ceil_bytes(8 * real(x.shape.tokens) + hidden_mask(x));
  return {bytes, bytes, bytes};
}

SavedActivations head_activations(const BlockContext& x) {
  const double norm = real(x.shape.norm_tokens) * real(x.shape.hidden);
  const Bytes bytes = ceil_bytes(norm_bytes(x, norm) + kept_input(x));
  return {bytes, bytes, bytes};
}

Bytes layer_working_set(const BlockContext& x, bool moe) {
  const LocalShape& l = x.shape;
  const double t = real(l.tokens), e = l.bytes;
  double features = real(l.ffn) * t;
  if (moe) {
    features =
        received_tokens(x) * real(ceil_div(x.model.moe->expert_ffn_hidden_size, x.strategy.etp));
  }
  // Gradients of the widest features (both gated halves and the product), and of the gathered
  // input and output of the layer.
  const double widest = features * (x.model.gated_mlp ? 3 : 2) * e;
  double bytes = widest + 3 * e * t * real(l.hidden);
  // Or the gradients of an operation's scores going in and coming out.
  bytes = std::max(bytes, 2 * e * num_scores(x) + 2 * e * t * real(l.hidden));
  return ceil_bytes(bytes);
}

Bytes head_working_set(const BlockContext& x) {
  const LocalShape& l = x.shape;
  const bool gathered = x.strategy.kernels.gathered_logits;
  const double logits = real(l.tokens) * real(gathered ? l.vocab * x.strategy.tp : l.vocab);
  // In place: the logits, and room for as much beside them. Fused: the logits, later their
  // gradient, and the fp32 copy that becomes softmax (megatron/core/fusions/
  // fused_cross_entropy.py). Else the logits, their fp32 copy, and the fp32
  // softmax that becomes the gradient (Megatron-LM 2.x and 3, cross_entropy.py). PyTorch's own loss
  // keeps the logarithms alone and makes two gradients of them: 14 bytes in bf16, chosen before 16
  // and 18 by which of Aleph Alpha's runs fitted their devices.
  // On the whole vocabulary, the logits freed, it is the logarithms and both gradients (aten/src/
  // ATen/native/cuda/SoftMax.cu; measured on one H200, scripts/gpu_reference.py).
  const Kernels& k = x.strategy.kernels;
  double per_logit = l.bytes + (k.fused_cross_entropy ? 4.0 : 8.0);
  if (k.torch_cross_entropy && !k.fused_cross_entropy) per_logit = 12.0;
  if (k.fused_cross_entropy && k.inplace_cross_entropy) per_logit = 2.0 * l.bytes;
  if (gathered) per_logit = l.bytes + 12.0;
  return ceil_bytes(per_logit * logits + l.bytes * real(l.tokens) * real(l.hidden));
}

}  // namespace meshplan
