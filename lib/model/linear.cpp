// Products of linear layers, of one matrix or of one per expert.
#include "model/adapters.hpp"
#include "model/parts.hpp"
#include "model/quantisation.hpp"

namespace meshplan {
namespace {

// [F-EP-13] Transformer Engine's GroupedLinear is one call of a module whose products, one per
// expert, a loop in C++ issues on several streams (common/gemm/cublaslt_gemm.cu,
// multi_stream_cublas_gemm): beyond the first each takes the host a fifth of a module's kernel
// (descriptors, cuBLASLt's choice of an algorithm), and the device 8 overheads of a kernel (its own
// start and end, and the kernels that bring its scales into order). Both chosen on mixtures of 4 to
// 64 experts per rank (benchmarks/accuracy: moe_megatron_bridge, moe_misc, aws_moe_dispatchers,
// bridge_skills_ab). Codes without it issue each by a call of its own. Experts of a graph of the
// whole iteration, which knows no counts, and those that are fused are one kernel.
constexpr double kLoopLaunch = 0.2, kLoopOverheads = 8;

bool is_one_kernel(const BlockContext& x) {
  const Runtime& k = x.strategy.runtime;
  return k.grouped_kernel || k.cuda_graph == CudaGraph::kFullIteration || has_fused_experts(x);
}

// Of `count` products or casts that are issued together.
double grouped_launches(const BlockContext& x, std::int64_t count) {
  if (is_one_kernel(x)) return 1;
  const double each = x.strategy.runtime.transformer_engine ? kLoopLaunch : 1;
  return 1 + each * static_cast<double>(count - 1);
}

// Of the casts of `count` tensors: one call; a loop in C++ issues the kernels beyond the first and
// makes the tensors beyond the first, where that is not done for all at once (pytorch/csrc/
// extensions/cast.cpp, split_quantize and multi_tensor_quantize_impl). Estimates: a tensor for
// Python takes the host as long as a product of the loop, a kernel, which needs no descriptors and
// no choice of an algorithm, half of that; were it as long, mixtures in fp8 on H100 would be half a
// point further off in the mean.
double cast_launches(const BlockContext& x, const Quantisation& q, std::int64_t count) {
  constexpr double kKernel = kLoopLaunch / 2, kTensor = kLoopLaunch;
  const bool loop = x.strategy.runtime.transformer_engine;
  const double kernel = loop ? kKernel : 1;
  const double again =
      (q.shared_kernels ? 0 : kernel * q.kernels) + (loop && !q.made_together ? kTensor : 0);
  return 1 + kernel * (q.kernels - 1) + static_cast<double>(count - 1) * again;
}

// What the loop costs the device beside the products, which keep their own times: those may be
// measured.
void append_loop(const BlockContext& x, std::int64_t count, BlockOps& ops) {
  if (count == 1 || !x.strategy.runtime.transformer_engine || is_one_kernel(x)) return;
  for (const Pass pass : {Pass::kForward, Pass::kBackwardInput, Pass::kBackwardWeight}) {
    if (pass == Pass::kBackwardWeight && is_frozen(x.strategy)) continue;
    KernelOp op;
    op.name = "products one by one";
    op.pass = pass;
    op.time = x.cluster.device.kernel_overhead * (kLoopOverheads * static_cast<double>(count - 1));
    op.launches = 0;
    ops.kernels.push_back(op);
  }
}

}  // namespace

double product_rate(const BlockContext& x, Precision p) {
  const double scaled =
      p == Precision::kFp8 ? scaled_product_rate(x.strategy, x.cluster.device) : 1.0;
  return scaled * x.strategy.runtime.product_rate;
}

KernelOp gemm_op(const BlockContext& x, std::string_view name, Pass pass, const GemmShape& g,
                 Precision p) {
  GemmShape shape = g;
  shape.rate = product_rate(x, p);
  KernelOp op;
  op.name = name;
  op.pass = pass;
  op.time = gemm_time(x.cluster.device, p, shape);
  op.flops = gemm_flops(g).si();
  op.launches = grouped_launches(x, g.count);
  op.gemm = shape;
  op.kind = KernelKind::kGemm;
  op.precision = p;
  return op;
}

namespace {

// [F-LIN-2] A weight gradient that its product does not add by itself to the sum over microbatches
// is read with the sum, which is written (e + 2g bytes for gradients of e, sums of g). DeepSpeed's
// BF16_Optimizer casts it to fp32 before (e + 4, then 12: runtime/bf16_optimizer.py,
// update_hp_grads).
KernelOp gradient_accumulation(const BlockContext& x, double weights) {
  const Strategy& s = x.strategy;
  const double e = x.shape.bytes, sum = size_of(s.grad_dtype);
  const bool casts = s.runtime.cast_grad_accumulation && s.precision == Precision::kBf16 &&
                     s.grad_dtype == Dtype::kFp32;
  const double bytes = casts ? e + 16 : e + 2 * sum;
  return memory_op(x, "gradient accumulation", Pass::kBackwardWeight, weights * bytes,
                   casts ? 2 : 1);
}

}  // namespace

// [F-LIN-1] Forward m x n x k, input gradient m x k x n, weight gradient n x k x m; the weight
// gradient is added to the main gradient of grad_dtype, in the product's epilogue where fused,
// else by a pass of its own (read both, write one). The products of `count` experts are issued one
// by one, on several streams (Transformer Engine GroupedLinear, multi_stream_cublas_gemm). Frozen
// layers have no weight gradient.
LinearTimes append_linear(const BlockContext& x, std::string_view name, std::int64_t tokens,
                          std::int64_t n, std::int64_t k, bool bias, BlockOps& ops,
                          std::int64_t count, const AdapterSite* site) {
  const Strategy& s = x.strategy;
  const double e = x.shape.bytes;
  const double grad = size_of(s.grad_dtype);
  const bool fp8 = is_quantised(s.precision), frozen = is_frozen(s);
  LinearTimes times;
  const auto push = [&](Pass pass, std::int64_t gm, std::int64_t gn, std::int64_t gk, double out,
                        double accumulate) {
    GemmShape g{gm, gn, gk, count, out, accumulate, n % 8 == 0 && k % 8 == 0};
    ops.kernels.push_back(gemm_op(x, name, pass, g, s.precision));
    return ops.kernels.back().time;
  };
  times.forward = push(Pass::kForward, tokens, n, k, e, 0);
  ops.kernels.back().weights = n * k * count;
  const bool of_experts = site != nullptr && site->of_experts;
  const WeightUse trained = of_experts ? WeightUse::kTrainedExpert : WeightUse::kTrained;
  ops.kernels.back().use = frozen ? WeightUse::kFrozen : trained;
  // Layers that every tensor-parallel rank has whole see the tokens of its own alone.
  const bool whole = s.sequence_parallel && tokens == x.shape.norm_tokens;
  ops.kernels.back().split = of_experts ? s.etp : whole ? 1 : s.tp;
  ops.kernels.back().splits_inputs = site != nullptr && site->row_parallel;
  times.backward_input = push(Pass::kBackwardInput, tokens, k, n, e, 0);
  const double weights = static_cast<double>(n * k * count);
  const double rows = static_cast<double>(tokens * count);
  if (frozen) {
    append_frozen_weight(x, weights, static_cast<double>(count), ops);
  } else if (s.runtime.fused_grad_accumulation) {
    times.backward_weight = push(Pass::kBackwardWeight, n, k, tokens, grad, grad);
  } else {
    times.backward_weight = push(Pass::kBackwardWeight, n, k, tokens, e, 0);
    ops.kernels.push_back(gradient_accumulation(x, weights));
  }
  if (fp8) {
    // [F-FP8-1] Casts of the input and of the output gradient, with the layout that weight
    // gradients alone read (Transformer Engine cast_transpose).
    const Quantisation q = quantisation(s, x.cluster.device);
    const std::int64_t tensors = is_one_kernel(x) ? 1 : count;
    const double sets = q.shared_kernels ? 1 : static_cast<double>(tensors);
    const double in = rows * static_cast<double>(k), out = rows * static_cast<double>(n);
    const double each = cast_bytes(q, !frozen);
    for (const Pass pass : {Pass::kForward, Pass::kBackwardInput}) {
      const double bytes = each * (pass == Pass::kForward ? in : out);
      ops.kernels.push_back(memory_op(x, "fp8 cast", pass, bytes, q.kernels * sets));
      ops.kernels.back().launches = cast_launches(x, q, tensors);
    }
  }
  if (bias && !frozen) {
    const double out = rows * static_cast<double>(n);
    append_elementwise(x, "bias", 0, 0, e * out, 1, ops);  // bias gradient: a column sum
  }
  append_loop(x, count, ops);
  if (frozen && site != nullptr) append_adapters(x, *site, tokens * count, n, k, ops);
  return times;
}

}  // namespace meshplan
