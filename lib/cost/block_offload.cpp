#include "cost/block_offload.hpp"

#include <algorithm>

#include "model/kinds.hpp"

namespace meshplan {

// [F-OFF-4] The input of a recomputed layer goes to the host beside its forward pass and comes back
// beside the passes before it in the backward pass; what takes longer than these is waited for. Two
// are on the device at a time: one computed with, one on its way.
BlockCost with_host_checkpoint(const BlockContext& x, BlockCost cost) {
  if (cost.host_checkpoint == Bytes{}) return cost;
  const Seconds copy = cost.host_checkpoint / x.cluster.device.host_link;
  const Seconds forward = cost.forward.total();
  const Seconds both =
      cost.recompute_full.total() + cost.backward_input.total() + cost.backward_weight.total();
  cost.recompute_full.launch +=
      std::max(copy - forward, Seconds{}) + std::max(copy - both, Seconds{});
  return cost;
}

// [F-OFF-5] Modules' inputs go to the host beside the forward pass and come back beside the
// backward pass of the layer behind; what takes longer is waited for. A layer's are on the device
// twice: with the pass that computes, and on their way; with a margin one layer's never leave it,
// so that the first backward pass need not wait (Megatron-Core fine_grained_activation_offload.py,
// post_warmup_callback).
BlockCost with_offloaded_modules(const BlockContext& x, const LayerSpec& layer, BlockCost cost) {
  if (x.strategy.offload.modules.empty()) return cost;
  const KeptBytes saved = layer_saved_bytes(x, layer);
  const bool selective = x.strategy.recompute == Recompute::kSelective;
  const double left = saved.all - (selective ? saved.selective : 0);
  const double share = x.strategy.offload.activation_fraction;
  cost.offloaded = ceil_bytes(std::min(share * saved.offloaded, left));
  cost.saved.none -= std::min(cost.offloaded, cost.saved.none);
  cost.saved.selective -= std::min(cost.offloaded, cost.saved.selective);
  cost.working_set += (x.strategy.runtime.offload_margin ? 3 : 2) * cost.offloaded;
  const Seconds copy = cost.offloaded / x.cluster.device.host_link;
  const Seconds backward = cost.backward_input.total() + cost.backward_weight.total() +
                           (selective ? cost.recompute_selective.total() : Seconds{});
  cost.forward.launch += std::max(copy - cost.forward.total(), Seconds{});
  cost.backward_input.launch += std::max(copy - backward, Seconds{});
  return cost;
}

}  // namespace meshplan
