#pragma once
// What the host needs to issue the kernels and collectives of a block.
#include "model/context.hpp"
#include "model/operations.hpp"

namespace meshplan {

// [F-HOST-5] Host time of a kernel of a layer over the device's launch_gap: none where a CUDA graph
// replays it (Megatron-Core transformer_config.py, cuda_graph_impl, cuda_graph_modules: a call for
// a layer, for its parts or for the whole iteration takes the place of their launches).
[[nodiscard]] inline double host_factor(const Runtime& k) {
  const bool replayed = k.cuda_graph != CudaGraph::kNone && k.cuda_graph_modules.empty();
  return replayed ? 0 : k.host_factor;
}

// [F-HOST-7] What the host does once a step beside its passes and its update, while the device
// waits: norms of the parameters, timers of all ranks, what is written (Megatron-LM
// training/training.py, train and training_log).
[[nodiscard]] inline Seconds logging_time(const ClusterSpec& c, const Runtime& k) {
  return c.device.launch_gap * (k.step_launches * k.host_factor);
}

// Whether tokens travel between ranks to their experts.
[[nodiscard]] bool has_dispatch(const BlockOps& ops);

// Of the forward or the backward pass.
[[nodiscard]] Seconds host_time(const BlockOps& ops, const BlockContext& x, bool forward);
// Of what selective recomputation repeats, checkpoints included.
[[nodiscard]] Seconds repeated_host_time(const BlockOps& ops, const BlockContext& x);
// For which the device is idle in a forward pass in which the host waits for it and has to catch
// up. `slowest`: of a kernel on the device that all others wait for, over the mean.
[[nodiscard]] Seconds awaited_host_time(const BlockOps& ops, const BlockContext& x, double slowest);

}  // namespace meshplan
