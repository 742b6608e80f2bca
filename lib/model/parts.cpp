#include "model/parts.hpp"

#include <algorithm>

#include "comm/collectives.hpp"
#include "model/adapters.hpp"
#include "model/quantisation.hpp"

namespace meshplan {

KernelOp memory_op(const BlockContext& x, std::string_view name, Pass pass, double bytes,
                   double kernels, bool selective, KernelKind kind) {
  KernelOp op;
  op.name = name;
  op.pass = pass;
  op.time = memory_time(x.cluster.device, kind, pass != Pass::kForward, bytes, kernels);
  op.kind = kind;
  op.bytes = bytes;
  op.launches = kernels;
  const bool by_operation = pass == Pass::kForward && x.strategy.runtime.op_recompute;
  op.selective = selective || by_operation ? 1 : 0;
  return op;
}

double plain_operator(const BlockContext& x) {
  const double factor = x.strategy.runtime.host_factor;
  return factor > kPlainHostFactor ? kPlainHostFactor / factor : 1;
}

Strategy unquantised(const Strategy& s) {
  Strategy plain = s;
  if (is_quantised(s.precision)) plain.precision = Precision::kBf16;
  return plain;
}

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
  return x.model.norm == Norm::kLayerNorm && x.strategy.runtime.two_pass_layernorm &&
         !is_frozen(x.strategy);
}

bool is_fused_norm(const BlockContext& x) {
  return x.strategy.runtime.fused_norm || x.model.norm == Norm::kLayerNorm;
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
  } else if (x.strategy.runtime.fp32_copies) {
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
void append_residual_norm(const BlockContext& x, std::string_view name, BlockOps& ops, bool apart) {
  const std::int64_t elements = x.shape.norm_tokens * x.shape.hidden;
  const bool listed = repeats_norms(x);
  const bool repeated = x.strategy.recompute_modules.empty()
                            ? x.strategy.flash_attention
                            : listed && (apart || !norm_is_inside(x));
  append_norm(x, name, elements, ops, repeated);
  if (listed && repeated) ++ops.checkpoints;
  if (!is_fused_norm(x) || x.strategy.runtime.fp32_copies) return;
  if (x.model.mhc_num_residual_streams > 1) return;  // a mixture, which nothing else reads
  append_gradient_sum(x, elements, ops);
}

// A tensor that two operations read gets the sum of two gradients: reads both, writes one.
void append_gradient_sum(const BlockContext& x, std::int64_t elements, BlockOps& ops) {
  const double bytes = 3.0 * hidden_bytes_each(x) * static_cast<double>(elements);
  ops.kernels.push_back(
      memory_op(x, "gradient sum", Pass::kBackwardInput, bytes, 1, false, KernelKind::kResidual));
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
  // [F-ACT-MEM-2] What was reduced and scattered is kept, gathers are repeated.
  comm.selective =
      x.strategy.runtime.op_recompute && pass == Pass::kForward && op == Collective::kAllGather;
  comm.place = ops.kernels.size();
  ops.comm.push_back(comm);
}

}  // namespace

// [F-TP-3] Before Blackwell a collective starts ahead of the product that is issued behind it where
// all streams share one queue alone, CUDA_DEVICE_MAX_CONNECTIONS=1, which overlapped dispatch does
// without (Megatron-Core tensor_parallel/layers.py,
// LinearWithGradAccumulationAndAsyncCommunication; Megatron-LM training/arguments.py warns of both
// together).
bool starts_before_products(const BlockContext& x) {
  const Architecture a = x.cluster.device.architecture;
  const bool in_order = a == Architecture::kBlackwell || is_amd(a);
  return in_order || !x.strategy.overlap.ep || x.strategy.runtime.single_device_connection;
}

