// What torch.use_deterministic_algorithms adds to a layer.
#include <algorithm>

#include "model/kinds.hpp"
#include "model/parts.hpp"

namespace meshplan {
namespace {

// Tensors that one operation leaves uninitialised, and their bytes.
struct Unfilled {
  double tensors = 0, bytes = 0;
};

// Attention's output with the sums of its softmax, the random numbers' state and a workspace; the
// gradients of queries, keys and values, of which those that lie in one tensor get one
// (Transformer Engine csrc/extensions/attention.cpp), and a workspace.
Unfilled of_attention(const BlockContext& x, const AttentionShape& a, bool forward) {
  const double rows = real(a.batch) * x.shape.bytes;
  const double output = rows * real(a.queries) * real(a.heads) * real(a.v_dim);
  if (forward) return {4, output};
  const std::int64_t groups = a.kv_heads > 0 ? a.kv_heads : a.heads;
  const bool one = groups == a.heads && x.model.position_embedding != PositionEmbedding::kRope;
  return {one ? 2.0 : 4.0, rows * (real(a.queries) * real(a.heads) * real(a.qk_dim) +
                                   real(a.keys) * real(groups) * real(a.qk_dim + a.v_dim))};
}

Unfilled of_kernel(const BlockContext& x, const KernelOp& op) {
  const bool forward = op.pass == Pass::kForward;
  if (op.attention) {
    const Unfilled one = of_attention(x, *op.attention, forward);
    return {one.tensors * op.calls, one.bytes * op.calls};
  }
  if (op.gemm) {
    const GemmShape& g = *op.gemm;
    // PyTorch's own products make their outputs themselves, the output layer's among them; what
    // adds to a sum makes none.
    if (op.name == kScoreProductName || op.name == kLogitsName || g.accumulate_bytes > 0) return {};
    if (!x.strategy.runtime.transformer_engine) return {};
    const bool weights = op.pass == Pass::kBackwardWeight;  // of several experts a tensor each
    return {weights ? real(g.count) : 1, real(g.m) * real(g.n) * real(g.count) * g.output_bytes};
  }
  // Output, mean and deviation of what is read and written; gradients of input, weight and bias.
  if (op.kind == KernelKind::kNorm) {
    const double tensors = x.model.norm == Norm::kLayerNorm ? 3 : 2;
    return {tensors, op.bytes / (forward ? 2 : 3)};
  }
  // Transformer Engine has PyTorch multiply into a tensor that it makes
  // (attention/dot_product_attention/backends.py); backward the softmax's is made in place.
  if (op.name == kSoftmaxName && forward) {
    const double tensors = x.strategy.runtime.transformer_engine ? 2 : 1;
    // One kernel reads what a causal mask leaves and writes all ([F-ATT-2]).
    const double read = op.launches > 1 ? 1 : causal_fraction(x.shape.sequence, x.shape.whole, 0);
    return {tensors, tensors * op.bytes / (1 + read)};
  }
  return {};
}

// What collectives write into.
Unfilled of_collective(const BlockContext& x, const CommOp& op) {
  const double bytes = op.bytes.si();
  if (op.dimension == CommDimension::kTp) {
    if (op.operation == Collective::kReduceScatter) {
      return {op.count, op.count * bytes / real(x.strategy.tp)};
    }
    const bool anew = x.strategy.runtime.transformer_engine;
    return op.operation == Collective::kAllGather && anew ? Unfilled{op.count, op.count * bytes}
                                                          : Unfilled{};
  }
  const bool dispatch = op.dimension == CommDimension::kEp && op.operation == Collective::kAllToAll;
  return dispatch ? Unfilled{op.count, op.count * bytes} : Unfilled{};
}

template <class Op>
KernelOp fill_beside(const BlockContext& x, const Op& op, const Unfilled& u) {
  KernelOp fill = memory_op(x, "fill of uninitialised memory", op.pass, u.bytes, u.tensors);
  // The allocation issues it, without a module or autograd around it.
  fill.launches = u.tensors / std::max(x.strategy.runtime.host_factor, 1.0);
  fill.selective = op.selective ? 1 : 0;
  fill.repeated = op.repeated;
  fill.graphed = op.graphed;
  return fill;
}

}  // namespace

void append_fills(const BlockContext& x, BlockOps& ops) {
  if (!x.strategy.runtime.deterministic_mode) return;
  std::vector<KernelOp> fills;
  for (const KernelOp& op : ops.kernels) {
    const Unfilled u = of_kernel(x, op);
    if (u.tensors > 0) fills.push_back(fill_beside(x, op, u));
  }
  for (const CommOp& op : ops.comm) {
    const Unfilled u = of_collective(x, op);
    if (u.tensors > 0) fills.push_back(fill_beside(x, op, u));
  }
  ops.kernels.insert(ops.kernels.end(), fills.begin(), fills.end());
}

}  // namespace meshplan
