// The first block: token embedding, and the vision encoder of a model that has one.
#include "comm/collectives.hpp"
#include "model/encoder.hpp"
#include "model/hyper_connections.hpp"
#include "model/kinds.hpp"
#include "model/parts.hpp"

namespace meshplan {

// Tokens and labels go the same way: what the host issues for a batch is no matter of its mask.
void append_mask_copy(const BlockContext& x, BlockOps& ops) {
  const Strategy& s = x.strategy;
  if (!s.runtime.create_attention_mask_in_dataloader) return;
  const Bytes mask = Bytes{s.micro_batch} * x.shape.whole * x.shape.whole;
  KernelOp copy;
  copy.name = "mask to the device";
  copy.time = mask / x.cluster.device.host_link;
  if (s.tp > 1) {
    copy.time +=
        collective_time(x.cluster, Collective::kBroadcast, mask, x.group(Group::kTp)).total;
  }
  copy.launches = 0;
  copy.repeated = false;
  ops.kernels.push_back(copy);
}

// [F-EMB-1] Embedding: gather of tokens x hidden (read, write), position add and dropout where the
// model has them; backward scatters into a zeroed dense gradient of the local vocabulary, which is
// then added to the main gradient (PyTorch embedding_dense_backward; Megatron-LM
// VocabParallelEmbedding masks foreign tokens before the reduction over tensor ranks).
void append_embedding(const BlockContext& x, BlockOps& ops) {
  const LocalShape& l = x.shape;
  const Strategy& s = x.strategy;
  const double e = l.bytes, n = real(l.tokens) * real(l.hidden);
  const double local = real(l.norm_tokens) * real(l.hidden);
  append_mask_copy(x, ops);
  double forward = 2 * e * n, kernels = 2;
  if (s.tp > 1) forward += 2 * e * n, kernels += 4;
  if (x.model.position_embedding == PositionEmbedding::kLearned) forward += 3 * e * n, kernels += 2;
  if (x.model.dropout > 0) forward += (2 * e + 1) * local, kernels += 1;
  const double table = real(l.vocab) * real(l.hidden);
  const double grad = size_of(s.grad_dtype);
  // A frozen table has no gradient, and nothing is before it.
  const bool frozen = is_frozen(s);
  const double backward = frozen ? 0 : 3 * e * n + table * (2 * e + 2 * grad);
  append_elementwise(x, "embedding", forward, kernels, backward, frozen ? 0 : 4, ops);
  if (x.model.embedding_norm) append_norm(x, "embedding norm", l.norm_tokens * l.hidden, ops);
  append_encoder(x, ops);
  const double bytes = e * n;
  if (s.sequence_parallel) {
    append_tp_collective(x, CommDimension::kTp, Pass::kForward, Collective::kReduceScatter, bytes,
                         1, {}, ops);
    if (!frozen || trains_encoder(x.model, s)) {
      append_tp_collective(x, CommDimension::kTp, Pass::kBackwardInput, Collective::kAllGather,
                           bytes, 1, {}, ops);
    }
  } else {
    append_tp_collective(x, CommDimension::kTp, Pass::kForward, Collective::kAllReduce, bytes, 1,
                         {}, ops);
  }
  append_expansion(x, ops);
}

// Token ids (8 bytes), the dropout mask, and what an encoder keeps.
double embedding_saved_bytes(const BlockContext& x) {
  return 8 * real(x.shape.tokens) + hidden_mask(x) + encoder_saved_bytes(x);
}

}  // namespace meshplan