bool hides_tensor_backward(const BlockContext& x) {
  return x.strategy.overlap.tp_backward && starts_before_products(x);
}

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
  // [F-FP8-2] Transformer Engine casts before it gathers: 8 or 4 bits an element travel (pytorch/
  // distributed.py, gather_along_first_dim of a quantised tensor; userbuffers likewise). Sums are
  // reduced in 16 bits.
  const bool quantised = is_quantised(s.precision) && s.runtime.transformer_engine;
  const double each = quantisation(s, x.cluster.device).bytes;
  const Bytes gathered =
      quantised ? ceil_bytes(each * real(x.shape.hidden * x.shape.tokens)) : bytes;
  // User buffers write to peers' memory directly: inside one NVLink domain only (Transformer
  // Engine, comm_gemm_overlap).
  const LinkKind link = x.cluster.levels[g.level].kind;
  const bool direct =
      link == LinkKind::kNvswitch || link == LinkKind::kNvlink || link == LinkKind::kXgmi;
  const auto pipelined = [&](Seconds product) {
    return s.overlap.tp && direct ? product * chunks : Seconds{};
  };
  const auto window = [&](Collective op, Seconds product) {
    const Bytes sent = op == Collective::kAllGather ? gathered : bytes;
    const Seconds whole = collective_time(x.cluster, op, sent, g).total;
    const Seconds most = whole - whole / static_cast<double>(s.tp);  // a chunk stays exposed
    return std::min(pipelined(product), most);
  };
  if (shares_scales(s, x.cluster.device)) {
    for (const Pass pass : {Pass::kForward, Pass::kBackwardInput}) {
      push_tp(x, pass, Collective::kAllReduce, Bytes{4}, g, Seconds{}, ops);
    }
  }
  if (s.sequence_parallel) {
    using enum Collective;
    push_tp(x, Pass::kForward, kAllGather, gathered, g, window(kAllGather, column.forward), ops);
    push_tp(x, Pass::kForward, kReduceScatter, bytes, g, window(kReduceScatter, row.forward), ops);
    push_tp(x, Pass::kBackwardInput, kAllGather, gathered, g,
            window(kAllGather, row.backward_input), ops);
    if (s.runtime.tp_recompute_allgather && !is_frozen(s)) {
      push_tp(x, Pass::kBackwardInput, kAllGather, gathered, g,
              starts_before_products(x) ? column.backward_input : Seconds{}, ops);
    }
    push_tp(x, Pass::kBackwardInput, kReduceScatter, bytes, g,
            hides_tensor_backward(x) ? column.backward_weight : Seconds{}, ops);
  } else {
    push_tp(x, Pass::kForward, Collective::kAllReduce, bytes, g, Seconds{}, ops);
    push_tp(x, Pass::kBackwardInput, Collective::kAllReduce, bytes, g,
            hides_tensor_backward(x) ? column.backward_weight : Seconds{}, ops);
  }
}

// [F-ROPE-2] What Megatron-Core works out for queries, and again for keys, in every layer where it
// has no fused kernel (models/common/embeddings/rope_utils.py): cosines and sines of the angles,
// scaled and cast; of documents in one row also each token's position in its own
// (_apply_rotary_pos_emb_thd). Few bytes, and nothing that autograd records: such an operation
// takes two thirds of another one's host time (benchmarks/device/host_operations.py).
void append_rotary_angles(const BlockContext& x, BlockOps& ops) {
  constexpr double kTensors = 2, kAngles = 6, kPositions = 15, kUnrecorded = 2.0 / 3;
  const bool documents = x.model.lengths.has_value() && x.strategy.packing == Packing::kPack;
  const double kernels = kTensors * (documents ? kAngles + kPositions : kAngles);
  append_elementwise(x, "rotary angles", 0, kernels, 0, 0, ops);
  (ops.kernels.end() - 2)->launches = kUnrecorded * kernels;
}

// [F-ROPE-1] Rotary embedding of queries and keys: one read and write when fused; else about nine
// element passes in five kernels each for queries and keys (rotate_half, two products, a sum).
void append_rotary(const BlockContext& x, double elements, BlockOps& ops) {
  if (x.model.position_embedding != PositionEmbedding::kRope) return;
  const double e = x.shape.bytes;
  const Strategy& s = x.strategy;
  if (s.runtime.fused_rope) {
    append_elementwise(x, "rotary", 2 * e * elements, 2, 2 * e * elements, 2, ops, false,
                       KernelKind::kRotary);
    return;
  }
  append_elementwise(x, "rotary", 9 * e * elements, 10, 10 * e * elements, 12, ops);
  if (s.runtime.transformer_engine) append_rotary_angles(x, ops);
}

