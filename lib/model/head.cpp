// The last block: final norm, logits and loss.
#include "model/kinds.hpp"
#include "model/parts.hpp"

namespace meshplan {

// [F-LOSS-1] Final norm, logits over the local vocabulary, cross entropy. Per logit the loss in
// place reads and writes e bytes each way. Megatron-Core's fused one passes an fp32 copy: cast and
// maximum e + 4, exponential 8 and softmax 8 bytes forward, 4 + e backward
// (fusions/fused_cross_entropy.py); Megatron-LM's other one (cross_entropy.py) 38 bytes for cast,
// maximum, shift, exponential, sum and softmax, and 22 for scale and cast; fp32_copies: a cast to
// fp32 (e + 4) and one read forward, a read, a write and the cast back (4 + e) backward. Three
// all-reduces of one fp32 per token; with gathered_logits one gather of all logits instead.
void append_head(const BlockContext& x, BlockOps& ops) {
  const LocalShape& l = x.shape;
  const Strategy& s = x.strategy;
  append_norm(x, "final norm", l.norm_tokens * l.hidden, ops);
  // The output layer stays outside fp8 (Megatron-Core builds it without Transformer Engine;
  // torchtitan filters it out).
  Strategy unquantised = s;
  if (s.precision == Precision::kFp8) unquantised.precision = Precision::kBf16;
  const BlockContext plain{x.model, x.cluster, unquantised, x.shape, x.groups};
  const LinearTimes logits =
      append_linear(plain, "logits", l.tokens, l.vocab, l.hidden, false, ops);
  const bool gathered = s.kernels.gathered_logits;
  const double n = real(l.tokens) * real(gathered ? l.vocab * s.tp : l.vocab), e = l.bytes;
  if (gathered)
    append_tp_collective(x, CommDimension::kTp, Pass::kForward, Collective::kAllGather, e * n, 1,
                         {}, ops);
  if (s.kernels.fused_cross_entropy && s.kernels.fp32_copies) {
    append_elementwise(x, "cross entropy", (e + 8) * n, 4, (e + 12) * n, 3, ops);
  } else if (s.kernels.fused_cross_entropy && s.kernels.inplace_cross_entropy) {
    append_elementwise(x, "cross entropy", 2 * e * n, 3, 2 * e * n, 2, ops);
  } else if (s.kernels.fused_cross_entropy) {
    append_elementwise(x, "cross entropy", (e + 20) * n, 5, (e + 4) * n, 2, ops);
  } else {
    append_elementwise(x, "cross entropy", 38 * n, 10, 22 * n, 4, ops);
  }
  const double bytes = real(l.tokens) * real(l.hidden) * e;
  if (s.sequence_parallel) {
    append_tp_collective(x, CommDimension::kTp, Pass::kForward, Collective::kAllGather, bytes, 1,
                         {}, ops);
    if (s.kernels.tp_recompute_allgather) {
      append_tp_collective(x, CommDimension::kTp, Pass::kBackwardInput, Collective::kAllGather,
                           bytes, 1, logits.backward_input, ops);
    }
    append_tp_collective(x, CommDimension::kTp, Pass::kBackwardInput, Collective::kReduceScatter,
                         bytes, 1, s.overlap.tp_backward ? logits.backward_weight : Seconds{}, ops);
  } else {
    append_tp_collective(x, CommDimension::kTp, Pass::kBackwardInput, Collective::kAllReduce, bytes,
                         1, s.overlap.tp_backward ? logits.backward_weight : Seconds{}, ops);
  }
  if (gathered) return;
  append_tp_collective(x, CommDimension::kLoss, Pass::kForward, Collective::kAllReduce,
                       4 * real(l.tokens), 3, {}, ops);
}

double head_saved_bytes(const BlockContext& x) {
  const double norm = real(x.shape.norm_tokens) * real(x.shape.hidden);
  return norm_bytes(x, norm) + kept_input(x);
}

double head_working_bytes(const BlockContext& x) {
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
  return per_logit * logits + l.bytes * real(l.tokens) * real(l.hidden);
}

}  // namespace meshplan
