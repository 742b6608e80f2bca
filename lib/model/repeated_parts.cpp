// What selective recomputation repeats, listed modules or every second product, and what CUDA
// graphs hold.
#include <algorithm>

#include "model/hyper_connections.hpp"
#include "model/parts.hpp"

namespace meshplan {

// [F-ACT-MEM-2] Of a layer's seven products (queries, keys, values, attention's output, gate, up,
// down; six without a gate) the second, fourth and sixth are computed again (torchtitan
// parallelize_llama.py, _get_custom_policy counts aten.mm and keeps the odd ones).
void repeat_product(const BlockContext& x, std::string_view name, double share, BlockOps& ops) {
  if (!x.strategy.runtime.op_recompute) return;
  const auto last = std::find_if(ops.kernels.rbegin(), ops.kernels.rend(), [&](const KernelOp& op) {
    return op.pass == Pass::kForward && op.gemm && op.name == name;
  });
  if (last != ops.kernels.rend()) last->selective = share;
}

// [F-REC-2] Megatron-Core transformer_config.py, recompute_modules. What a module drops and repeats
// is each kind's saved_bytes() and append_operations().
bool repeats(const BlockContext& x, RecomputeModule module, bool unlisted) {
  const RecomputeModules& listed = x.strategy.recompute_modules;
  return listed.empty() ? unlisted : listed.has(module);
}

bool repeats_norms(const BlockContext& x) {
  return repeats(x, RecomputeModule::kLayernorm, false) || repeats_streams(x);
}

PartBegin part_begin(const BlockOps& ops) {
  return {ops.kernels.size(), ops.comm.size(), ops.checkpoints};
}

void repeat_part(PartBegin begin, BlockOps& ops) {
  for (std::size_t i = begin.kernel; i < ops.kernels.size(); ++i) {
    if (ops.kernels[i].pass == Pass::kForward) ops.kernels[i].selective = true;
  }
  for (std::size_t i = begin.comm; i < ops.comm.size(); ++i) {
    if (ops.comm[i].pass == Pass::kForward) ops.comm[i].selective = true;
  }
  ++ops.checkpoints;
}

// [F-REC-3] A checkpoint that is not reentrant stops where the last tensor is saved: what a product
// saves is saved before it runs, so that neither the layer's last product nor the reduction of its
// output is repeated; behind anything else, only additions and the exchange that brings experts'
// outputs back (a function that saves no tensor: DeepEP's and HybridEP's) are not (PyTorch
// torch/utils/checkpoint.py, _StopRecomputationError; csrc/autograd/saved_variable.h). Compiled
// layers and JAX repeat no more than that: what nothing reads is dropped.
void stop_recompute_early(const BlockContext& x, BlockOps& ops) {
  if (!x.strategy.runtime.recompute_early_stop) return;
  bool product = false;
  for (auto op = ops.kernels.rbegin(); op != ops.kernels.rend(); ++op) {
    if (op->pass != Pass::kForward || op->launches == 0) continue;  // a bias' gradient
    // An addition saves nothing, with a bias or without; dropout saves its mask.
    const bool adds =
        op->kind == KernelKind::kResidual || (op->name == kResidualName && x.model.dropout == 0);
    product = op->gemm.has_value();
    if (adds || product) op->repeated = false;
    if (!adds) break;
  }
  const auto last = std::find_if(ops.comm.rbegin(), ops.comm.rend(),
                                 [](const CommOp& op) { return op.pass == Pass::kForward; });
  if (last == ops.comm.rend()) return;
  const bool reduces =
      last->operation == Collective::kReduceScatter || last->operation == Collective::kAllReduce;
  const bool combines = last->dimension == CommDimension::kEp && x.strategy.runtime.flex_dispatcher;
  if ((product && last->dimension == CommDimension::kTp && reduces) || combines) {
    last->repeated = false;
  }
}

void graph_part(const BlockContext& x, CudaGraphModule module, PartBegin begin, BlockOps& ops) {
  const Runtime& k = x.strategy.runtime;
  if (k.cuda_graph != CudaGraph::kLayer || !k.cuda_graph_modules.has(module)) return;
  for (std::size_t i = begin.kernel; i < ops.kernels.size(); ++i) ops.kernels[i].graphed = true;
  for (std::size_t i = begin.comm; i < ops.comm.size(); ++i) ops.comm[i].graphed = true;
  ops.checkpoints = begin.checkpoints;
}

}  // namespace meshplan