// [F-DROP-1] Bias, dropout and residual: one pass that reads two tensors and writes one (and a
// 1-byte mask) when fused, else a pass per operation.
void append_residual(const BlockContext& x, BlockOps& ops) {
  if (x.model.mhc_num_residual_streams > 1) return;  // append_connection()
  const double n = real(x.shape.norm_tokens) * real(x.shape.hidden);
  const double e = hidden_bytes_each(x);
  const bool dropout = x.model.dropout > 0;
  const double mask = dropout ? 1 : 0;
  if (x.strategy.runtime.fused_dropout_add || (!dropout && !x.model.linear_bias)) {
    append_elementwise(x, kResidualName, (3 * e + mask) * n, 1, dropout ? (2 * e + 1) * n : 0,
                       dropout ? 1 : 0, ops, false,
                       dropout ? KernelKind::kOther : KernelKind::kResidual);
  } else {
    append_elementwise(x, kResidualName, (7 * e + mask) * n, 3, (3 * e + mask) * n, 2, ops);
  }
}

bool norm_is_inside(const BlockContext& x) { return x.strategy.runtime.transformer_engine; }

// [F-ACT-1] Activation over n local features: plain reads and writes once (bias included when
// fused), gated reads both halves and writes one; backward reads what forward read and the output
// gradient and writes the input gradient. Unfused: a pass per operation. An input that is kept in
// 8 bits is cast by a kernel of its own, and back (Megatron-Core fusions/fused_bias_swiglu.py).
void append_activation(const BlockContext& x, double features, BlockOps& ops) {
  const double e = x.shape.bytes;
  const bool fused = x.strategy.runtime.fused_activation;
  const bool selective = x.strategy.recompute_modules.empty() && x.strategy.flash_attention;
  if (x.model.gated_mlp) {
    append_elementwise(x, "activation", (fused ? 3 : 5) * e * features, fused ? 1 : 2,
                       (fused ? 5 : 12) * e * features, fused ? 1 : 4, ops, selective,
                       fused ? KernelKind::kGatedActivation : KernelKind::kOther);
    if (!stores_fp8_input(x)) return;
    const double cast = 2 * features * (e + 1);  // both halves: read and written
    append_elementwise(x, "activation input cast", cast, 1, cast, 1, ops, selective);
  } else {
    append_elementwise(x, "activation", (fused ? 2 : 4) * e * features, fused ? 1 : 2,
                       (fused ? 3 : 5) * e * features, fused ? 1 : 2, ops, selective);
  }
}

// Bytes of an input that a linear layer keeps for its weight gradient: layers in 8 or 4 bits keep
// the cast copy (Transformer Engine), others the 16-bit tensor.
double kept(const BlockContext& x, LoraTargets adapters) {
  const Strategy& s = x.strategy;
  if (is_frozen(s)) {
    const bool adapted = has_adapters(s) && !(s.lora.targets & adapters).empty();
    if (!adapted) return 0;
    return s.lora.dropout > 0 ? x.shape.bytes + 1 : x.shape.bytes;
  }
  return is_quantised(s.precision) ? quantisation(s, x.cluster.device).bytes : x.shape.bytes;
}

// An adapter reads the norm's gathered output, and keeps it unless it gathers it again (Megatron-
// Bridge peft/utils.py, return_layernorm_output_gathered).
double kept_input(const BlockContext& x, LoraTargets adapters) {
  const Strategy& s = x.strategy;
  const auto regathers = [&](LoraTarget t) {
    return adapters.contains(t) && regathers_input(s, t);
  };
  const bool kept_whole = is_frozen(s)
                              ? !regathers(LoraTarget::kQkv) && !regathers(LoraTarget::kFc1)
                              : !s.runtime.tp_recompute_allgather;
  const bool gathered = s.sequence_parallel && kept_whole;
  return kept(x, adapters) * real(gathered ? x.shape.tokens : x.shape.norm_tokens) *
         real(x.shape.hidden);
}

double hidden_mask(const BlockContext& x) {
  return x.model.dropout > 0 ? real(x.shape.norm_tokens) * real(x.shape.hidden) : 0;
}

// [F-LORA-5] Hidden states between layers are of e bytes, or of 4 where the embedding was cast to
// fp32: every residual sum stays so, as fp32 plus 16 bits is fp32 (PyTorch, type promotion).
double hidden_bytes_each(const BlockContext& x) {
  return casts_unquantised(x.strategy) ? 4 : x.shape.bytes;
}

// A norm keeps its input (e bytes per element); without a fused kernel the fp32 copy of it, which
// the square and the scale share, and the normalised tensor in e bytes for the weight's gradient
// (Hugging Face modeling_llama.py, LlamaRMSNorm; 4.2 and 2.0 bytes more than fused ones with
// trained and frozen weights on one H200, scripts/gpu_switches.py).
double norm_bytes(const BlockContext& x, double elements) {
  if (is_fused_norm(x)) return elements * hidden_bytes_each(x);
  return elements * (4 + (is_frozen(x.strategy) ? 0 : x.shape.bytes));
}

