#include "cost/block_ops.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "comm/collectives.hpp"
#include "layout/groups.hpp"

namespace meshplan {

std::int64_t padded_vocab(const ModelSpec& m, const Strategy& s) {
  const std::int64_t unit = 128 * s.tp;
  return ceil_div(m.vocab_size, unit) * unit;
}

const GroupShape& BlockContext::group(Group g) const {
  constexpr std::array kKept{Group::kTp, Group::kCp, Group::kEp, Group::kEtp};
  const auto at = std::find(kKept.begin(), kKept.end(), g);
  PLAN_CHECK(at != kKept.end());
  std::optional<GroupShape>& known = groups[static_cast<std::size_t>(at - kKept.begin())];
  if (!known) known = group_shape(strategy, cluster, g);
  return *known;
}

LocalShape local_shape(const ModelSpec& m, const Strategy& s) {
  LocalShape x;
  x.sequence = ceil_div(s.seq_len, s.cp);
  x.tokens = x.sequence * s.micro_batch;
  x.norm_tokens = s.sequence_parallel ? ceil_div(x.tokens, s.tp) : x.tokens;
  x.hidden = m.hidden_size;
  x.heads = ceil_div(m.num_attention_heads, s.tp);
  x.groups = ceil_div(m.num_query_groups, s.tp);
  if (m.mla) {
    x.groups = x.heads;
    x.query_size = x.heads * (m.mla->qk_nope_head_dim + m.mla->qk_rope_head_dim);
    x.kv_size = x.query_size;
    x.value_size = x.heads * m.mla->v_head_dim;
  } else {
    x.query_size = x.heads * m.head_dim;
    x.kv_size = x.groups * m.head_dim;
    x.value_size = x.query_size;
  }
  x.ffn = ceil_div(m.ffn_hidden_size, s.tp);
  x.vocab = padded_vocab(m, s) / s.tp;
  x.bytes = storage_size(s.precision);
  return x;
}

Dtype activation_dtype(Precision p) {
  if (storage_size(p) == 4) return Dtype::kFp32;
  return p == Precision::kFp16 ? Dtype::kFp16 : Dtype::kBf16;
}

namespace {

KernelOp memory_op(const BlockContext& x, std::string_view name, Pass pass, double bytes,
                   double kernels, bool selective = false, KernelKind kind = KernelKind::kOther) {
  KernelOp op;
  op.name = name;
  op.pass = pass;
  op.time = memory_time(x.cluster.device, kind, pass != Pass::kForward, bytes, kernels);
  op.kind = kind;
  op.bytes = bytes;
  op.launches = kernels;
  op.selective = selective;
  return op;
}

KernelOp gemm_op(const BlockContext& x, std::string_view name, Pass pass, const GemmShape& g,
                 Precision p) {
  KernelOp op;
  op.name = name;
  op.pass = pass;
  op.time = gemm_time(x.cluster.device, p, g);
  op.flops = gemm_flops(g).si();
  op.launches = static_cast<double>(g.count);
  op.gemm = g;
  op.kind = KernelKind::kGemm;
  op.precision = p;
  return op;
}

}  // namespace

void append_elementwise(const BlockContext& x, std::string_view name, double forward_bytes,
                        double forward_kernels, double backward_bytes, double backward_kernels,
                        BlockOps& ops, bool selective, KernelKind kind) {
  ops.kernels.push_back(
      memory_op(x, name, Pass::kForward, forward_bytes, forward_kernels, selective, kind));
  ops.kernels.push_back(
      memory_op(x, name, Pass::kBackwardInput, backward_bytes, backward_kernels, false, kind));
}

namespace {

// Weight and bias gradients by a second kernel that reads input and output gradient again: apex's
// FusedLayerNorm (csrc/layer_norm_cuda_kernel.cu, HostLayerNormGradient; Megatron-LM 2.x and
// Megatron-DeepSpeed) and PyTorch's own (aten/src/ATen/native/cuda/layer_norm_kernel.cu).
// Transformer Engine, apex's FastLayerNorm (Megatron-LM since 3.0) and flash-attention's kernels
// sum them in the same pass.
bool reads_twice_backward(const BlockContext& x) {
  return x.model.norm == Norm::kLayerNorm && x.strategy.kernels.two_pass_layernorm;
}

bool is_fused_norm(const BlockContext& x) {
  return x.strategy.kernels.fused_norm || x.model.norm == Norm::kLayerNorm;
}

}  // namespace

// [F-NORM-1] Traffic of a norm over n elements of e bytes: forward reads and writes once (2e n);
// backward reads the input and the output gradient and writes the input gradient (3e n); where
// another kernel makes the weights' gradients, that reads both again (2e n). RMSNorm without a
// kernel of its own (eager, as Hugging Face's Llama): cast, square, mean, scale, cast back and
// weight are 36 bytes; backward products, sums and casts of fp32 copies 80. LayerNorm is one kernel
// in PyTorch itself. fp32_copies: cast and norm forward (e + 4, 4 + e); norm, cast and addition
// backward.
void append_norm(const BlockContext& x, std::string_view name, std::int64_t elements, BlockOps& ops,
                 bool selective) {
  const double n = static_cast<double>(elements);
  const double e = x.shape.bytes;
  if (!is_fused_norm(x)) {
    append_elementwise(x, name, 36 * n, 7, 80 * n, 14, ops, selective);
  } else if (x.strategy.kernels.fp32_copies) {
    // Cast to fp32, norm of that; backward the norm reads the gradient and the copy twice and
    // writes fp32, which is cast and added to the residual's gradient.
    append_elementwise(x, name, (2 * e + 8) * n, 2, (5 * e + 20) * n, 4, ops, selective);
  } else {
    append_elementwise(x, name, 2 * e * n, 1, 3 * e * n, 1, ops, selective, KernelKind::kNorm);
    if (!reads_twice_backward(x)) return;
    ops.kernels.push_back(memory_op(x, "norm weight gradient", Pass::kBackwardInput, 2 * e * n, 2));
  }
}

// [F-NORM-1] The norm that attention or MLP begin with. Its input goes on along the residual as
// well: autograd adds the two gradients (3e n), which the eager and the fp32 kernels' bytes hold.
void append_residual_norm(const BlockContext& x, std::string_view name, BlockOps& ops) {
  const std::int64_t elements = x.shape.norm_tokens * x.shape.hidden;
  append_norm(x, name, elements, ops, x.strategy.flash_attention);
  if (!is_fused_norm(x) || x.strategy.kernels.fp32_copies) return;
  append_gradient_sum(x, elements, ops);
}

// A tensor that two operations read gets the sum of two gradients: reads both, writes one.
void append_gradient_sum(const BlockContext& x, std::int64_t elements, BlockOps& ops) {
  const double bytes = 3.0 * x.shape.bytes * static_cast<double>(elements);
  ops.kernels.push_back(
      memory_op(x, "gradient sum", Pass::kBackwardInput, bytes, 1, false, KernelKind::kResidual));
}

namespace {

// [F-LIN-2] A weight gradient that its product does not add by itself to the sum over microbatches
// is read with the sum, which is written (e + 2g bytes for gradients of e, sums of g). DeepSpeed's
// BF16_Optimizer casts it to fp32 before (e + 4, then 12: runtime/bf16_optimizer.py,
// update_hp_grads).
KernelOp gradient_accumulation(const BlockContext& x, double weights) {
  const Strategy& s = x.strategy;
  const double e = x.shape.bytes, sum = size_of(s.grad_dtype);
  const bool casts = s.kernels.cast_grad_accumulation && s.precision == Precision::kBf16 &&
                     s.grad_dtype == Dtype::kFp32;
  const double bytes = casts ? e + 16 : e + 2 * sum;
  return memory_op(x, "gradient accumulation", Pass::kBackwardWeight, weights * bytes,
                   casts ? 2 : 1);
}

}  // namespace

// [F-LIN-1] Forward m x n x k, input gradient m x k x n, weight gradient n x k x m; the weight
// gradient is added to the main gradient of grad_dtype, in the product's epilogue where fused,
// else by a pass of its own (read both, write one). The products of `count` experts are issued one
// by one, on several streams (Transformer Engine GroupedLinear, multi_stream_cublas_gemm).
LinearTimes append_linear(const BlockContext& x, std::string_view name, std::int64_t tokens,
                          std::int64_t n, std::int64_t k, bool bias, BlockOps& ops,
                          std::int64_t count) {
  const Strategy& s = x.strategy;
  const double e = x.shape.bytes;
  const double grad = size_of(s.grad_dtype);
  const bool fp8 = s.precision == Precision::kFp8;
  LinearTimes times;
  const auto push = [&](Pass pass, std::int64_t gm, std::int64_t gn, std::int64_t gk, double out,
                        double accumulate) {
    GemmShape g{gm, gn, gk, count, out, accumulate, n % 8 == 0 && k % 8 == 0};
    ops.kernels.push_back(gemm_op(x, name, pass, g, s.precision));
    return ops.kernels.back().time;
  };
  times.forward = push(Pass::kForward, tokens, n, k, e, 0);
  times.backward_input = push(Pass::kBackwardInput, tokens, k, n, e, 0);
  const double weights = static_cast<double>(n * k * count);
  const double rows = static_cast<double>(tokens * count);
  if (s.kernels.fused_grad_accumulation) {
    times.backward_weight = push(Pass::kBackwardWeight, n, k, tokens, grad, grad);
  } else {
    times.backward_weight = push(Pass::kBackwardWeight, n, k, tokens, e, 0);
    ops.kernels.push_back(gradient_accumulation(x, weights));
  }
  if (fp8) {
    // [F-FP8-1] Casts of the input and of the output gradient to fp8 with their transposes:
    // read 2 bytes, write 2 x 1 (Transformer Engine cast_transpose).
    const auto n_casts = static_cast<double>(count);
    const double in = rows * static_cast<double>(k), out = rows * static_cast<double>(n);
    ops.kernels.push_back(memory_op(x, "fp8 cast", Pass::kForward, 4 * in, n_casts));
    ops.kernels.push_back(memory_op(x, "fp8 cast", Pass::kBackwardInput, 4 * out, n_casts));
  }
  if (bias) {
    const double out = rows * static_cast<double>(n);
    append_elementwise(x, "bias", 0, 0, e * out, 1, ops);  // bias gradient: a column sum
  }
  return times;
}

namespace {

void push_tp(const BlockContext& x, Pass pass, Collective op, Bytes bytes, const GroupShape& g,
             Seconds window, BlockOps& ops) {
  CommOp comm;
  comm.dimension = CommDimension::kTp;
  comm.pass = pass;
  comm.operation = op;
  comm.bytes = bytes;
  comm.group = g;
  comm.kind = Group::kTp;
  comm.dtype = activation_dtype(x.strategy.precision);
  comm.time_each = collective_time(x.cluster, op, bytes, g).total;
  comm.hidden = std::min(comm.time_each, window);
  comm.slowdown = comm.hidden * (x.cluster.device.overlap_slowdown - 1);
  ops.comm.push_back(comm);
}

}  // namespace

// [F-TP-1] Per pair of column- and row-parallel linear layers: with sequence parallelism an
// all-gather before and a reduce-scatter after, mirrored in the backward pass, plus one all-gather
// of the saved input for its weight gradient unless its gathered copy was saved; without it one
// all-reduce forward and one backward (Korthikanti et al. 2205.05198, sec. 4.2; Megatron-Core
// tensor_parallel/layers.py). Buffers are tokens x hidden. The backward collective of the column
// layer runs beside its weight-gradient product, the repeated all-gather beside its input-gradient
// product (same file, LinearWithGradAccumulationAndAsyncCommunication), and with overlap.tp the
// others are pipelined with their products in tp chunks, of which one stays exposed.
void append_tp_collectives(const BlockContext& x, const LinearTimes& column, const LinearTimes& row,
                           BlockOps& ops) {
  const Strategy& s = x.strategy;
  if (s.tp == 1) return;
  const GroupShape& g = x.group(Group::kTp);
  const Bytes bytes = Bytes{x.shape.bytes} * x.shape.hidden * x.shape.tokens;
  const double chunks = static_cast<double>(s.tp - 1) / static_cast<double>(s.tp);
  // User buffers write to peers' memory directly: inside one NVLink domain only (Transformer
  // Engine, comm_gemm_overlap).
  const LinkKind link = x.cluster.levels[g.level].kind;
  const bool direct =
      link == LinkKind::kNvswitch || link == LinkKind::kNvlink || link == LinkKind::kXgmi;
  const auto pipelined = [&](Seconds product) {
    return s.overlap.tp && direct ? product * chunks : Seconds{};
  };
  const auto chunk_of = [&](Collective op) {  // what stays exposed when pipelined
    return collective_time(x.cluster, op, bytes, g).total / static_cast<double>(s.tp);
  };
  const auto window = [&](Collective op, Seconds product) {
    const Seconds most = collective_time(x.cluster, op, bytes, g).total - chunk_of(op);
    return std::min(pipelined(product), most);
  };
  if (s.sequence_parallel) {
    using enum Collective;
    push_tp(x, Pass::kForward, kAllGather, bytes, g, window(kAllGather, column.forward), ops);
    push_tp(x, Pass::kForward, kReduceScatter, bytes, g, window(kReduceScatter, row.forward), ops);
    push_tp(x, Pass::kBackwardInput, kAllGather, bytes, g, window(kAllGather, row.backward_input),
            ops);
    if (s.kernels.tp_recompute_allgather) {
      push_tp(x, Pass::kBackwardInput, kAllGather, bytes, g, column.backward_input, ops);
    }
    push_tp(x, Pass::kBackwardInput, kReduceScatter, bytes, g,
            s.overlap.tp_backward ? column.backward_weight : Seconds{}, ops);
  } else {
    push_tp(x, Pass::kForward, Collective::kAllReduce, bytes, g, Seconds{}, ops);
    push_tp(x, Pass::kBackwardInput, Collective::kAllReduce, bytes, g,
            s.overlap.tp_backward ? column.backward_weight : Seconds{}, ops);
  }
}

}  // namespace meshplan
