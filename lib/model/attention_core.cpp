#include "model/attention_core.hpp"

#include <algorithm>
#include <cmath>

#include "comm/collectives.hpp"
#include "model/packing.hpp"
#include "model/quantisation.hpp"

namespace meshplan {
namespace {

// Of one call.
struct AttentionTimes {
  Seconds forward, backward;
};

// [F-DET-2] A backward pass of fused attention that adds the gradients of queries in a fixed order
// waits for those before: FlashAttention-3 on an H100 takes 3.804 ms where 2.391 do without (8192
// causal tokens of 16 heads of 128; Dao-AILab/flash-attention pull request 1893). Of devices before
// Hopper, where Transformer Engine has FlashAttention-2 add up in parts, no measurement is known.
double backward_slowdown(const BlockContext& x) {
  constexpr double kOrdered = 3.804 / 2.391;
  const bool ordered = x.strategy.runtime.deterministic_attention;
  return ordered && !is_before_hopper(x.cluster.device.architecture) ? kOrdered : 1;
}

AttentionTimes push_attention(const BlockContext& x, std::string_view name, const AttentionShape& a,
                              double calls, BlockOps& ops) {
  KernelOp op;
  op.name = name;
  op.kind = KernelKind::kAttention;
  op.attention = a;
  op.calls = calls;
  AttentionTimes times;
  times.forward = fused_attention_time(x.cluster.device, a, false, x.strategy.runtime.attention);
  op.time = times.forward * calls;
  op.flops = attention_flops(a).si() * calls;
  op.launches = calls;
  ops.kernels.push_back(op);
  op.pass = Pass::kBackwardInput;
  times.backward = fused_attention_time(x.cluster.device, a, true, x.strategy.runtime.attention) *
                   backward_slowdown(x);
  op.time = times.backward * calls;
  op.flops *= 2;  // the fifth product repeats the scores: not counted as the model's work
  op.launches = 3 * calls;
  ops.kernels.push_back(op);
  return times;
}

// [F-CP-2] A ring's c steps with the causal load balanced by 2c chunks: the rank's own keys,
// masked; of what comes from ranks before it the first half of the keys, to all queries; of what
// comes from ranks behind it all keys, to the second half of the queries. Each step takes half of
// the pairs; over all ranks as many steps are of the one kind as of the other (Transformer Engine
// context_parallel.py, AttnFuncWithCPAndKVP2P). Returns the times of a step with other ranks' keys.
AttentionTimes push_ring_attention(const BlockContext& x, const AttentionShape& mean, double calls,
                                   BlockOps& ops) {
  const auto others = real(x.strategy.cp - 1) / 2 * calls;
  AttentionShape own = mean, keys = mean, queries = mean;
  own.pair_fraction = causal_fraction(own.queries, own.keys, 0);
  keys.keys = ceil_div(mean.keys, 2);
  queries.queries = ceil_div(mean.queries, 2);
  keys.pair_fraction = queries.pair_fraction = 1;
  push_attention(x, "attention", own, calls, ops);
  const AttentionTimes a = push_attention(x, "attention to half the keys", keys, others, ops);
  const AttentionTimes b = push_attention(x, "attention of half the queries", queries, others, ops);
  return {(a.forward + b.forward) * (calls / 2), (a.backward + b.backward) * (calls / 2)};
}

// [F-CP-3] With all keys gathered a rank has two of 2c chunks, as far from the middle of the
// sequence: together they always see as many keys. Those of the first rank: the first chunk and the
// last (Transformer Engine context_parallel.py, AttnFuncWithCPAndKVAllGather).
void push_gathered_attention(const BlockContext& x, const AttentionShape& mean, double calls,
                             BlockOps& ops) {
  AttentionShape first = mean, last = mean;
  first.queries = first.keys = last.queries = ceil_div(mean.queries, 2);
  first.pair_fraction = causal_fraction(first.queries, first.keys, 0);
  last.pair_fraction = causal_fraction(last.queries, last.keys, 0);
  push_attention(x, "attention of the first chunk", first, calls, ops);
  push_attention(x, "attention of the last chunk", last, calls, ops);
}

// [F-ATT-3] Share of queries x keys that is computed. In chunks of w tokens each sees those before
// it in its own: w (w + 1) / 2 pairs a chunk (Llama 4's attention_chunk_size); of tokens that an
// index chose, as many as of a window of top_k.
double seen_fraction(const HeadShape& h, std::int64_t tokens) {
  if (h.bidirectional) return 1;
  if (h.seen > 0) return std::min(1.0, h.seen / real(tokens));
  if (h.chunked && h.window > 0 && h.window < tokens) {
    const double w = real(h.window), rest = real(tokens % h.window), s = real(tokens);
    return (real(tokens / h.window) * w * (w + 1) / 2 + rest * (rest + 1) / 2) / (s * s);
  }
  const double seen = causal_fraction(tokens, tokens, h.window);
  return h.top_k > 0 ? std::min(seen, causal_fraction(tokens, tokens, h.top_k)) : seen;
}

bool sees_all(const HeadShape& h) { return h.window == 0 && h.top_k == 0 && h.seen == 0; }

// [F-LEN-6] Fused attention of documents that do not see each other: sum of l^2 over documents, not
// over the row, as of tokens / L documents of L = sum l^2 / sum l tokens (flash-attention's
// flash_attn_varlen_func; Krell et al. 2107.02027 sec. 3.2). `calls`: of a kernel over a whole
// number of them.
AttentionShape document_shape(const BlockContext& x, const HeadShape& h, double& calls) {
  const LocalShape& l = x.shape;
  AttentionShape a;
  a.batch = x.strategy.micro_batch;
  a.heads = h.heads;
  a.queries = l.sequence;
  a.keys = l.document;
  a.qk_dim = h.query_size / std::max<std::int64_t>(h.heads, 1);
  a.v_dim = h.value_size / std::max<std::int64_t>(h.heads, 1);
  a.pair_fraction = seen_fraction(h, l.document);
  a.kv_heads = h.groups;
  calls = 1;
  if (l.document == l.whole) return a;
  const double documents = real(a.batch) * real(l.whole) / real(l.document);
  a.batch = std::max<std::int64_t>(1, std::llround(documents));
  a.queries = ceil_div(l.document, x.strategy.cp);
  calls = documents / real(a.batch);
  return a;
}

// [F-CP-1] Context parallelism around fused attention, c ranks of s/c tokens each, causal load
// balanced by 2c chunks. Ring (Transformer Engine p2p; Liu et al. 2310.01889): c steps over s/c
// keys, c - 1 messages of keys and values, twice that backward (keys, values and their gradients),
// each hidden behind one step's attention. All-gather (Llama 3, 2407.21783 sec. 3.3.2): keys and
// values gathered forward and again backward, their gradients reduce-scattered; nothing hidden.
// Ulysses (2309.14509): all-to-all of queries, keys, values and outputs, the same backward.
void append_fused_attention(const BlockContext& x, const HeadShape& h, BlockOps& ops) {
  const Strategy& s = x.strategy;
  const LocalShape& l = x.shape;
  double calls = 1;
  AttentionShape a = document_shape(x, h, calls);
  a.eight_bit = has_fp8_attention(x.strategy);
  a.block_scales = scaling_recipe(s, x.cluster.device.architecture) == ScalingRecipe::kMxfp8;
  if (a.eight_bit) {
    // [F-FP8-3] Queries, keys and values, and the output's gradient, are cast with their
    // transposes, as the inputs of linear layers are (Transformer Engine, fp8_dpa without fp8_mha).
    const double inputs = real(h.query_size + h.key_size + h.sent_values);
    append_elementwise(x, "fp8 cast", 4 * real(l.tokens) * inputs, 3,
                       4 * real(l.tokens) * real(h.value_size), 1, ops);
  }
  if (s.cp == 1) {
    push_attention(x, "attention", a, calls, ops);
    return;
  }
  const double kv = real(l.tokens) * real(h.key_size + h.sent_values) * l.bytes;
  switch (s.cp_kind) {
    case CpKind::kRing: {
      const double steps = real(s.cp);
      a.keys = a.queries;
      const AttentionTimes step = sees_all(h)
                                      ? push_ring_attention(x, a, calls, ops)
                                      : push_attention(x, "attention", a, steps * calls, ops);
      append_cp_collective(x, Pass::kForward, Collective::kSendRecv, kv, steps - 1, step.forward,
                           ops);
      append_cp_collective(x, Pass::kBackwardInput, Collective::kSendRecv, 2 * kv, steps - 1,
                           step.backward, ops);
      return;
    }
    case CpKind::kAllGather: {
      if (l.document != l.whole && s.packing != Packing::kNone) {
        calls *= chunk_imbalance(*x.model.lengths, s.seq_len, s.cp);
      }
      if (sees_all(h)) {
        push_gathered_attention(x, a, calls, ops);
      } else {
        push_attention(x, "attention", a, calls, ops);
      }
      const double all = kv * real(s.cp);
      append_cp_collective(x, Pass::kForward, Collective::kAllGather, all, 1, Seconds{}, ops);
      append_cp_collective(x, Pass::kBackwardInput, Collective::kAllGather, all, 1, Seconds{}, ops);
      append_cp_collective(x, Pass::kBackwardInput, Collective::kReduceScatter, all, 1, Seconds{},
                           ops);
      return;
    }
    case CpKind::kUlysses: {
      a.queries = l.document;
      a.heads = ceil_div(h.heads, s.cp);
      a.kv_heads = ceil_div(h.groups, s.cp);
      push_attention(x, "attention", a, calls, ops);
      const double q = real(l.tokens) * real(h.query_size) * l.bytes;
      const double o = real(l.tokens) * real(h.value_size) * l.bytes;
      for (const Pass pass : {Pass::kForward, Pass::kBackwardInput}) {
        append_cp_collective(x, pass, Collective::kAllToAll, q, 1, Seconds{}, ops);
        append_cp_collective(x, pass, Collective::kAllToAll, kv / 2, 2, Seconds{}, ops);
        append_cp_collective(x, pass, Collective::kAllToAll, o, 1, Seconds{}, ops);
      }
      return;
    }
  }
}

// Bytes per score that softmax reads and writes as separate kernels in fp32: mask and softmax, 8
// each; backward softmax 12 and mask 8. Of 16-bit scores casts to fp32 and back besides, 6 each.
// (Megatron-LM fused_softmax.py, forward_torch_softmax.)
constexpr double kUnfusedForward = 16, kUnfusedBackward = 20, kCasts = 12;

// [F-ATT-2] Materialised attention: two batched products over all (not only causal) scores, and
// mask, softmax and dropout as passes over the a s^2 scores; the fused softmax reads those of them
// that a causal mask leaves, f, and writes all: (1 + f) e bytes per score, dropout 2e + 1 (mask).
// Backward: four products, softmax (1 + 2 f) e, dropout 2e + 1. (Megatron-LM transformer.py,
// CoreAttention; fused_kernels/scaled_upper_triang_masked_softmax.h: zeros elsewhere.)
void append_materialised_attention(const BlockContext& x, const HeadShape& h, BlockOps& ops) {
  const Strategy& s = x.strategy;
  const LocalShape& l = x.shape;
  const std::int64_t count = s.micro_batch * h.heads;
  const std::int64_t dim = h.query_size / h.heads, v_dim = h.value_size / h.heads;
  const double scores = real(count) * real(l.sequence) * real(l.whole);
  const double e = l.bytes;
  const Precision p = is_quantised(s.precision) ? Precision::kBf16 : s.precision;
  const bool repeated = repeats(x, RecomputeModule::kCoreAttn, true);
  const auto product = [&](Pass pass, std::int64_t m, std::int64_t n, std::int64_t k,
                           double added = 0) {
    const bool aligned = dim % 8 == 0 && v_dim % 8 == 0;
    const GemmShape g{m, n, k, count, e, added, aligned, product_rate(x, p)};
    KernelOp op;
    op.name = kScoreProductName;
    op.pass = pass;
    op.time = gemm_time(x.cluster.device, p, g);
    op.flops = gemm_flops(g).si();
    op.selective = repeated && pass == Pass::kForward ? 1 : 0;
    op.gemm = g;
    op.kind = KernelKind::kGemm;
    op.precision = p;
    ops.kernels.push_back(op);
  };
  // Biases of position are copied to where the product adds to them (BigScience's
  // Megatron-DeepSpeed transformer.py, baddbmm of alibi; PyTorch's baddbmm).
  const bool biased = x.model.position_embedding == PositionEmbedding::kAlibi;
  if (biased) append_elementwise(x, "position bias", e * scores, 1, 0, 0, ops, repeated);
  product(Pass::kForward, l.sequence, l.whole, dim, biased ? e : 0);
  product(Pass::kForward, l.sequence, v_dim, l.whole);
  product(Pass::kBackwardInput, l.sequence, l.whole, v_dim);
  product(Pass::kBackwardInput, l.whole, v_dim, l.sequence);
  product(Pass::kBackwardInput, l.sequence, dim, l.whole);
  product(Pass::kBackwardInput, l.whole, dim, l.sequence);
  if (x.model.attn_logit_softcapping) {
    // [F-ATT-4] A division, a tanh and a product; back the same, the tanh's with its output.
    append_elementwise(x, "score cap", 6 * e * scores, 3, 7 * e * scores, 3, ops, repeated);
  }
  if (softmax_is_fused(x, h.heads)) {
    const double seen = h.bidirectional ? 1 : causal_fraction(l.sequence, l.whole, 0);
    append_elementwise(x, kSoftmaxName, (1 + seen) * e * scores, 1, (1 + 2 * seen) * e * scores, 1,
                       ops, repeated);
  } else {
    const double casts = e < 4 ? kCasts : 0;
    append_elementwise(x, "softmax", (kUnfusedForward + casts) * scores, 5,
                       (kUnfusedBackward + casts) * scores, 5, ops, repeated);
  }
  if (x.model.dropout > 0) {
    append_elementwise(x, "attention dropout", (2 * e + 1) * scores, 1, (2 * e + 1) * scores, 1,
                       ops, repeated);
  }
  const double context = real(l.tokens) * real(h.value_size);
  append_elementwise(x, "context layout", 2 * e * context, 1, 2 * e * context, 1, ops, repeated);
}

// What is saved of scores: softmax output, that of a soft cap's tanh, and dropout's mask and output
// (5 a s^2 b of 2205.05198
// eq. 2). Separate kernels keep the softmax output in fp32 besides its 16-bit copy.
double score_bytes(const BlockContext& x, std::int64_t heads) {
  const LocalShape& l = x.shape;
  double per_score = l.bytes;
  if (x.model.dropout > 0) per_score += 1 + l.bytes;
  if (x.model.attn_logit_softcapping) per_score += l.bytes;  // the tanh's output
  if (l.bytes < 4 && !softmax_is_fused(x, heads)) per_score += 4;
  return per_score * materialised_scores(x, heads);
}

}  // namespace

bool softmax_is_fused(const BlockContext& x, std::int64_t heads) {
  const std::int64_t matrices = x.strategy.micro_batch * heads;
  return x.strategy.runtime.fused_softmax && x.shape.bytes < 4 && matrices % 4 == 0;
}

double materialised_scores(const BlockContext& x, std::int64_t heads) {
  if (x.strategy.flash_attention) return 0;
  const LocalShape& l = x.shape;
  return real(x.strategy.micro_batch) * real(heads) * real(l.sequence) * real(l.whole);
}

// The fused softmax writes the gradient of the scores over that of its output (Transformer Engine
// up to 2.19). An operation between the products, or the core's repeated pass, holds one more.
double score_temporary_bytes(const BlockContext& x, std::int64_t heads) {
  const bool listed = !x.strategy.recompute_modules.empty();
  const bool repeated = listed ? repeats(x, RecomputeModule::kCoreAttn, false)
                               : x.strategy.recompute == Recompute::kSelective;
  const bool in_place = softmax_is_fused(x, heads) && x.model.dropout == 0 &&
                        !x.model.attn_logit_softcapping && !repeated;
  return (in_place ? 1 : 2) * x.shape.bytes * materialised_scores(x, heads);
}

void append_scores(const BlockContext& x, const HeadShape& heads, BlockOps& ops) {
  const PartBegin begin = part_begin(ops);
  if (x.strategy.flash_attention) {
    append_fused_attention(x, heads, ops);
  } else {
    append_materialised_attention(x, heads, ops);
  }
  if (repeats(x, RecomputeModule::kCoreAttn, false)) repeat_part(begin, ops);
}

void append_attention_output(const BlockContext& x, const HeadShape& heads,
                             const LinearTimes& column, BlockOps& ops) {
  const LocalShape& l = x.shape;
  if (heads.output_gate) {
    const double gated = real(l.tokens) * real(heads.value_size) * l.bytes;
    append_elementwise(x, "output gate", 3 * gated, 1, 5 * gated, 1, ops);
  }
  const bool bias = x.model.linear_bias || x.model.attention_out_bias;
  const AdapterSite site{.layer = LoraTarget::kProj, .row_parallel = true};
  const std::int64_t input = heads.latent_output > 0 ? heads.latent_output : heads.value_size;
  const LinearTimes row =
      append_linear(x, "attention output", l.tokens, l.hidden, input, bias, ops, 1, &site);
  repeat_product(x, "attention output", 1, ops);
  append_tp_collectives(x, column, row, ops);
  append_residual(x, ops);
}

namespace {

// Bytes of an element of queries, keys and values, and of the output, that fused attention keeps.
struct KeptByAttention {
  double inputs = 0, output = 0;
};

// [F-FP8-3] In 8 bits it keeps their casts alone, of blocks' scales in both layouts; the output in
// 16 bits where scales are of whole tensors as they are, or of blocks (Transformer Engine
// pytorch/attention/dot_product_attention/backends.py, FusedAttnFunc; NVTE_DPA_FP8CS_O_in_F16).
KeptByAttention kept_by_attention(const BlockContext& x) {
  const double e = x.shape.bytes;
  if (!has_fp8_attention(x.strategy)) return {e, e};
  switch (scaling_recipe(x.strategy, x.cluster.device.architecture)) {
    case ScalingRecipe::kMxfp8:
      return {2 * quantisation(x.strategy, x.cluster.device).bytes, e};
    case ScalingRecipe::kTensorwise:
      return {1, e};
    default:
      return {1, 1};
  }
}

}  // namespace

// Selective recomputation drops scores and dropout of materialised attention (2205.05198 sec. 5).
// Fused attention has none; there Megatron-Core's modules layernorm, mlp or moe_act and mla_up_proj
// are meant: outputs of norms and activation function, and of up-projections. Modules that are
// listed drop what is theirs alone.
KeptBytes attention_saved_bytes(const BlockContext& x, const HeadShape& heads, double projections,
                                double repeated, bool latent, LoraTargets first) {
  const LocalShape& l = x.shape;
  const bool fused = x.strategy.flash_attention;
  const double norm = real(l.norm_tokens) * real(l.hidden), t = real(l.tokens);
  const double scores = score_bytes(x, heads.heads);
  double bytes = norm_bytes(x, norm) + kept_input(x, first) + projections;
  bytes += scores;
  const double core_elements = t * real(heads.query_size + heads.key_size + heads.sent_values);
  const double fewer = core_elements * (l.bytes - kept_by_attention(x).inputs);
  bytes -= fewer;
  // What the core casts for itself stays where the up-projections are repeated.
  const double made_again =
      has_fp8_attention(x.strategy) ? std::max(0.0, repeated - l.bytes * core_elements) : repeated;
  if (fused) bytes += 4 * t * real(heads.heads);  // log-sum-exp, fp32
  // Attention's output, input of the projection: one tensor where both keep it as it is.
  const double input = kept(x, {LoraTarget::kProj}), output_each = kept_by_attention(x).output;
  const bool shared = input == l.bytes && output_each == l.bytes;
  bytes += input * t * real(heads.value_size);
  if (fused && !shared) bytes += output_each * t * real(heads.value_size);
  // The gate, and the output before it, which the projection does not keep.
  if (heads.output_gate) bytes += 2 * l.bytes * t * real(heads.value_size);
  if (x.strategy.runtime.op_recompute) {
    const double products =
        kept_by_attention(x).inputs * t * real(heads.query_size + heads.sent_values);
    const double output = output_each * t * real(heads.value_size) + 4 * t * real(heads.heads);
    const double operations = l.bytes * norm + products + output;
    return {bytes + hidden_mask(x), std::max(0.0, bytes + hidden_mask(x) - operations)};
  }
  // [F-OFF-5] Queries, keys and values are what the core reads; what else the projections keep,
  // their inputs and latents, is theirs. A norm inside of its product hands its input to that.
  const auto off = [&](OffloadModule m) { return x.strategy.offload.modules.has(m) ? 1.0 : 0.0; };
  const bool norm_apart = latent || !norm_is_inside(x);
  const bool listed = !x.strategy.recompute_modules.empty();
  const bool again = x.strategy.recompute == Recompute::kSelective;
  const bool core_again = listed ? repeats(x, RecomputeModule::kCoreAttn, false) : again && !fused;
  const bool up_again =
      latent && (listed ? repeats(x, RecomputeModule::kMlaUpProj, false) : again && fused);
  const bool normed_again = listed ? norm_apart && repeats_norms(x) : again && fused;
  const double core_inputs =
      (latent ? repeated : projections) - fewer - (up_again ? made_again : 0);
  const double core =
      (core_again ? 0 : scores + (fused ? 4 * t * real(heads.heads) : 0)) + core_inputs;
  const double inputs =
      (normed_again ? 0 : kept_input(x, first)) + (latent ? projections - repeated : 0);
  const double normal = norm_bytes(x, norm);
  const double offloaded = off(OffloadModule::kAttnNorm) * (norm_apart ? normal : 0) +
                           off(OffloadModule::kQkvLinear) * (inputs + (norm_apart ? 0 : normal)) +
                           off(OffloadModule::kCoreAttn) * core +
                           off(OffloadModule::kAttnProj) * input * t * real(heads.value_size);
  if (!listed) {
    return {bytes + hidden_mask(x), fused ? kept_input(x, first) + made_again : scores, 0,
            offloaded};
  }
  double dropped = 0, together = 0;
  // Of fused attention only what its own backward pass needs beside its inputs: the projection
  // keeps the output.
  if (repeats(x, RecomputeModule::kCoreAttn, false)) {
    dropped += scores + (fused ? 4 * t * real(heads.heads) : 0);
    if (fused && !shared) dropped += output_each * t * real(heads.value_size);
  }
  if (norm_apart && repeats_norms(x)) dropped += kept_input(x, first);
  if (latent && repeats(x, RecomputeModule::kMlaUpProj, false)) {
    dropped += made_again, together = made_again;
  }
  return {bytes + hidden_mask(x), dropped, together, offloaded};
}

std::int64_t seen_tokens(std::int64_t window, const IndexSpec& index) {
  if (window == 0 || index.top_k == 0) return std::max(window, index.top_k);
  return std::min(window, index.top_k);
}

double causal_score_flops(std::int64_t heads, double qk_dim, double v_dim, std::int64_t window,
                          std::int64_t seq_len) {
  return 2 * real(seq_len) * causal_fraction(seq_len, seq_len, window) * real(heads) *
         (qk_dim + v_dim);
}

double score_flops(std::int64_t heads, double qk_dim, double v_dim, std::int64_t window,
                   std::int64_t seq_len) {
  const std::int64_t keys = window > 0 ? std::min(window, seq_len) : seq_len;
  return 2 * real(keys) * real(heads) * (qk_dim + v_dim);
}

}  // namespace meshplan
