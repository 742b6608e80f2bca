// The last block: final norm, logits and loss.
#include <algorithm>
#include <bit>
#include <cmath>

#include "model/attention_residuals.hpp"
#include "model/hyper_connections.hpp"
#include "model/kinds.hpp"
#include "model/parts.hpp"

namespace meshplan {
namespace {

// [F-LOSS-3] Fused with the output layer the loss takes so many tokens at a time that a chunk's
// logits are about as many as all hidden elements: the power of two from t / ceil(V / h) on
// (Liger-Kernel ops/fused_linear_cross_entropy.py). Its kernel reads logits twice and writes their
// gradient in their place (3 e). Kept are the input's gradient and, of a trained output layer, the
// weight's, beside one more while a chunk's is added (written, read, and the sum read and written:
// 4 e per weight and chunk, of which the products count one).
double loss_chunk_tokens(const BlockContext& x) {
  const std::int64_t parts = ceil_div(x.shape.vocab, x.shape.hidden);
  const std::int64_t tokens = std::max<std::int64_t>(1, ceil_div(x.shape.tokens, parts));
  return static_cast<double>(std::bit_ceil(static_cast<std::uint64_t>(tokens)));
}

}  // namespace

// [F-LOSS-1] Final norm, logits over the local vocabulary, cross entropy. Per logit the loss in
// place reads and writes e bytes each way. Megatron-Core's fused one passes an fp32 copy: cast and
// maximum e + 4, exponential 8 and softmax 8 bytes forward, 4 + e backward
// (fusions/fused_cross_entropy.py); Megatron-LM's other one (cross_entropy.py) 38 bytes for cast,
// maximum, shift, exponential, sum and softmax, and 22 for scale and cast; fp32_copies: a cast to
// fp32 (e + 4) and one read forward, a read, a write and the cast back (4 + e) backward. PyTorch's
// reads three times (largest, sum, logarithms) and writes once; backward fills a tensor, reads it
// and the logarithms for a sum and again, and writes (aten/src/ATen/native/cuda/SoftMax.cu): 4 and
// 6 elements of 4 bytes, with casts of e + 4 around, or of e without them; 52 in all, where one
// H200 took as long as 53. Three all-reduces of one fp32 per token; with gathered_logits one gather
// of all logits instead.
void append_head(const BlockContext& x, BlockOps& ops) {
  const LocalShape& l = x.shape;
  const Strategy& s = x.strategy;
  append_contraction(x, ops);
  append_mixture(x, ops);
  append_norm(x, "final norm", l.norm_tokens * l.hidden, ops);
  // The output layer stays outside fp8 (Megatron-Core builds it without Transformer Engine;
  // torchtitan filters it out).
  const Strategy wide = unquantised(s);
  const BlockContext plain{x.model, x.cluster, wide, x.shape, x.groups};
  const LinearTimes logits =
      append_linear(plain, kLogitsName, l.tokens, l.vocab, l.hidden, false, ops);
  const bool gathered = s.runtime.gathered_logits;
  const double n = real(l.tokens) * real(gathered ? l.vocab * s.tp : l.vocab), e = l.bytes;
  // [F-LORA-5] Autocast casts the fp32 weight for its product each way; of what is frozen it keeps
  // no copy (aten/src/ATen/autocast_mode.cpp, cached_cast).
  if (casts_unquantised(s)) {
    const double cast = (4 + e) * real(l.vocab * l.hidden);
    append_elementwise(x, "output weight cast", cast, 1, 0, 0, ops);
  }
  if (gathered)
    append_tp_collective(x, CommDimension::kTp, Pass::kForward, Collective::kAllGather, e * n, 1,
                         {}, ops);
  // tanh, scaled before and behind, on the logits in place (Gemma 2, 2408.00118 sec. 2).
  if (x.model.logit_softcapping) {
    append_elementwise(x, "logit soft-capping", 6 * e * n, 3, 7 * e * n, 3, ops);
  }
  if (s.runtime.fused_linear_cross_entropy) {
    const double chunks = std::ceil(real(l.tokens) / loss_chunk_tokens(x));
    const double sums = is_frozen(s) ? 0 : (4 * chunks - 1) * e * real(l.vocab * l.hidden);
    append_elementwise(x, "cross entropy", 3 * e * n + sums, (is_frozen(s) ? 1 : 2) * chunks, 0, 0,
                       ops);
  } else if (s.runtime.fused_cross_entropy && s.runtime.fp32_copies) {
    append_elementwise(x, "cross entropy", (e + 8) * n, 4, (e + 12) * n, 3, ops);
  } else if (s.runtime.fused_cross_entropy && s.runtime.inplace_cross_entropy) {
    append_elementwise(x, "cross entropy", 2 * e * n, 3, 2 * e * n, 2, ops);
  } else if (s.runtime.fused_cross_entropy) {
    append_elementwise(x, "cross entropy", (e + 20) * n, 5, (e + 4) * n, 2, ops);
  } else if (s.runtime.torch_cross_entropy && s.runtime.bf16_cross_entropy) {
    append_elementwise(x, "cross entropy", 4 * e * n, 2, 6 * e * n, 3, ops);
  } else if (s.runtime.torch_cross_entropy) {
    append_elementwise(x, "cross entropy", (e + 20) * n, 3, (e + 28) * n, 4, ops);
  } else {
    append_elementwise(x, "cross entropy", 38 * n, 10, 22 * n, 4, ops);
  }
  // [F-OPT-9] Whether the loss is no number, and whether it is infinite: three kernels and what the
  // host reads of each (Megatron-LM pretrain_gpt.py, loss_func).
  constexpr double kLooks = 5;
  if (s.runtime.check_for_nan_in_loss_and_grad) {
    append_elementwise(x, "look at the loss", 0, kLooks, 0, 0, ops);
  }
  const double bytes = real(l.tokens) * real(l.hidden) * e;
  if (s.sequence_parallel) {
    append_tp_collective(x, CommDimension::kTp, Pass::kForward, Collective::kAllGather, bytes, 1,
                         {}, ops);
    if (s.runtime.tp_recompute_allgather && !is_frozen(s)) {
      append_tp_collective(x, CommDimension::kTp, Pass::kBackwardInput, Collective::kAllGather,
                           bytes, 1, starts_before_products(x) ? logits.backward_input : Seconds{},
                           ops);
    }
    append_tp_collective(x, CommDimension::kTp, Pass::kBackwardInput, Collective::kReduceScatter,
                         bytes, 1, hides_tensor_backward(x) ? logits.backward_weight : Seconds{},
                         ops);
  } else {
    append_tp_collective(x, CommDimension::kTp, Pass::kBackwardInput, Collective::kAllReduce, bytes,
                         1, hides_tensor_backward(x) ? logits.backward_weight : Seconds{}, ops);
  }
  if (gathered) return;
  append_tp_collective(x, CommDimension::kLoss, Pass::kForward, Collective::kAllReduce,
                       4 * real(l.tokens), 3, {}, ops);
}

namespace {

// Bytes per logit: what the loss leaves for its backward pass, and what it needs at its fullest.
struct LossBytes {
  double kept = 0, most = 0;
};

// [F-LOSS-2] By whose loss it is, for logits of e bytes:
//   in place       the logits, later their gradient, and the fp32 copy that becomes the softmax and
//                  the gradient (Megatron-LM since 9634c0e4a3, 2024-06-13, and until 2022-09;
//                  Megatron-Core tensor_parallel/cross_entropy.py): e + 4. Of Megatron-LM's
//                  published CI runs 165 show 6 (25th to 75th percentile 5.7 to 6.1)
//   cloned         one more fp32 copy (runtime.cloned_logits): e + 8
//   compiled       calculate_predicted_logits changes its argument, which torch.compile does on a
//                  copy, and so does calculate_gradients (fusions/fused_cross_entropy.py): e + 8
//                  and the gradient. The same CI runs with it and with Transformer Engine's differ
//                  by 7.8 per logit, and by 9.9 where multi-token prediction keeps another softmax
//   over logits    the gradient takes their place, beside a copy in another layout (Transformer
//                  Engine, --cross-entropy-fusion-impl te) or beside them (torchtitan, compiled;
//                  flash-attention): 2 e
//   PyTorch's      the logarithms of the softmax are kept and two gradients made of them: 12 in
//                  bf16, chosen before 16 and 18 by which of Aleph Alpha's runs fitted their
//                  devices. Of the whole vocabulary, the logits freed, the logarithms and both
//                  gradients (aten/src/ATen/native/cuda/SoftMax.cu; measured on one H200,
//                  scripts/gpu_reference.py): e + 12. Of 16-bit logits that nobody casts
//                  (runtime.bf16_cross_entropy; measured there too): 3 e. Transformers before 4.50
//                  shifts the logits, not the labels (runtime.cloned_logits; loss/loss_utils.py,
//                  github.com/huggingface/transformers/pull/35646): at the end of the forward pass
//                  there are the logits, two copies in fp32 and the logarithms: e + 12
LossBytes loss_bytes(const BlockContext& x) {
  const Runtime& k = x.strategy.runtime;
  const double e = x.shape.bytes;
  if (k.gathered_logits) return {4, e + 12};
  if (k.fused_cross_entropy && k.inplace_cross_entropy) return {e, 2 * e};
  if (k.fused_cross_entropy && !k.fp32_copies) return {4, 2 * e + 8};
  if (k.torch_cross_entropy && k.bf16_cross_entropy) return {e, 3 * e};
  if (k.torch_cross_entropy) return {4, k.cloned_logits ? e + 12 : 12};
  return {4, e + (k.cloned_logits ? 8 : 4)};
}

double logits_held(const BlockContext& x) {
  const bool gathered = x.strategy.runtime.gathered_logits;
  return real(x.shape.tokens) * real(gathered ? x.shape.vocab * x.strategy.tp : x.shape.vocab);
}

}  // namespace

// The norm's input, the output layer's, and what the loss keeps.
double head_saved_bytes(const BlockContext& x) {
  const double streams = (has_streams(x.model) ? residual_bytes(x) : 0) + mixture_saved_bytes(x);
  const double norm = real(x.shape.norm_tokens) * real(x.shape.hidden);
  if (x.strategy.runtime.fused_linear_cross_entropy) {
    return streams + norm_bytes(x, norm) +
           x.shape.bytes * real(x.shape.tokens) * real(x.shape.hidden);
  }
  const double capped = x.model.logit_softcapping ? x.shape.bytes * logits_held(x) : 0;
  const Strategy wide = unquantised(x.strategy);  // as append_head()
  const double input = kept_input({x.model, x.cluster, wide, x.shape, x.groups});
  return streams + norm_bytes(x, norm) + input + loss_bytes(x).kept * logits_held(x) + capped;
}

// Beside that: the rest of what the loss needs, and the gradient of the output layer's input.
double head_working_bytes(const BlockContext& x) {
  if (x.strategy.runtime.fused_linear_cross_entropy) {
    const double chunk = loss_chunk_tokens(x) * real(x.shape.vocab);
    const double weights = is_frozen(x.strategy) ? 0 : real(x.shape.vocab * x.shape.hidden);
    return x.shape.bytes * (chunk + 2 * weights);
  }
  const LossBytes loss = loss_bytes(x);
  // [F-LOSS-4] Of a loss in chunks the rest comes and goes with each chunk.
  const double chunks = real(x.strategy.runtime.loss_chunks);
  // The cast output weight is saved for the input's gradient.
  const double weight =
      casts_unquantised(x.strategy) ? x.shape.bytes * real(x.shape.vocab * x.shape.hidden) : 0;
  return (loss.most - loss.kept) * logits_held(x) / chunks + weight +
         hidden_bytes_each(x) * real(x.shape.tokens) * real(x.shape.hidden);
}

}  // namespace meshplan
