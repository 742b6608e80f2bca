// Attention and Mamba-2 side by side (Falcon-H1, 2507.22448 sec. 2.1; Megatron-Bridge
// models/falcon_h1/modeling_falconh1/falconh1_layer.py).
#include <algorithm>

#include "model/kinds.hpp"
#include "model/parts.hpp"

namespace meshplan {

// [F-PMX-1] Both kinds' parameters; the norm before them is one.
void add_parameters(const ParallelMixerSpec& kind, const ModelSpec& m, LayerParameters& p) {
  add_parameters(kind.attention, m, p);
  add_parameters(kind.mamba, m, p);
}

std::int64_t copied_parameters(const ParallelMixerSpec& kind, const ModelSpec& m, std::int64_t tp) {
  return copied_parameters(kind.attention, m, tp) + copied_parameters(kind.mamba, m, tp);
}

double token_flops(const ParallelMixerSpec& kind, std::int64_t seq_len) {
  return token_flops(kind.attention, seq_len) + token_flops(kind.mamba, seq_len);
}

double causal_token_flops(const ParallelMixerSpec& kind, std::int64_t seq_len) {
  return causal_token_flops(kind.attention, seq_len) + token_flops(kind.mamba, seq_len);
}

// [F-PMX-2] Both kinds' kernels and collectives without the second's norm: what it adds to the
// residual is the sum of both outputs, and its gradients' sum that of the two readers of the norm.
void append_operations(const ParallelMixerSpec& kind, const BlockContext& x, BlockOps& ops) {
  append_operations(kind.attention, x, ops);
  BlockOps second;
  append_operations(kind.mamba, x, second);
  std::erase_if(second.kernels, [](const KernelOp& op) { return op.name == "input norm"; });
  for (CommOp& op : second.comm) op.place += ops.kernels.size();
  ops.kernels.insert(ops.kernels.end(), second.kernels.begin(), second.kernels.end());
  ops.comm.insert(ops.comm.end(), second.comm.begin(), second.comm.end());
  ops.checkpoints += second.checkpoints;
}

// [F-PMX-3] What both keep; the norm's input and output once.
KeptBytes saved_bytes(const ParallelMixerSpec& kind, const BlockContext& x) {
  const KeptBytes a = saved_bytes(kind.attention, x), b = saved_bytes(kind.mamba, x);
  const double norm = real(x.shape.norm_tokens) * real(x.shape.hidden);
  const double output = std::min(kept_input(x, kQkvTargets), kept_input(x, {LoraTarget::kIn}));
  const double shared = norm_bytes(x, norm) + output + hidden_mask(x);
  return {a.all + b.all - shared, a.selective + std::max(0.0, b.selective - output),
          std::max(a.together, b.together)};
}

double temporary_bytes(const ParallelMixerSpec& kind, const BlockContext& x) {
  return std::max(temporary_bytes(kind.attention, x), temporary_bytes(kind.mamba, x));
}

}  // namespace meshplan
