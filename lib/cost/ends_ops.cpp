// The first and the last block of the chain: token embedding, and final norm, logits and loss.
#include <algorithm>

#include "comm/collectives.hpp"
#include "cost/block_ops.hpp"

namespace meshplan {
namespace {

double real(std::int64_t n) { return static_cast<double>(n); }

void push(const BlockContext& x, CommDimension dimension, Pass pass, Collective op, double bytes,
          double count, Seconds window, BlockOps& ops) {
  if (x.strategy.tp == 1) return;
  CommOp comm;
  comm.dimension = dimension;
  comm.pass = pass;
  comm.operation = op;
  comm.bytes = ceil_bytes(bytes);
  comm.group = x.group(Group::kTp);
  comm.kind = Group::kTp;
  comm.dtype =
      dimension == CommDimension::kLoss ? Dtype::kFp32 : activation_dtype(x.strategy.precision);
  comm.count = count;
  comm.time_each = collective_time(x.cluster, op, comm.bytes, comm.group).total;
  comm.hidden = std::min(comm.time_each, window);
  comm.slowdown = comm.hidden * (x.cluster.device.overlap_slowdown - 1);
  ops.comm.push_back(comm);
}

}  // namespace

// [F-EMB-1] Embedding: gather of tokens x hidden (read, write), position add and dropout where the
// model has them; backward scatters into a zeroed dense gradient of the local vocabulary, which is
// then added to the main gradient (PyTorch embedding_dense_backward; Megatron-LM
// VocabParallelEmbedding masks foreign tokens before the reduction over tensor ranks).
void append_embedding(const BlockContext& x, BlockOps& ops) {
  const LocalShape& l = x.shape;
  const Strategy& s = x.strategy;
  const double e = l.bytes, n = real(l.tokens) * real(l.hidden);
  const double local = real(l.norm_tokens) * real(l.hidden);
  double forward = 2 * e * n, kernels = 2;
  if (s.tp > 1) forward += 2 * e * n, kernels += 4;
  if (x.model.position_embedding == PositionEmbedding::kLearned) forward += 3 * e * n, kernels += 2;
  if (x.model.dropout > 0) forward += (2 * e + 1) * local, kernels += 1;
  const double table = real(l.vocab) * real(l.hidden);
  const double grad = size_of(s.grad_dtype);
  append_elementwise(x, "embedding", forward, kernels, 3 * e * n + table * (2 * e + 2 * grad), 4,
                     ops);
  if (x.model.embedding_norm) append_norm(x, "embedding norm", l.norm_tokens * l.hidden, ops);
  const double bytes = e * n;
  if (s.sequence_parallel) {
    push(x, CommDimension::kTp, Pass::kForward, Collective::kReduceScatter, bytes, 1, {}, ops);
    push(x, CommDimension::kTp, Pass::kBackwardInput, Collective::kAllGather, bytes, 1, {}, ops);
  } else {
    push(x, CommDimension::kTp, Pass::kForward, Collective::kAllReduce, bytes, 1, {}, ops);
  }
}

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
    push(x, CommDimension::kTp, Pass::kForward, Collective::kAllGather, e * n, 1, {}, ops);
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
    push(x, CommDimension::kTp, Pass::kForward, Collective::kAllGather, bytes, 1, {}, ops);
    if (s.kernels.tp_recompute_allgather) {
      push(x, CommDimension::kTp, Pass::kBackwardInput, Collective::kAllGather, bytes, 1,
           logits.backward_input, ops);
    }
    push(x, CommDimension::kTp, Pass::kBackwardInput, Collective::kReduceScatter, bytes, 1,
         s.overlap.tp_backward ? logits.backward_weight : Seconds{}, ops);
  } else {
    push(x, CommDimension::kTp, Pass::kBackwardInput, Collective::kAllReduce, bytes, 1,
         s.overlap.tp_backward ? logits.backward_weight : Seconds{}, ops);
  }
  if (gathered) return;
  push(x, CommDimension::kLoss, Pass::kForward, Collective::kAllReduce, 4 * real(l.tokens), 3, {},
       ops);
}

// [F-MTP-1] Multi-token prediction joins the hidden state with the next token's embedding: two
// norms and a projection of 2h to h before one more decoder layer (DeepSeek-V3, 2412.19437, 2.2).
void append_mtp_projection(const BlockContext& x, BlockOps& ops) {
  const LocalShape& l = x.shape;
  append_norm(x, "mtp norm", l.norm_tokens * l.hidden, ops);
  append_norm(x, "mtp embedding norm", l.norm_tokens * l.hidden, ops);
  append_linear(x, "mtp projection", l.tokens, ceil_div(l.hidden, x.strategy.tp), 2 * l.hidden,
                false, ops);
}

}  // namespace meshplan
