#pragma once
// What a layer copies to the host and back beside its passes.
#include "cost/block.hpp"
#include "model/context.hpp"
#include "spec/layers.hpp"

namespace meshplan {

// The layer with the waits for its input's copies, where it is recomputed from the host's.
[[nodiscard]] BlockCost with_host_checkpoint(const BlockContext& x, BlockCost cost);

// The layer without what offload.modules sends to the host, and with the waits for it.
[[nodiscard]] BlockCost with_offloaded_modules(const BlockContext& x, const LayerSpec& layer,
                                               BlockCost cost);

}  // namespace meshplan