// Input of the down projection, and what the activation function needs: both gated halves or the
// plain input; eager gated code also keeps the activated half.
double activation_function_bytes(const BlockContext& x, double features) {
  const double e = x.shape.bytes;
  const double in = x.model.gated_mlp ? 2 : 1;
  const double extra = x.model.gated_mlp && !x.strategy.runtime.fused_activation ? 1 : 0;
  const double each = stores_fp8_input(x) ? 1 : e;
  return features * (each * in + e * extra + kept(x, {LoraTarget::kFc2}));
}

bool has_mlp_bias(const ModelSpec& m) { return m.linear_bias || m.mlp_bias; }

bool has_own_norm(const ModelSpec& m) { return !(m.parallel_block && m.parallel_shared_norm); }

std::int64_t mlp_matrices(const ModelSpec& m, std::int64_t ffn) {
  return (m.gated_mlp ? 3 : 2) * m.hidden_size * ffn;
}

std::int64_t mlp_first_bias(const ModelSpec& m, std::int64_t ffn) {
  return (m.gated_mlp ? 2 : 1) * ffn;
}

double repeated_features(const BlockContext& x, double features) {
  return (has_own_norm(x.model) ? kept_input(x, kFirstTargets) : 0) +
         kept(x, {LoraTarget::kFc2}) * features;
}

// [F-PAR-3] Plain or gated MLP: 2*h*f or 3*h*f, biases f (2f gated) and h.
// Vaswani et al. 2017 sec. 3.3; Shazeer 2020 (GLU variants).
void add_mlp(const ModelSpec& m, std::int64_t ffn, LayerParameters& p) {
  if (ffn == 0) return;
  p.mlp_linear += mlp_matrices(m, ffn);
  if (has_mlp_bias(m)) {
    p.mlp_linear += mlp_first_bias(m, ffn);
    p.norms += m.hidden_size;
  }
}

void add_output_bias(const ModelSpec& m, std::int64_t heads, LayerParameters& p) {
  if (m.attention_sinks) p.attention_linear += heads;
  if (m.linear_bias || m.attention_out_bias) p.attention_other += m.hidden_size;
}

void append_tp_collective(const BlockContext& x, CommDimension dimension, Pass pass, Collective op,
                          double bytes, double count, Seconds window, BlockOps& ops) {
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
  comm.place = ops.kernels.size();
  ops.comm.push_back(comm);
}

void append_cp_collective(const BlockContext& x, Pass pass, Collective op, double bytes,
                          double count, Seconds window, BlockOps& ops) {
  CommOp comm;
  comm.dimension = CommDimension::kCp;
  comm.pass = pass;
  comm.operation = op;
  comm.bytes = ceil_bytes(bytes);
  comm.group = x.group(Group::kCp);
  comm.kind = Group::kCp;
  comm.dtype = activation_dtype(x.strategy.precision);
  comm.count = count;
  comm.bidirectional = op == Collective::kSendRecv;  // a ring: to the next, from the one before
  comm.time_each = collective_time(x.cluster, op, comm.bytes, comm.group, comm.bidirectional).total;
  comm.hidden = std::min(comm.time_each, window);
  comm.slowdown = comm.hidden * (x.cluster.device.overlap_slowdown - 1);
  comm.place = ops.kernels.size();
  ops.comm.push_back(comm);
}

namespace {

// [F-HOST-3] Launches that the host could have issued while it issues one Triton kernel: 13.2 us
// for one of 19 arguments (Triton 3.5; meta-pytorch/tritonbench pull request 669), 5 us for others.
constexpr double kTritonLaunches = 13.2 / 5;

}  // namespace

void append_fused(const BlockContext& x, std::string_view name, Pass pass,
                  std::span<const FusedWork> kernels, double times, BlockOps& ops) {
  KernelOp op;
  op.name = name;
  op.pass = pass;
  op.launches = 0;
  for (FusedWork work : kernels) {
    work.flops *= times, work.bytes *= times;
    op.time += fused_time(x.cluster.device, work, pass != Pass::kForward);
    op.flops += work.flops;
    op.bytes += work.bytes;
    op.launches += work.kernels * kTritonLaunches;
  }
  ops.kernels.push_back(op);
}

}  // namespace meshplan
