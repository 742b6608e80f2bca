#pragma once
// Passes of single layers and of microbatches inside of a device's trace. Traces mark neither; a
// layer with fused attention runs one forward kernel of it and one backward kernel for each
// microbatch, so from one such kernel to the next lies the work of one layer.
#include <cstdint>
#include <vector>

#include "base/units.hpp"
#include "compare/device_trace.hpp"

namespace meshplan {

// All passes of one direction. Times are of kernels that compute, without what lies idle between.
struct LayerPasses {
  Direction direction = Direction::kUnknown;
  std::int64_t count = 0;             // passes that were told, of all steps
  Seconds median, slowest;            // of one layer and microbatch
  Seconds elapsed;                    // median from one layer's kernel to the next one's
  std::vector<Seconds> layers;        // mean of each layer of the device, by its order; 0: not told
  std::vector<Seconds> microbatches;  // all told layers of each microbatch of a step, by order
};

// `attention_layers`: those of the device that run fused attention; with several chunks on it their
// order is the schedule's and only the passes themselves are told (`chunks` above one). A segment
// that holds the loss, the embedding of a next microbatch or the optimizer belongs to no layer.
// Empty where the trace has no such kernels, or does not tell forward from backward.
[[nodiscard]] std::vector<LayerPasses> layer_passes(const DeviceTrace& trace, std::int64_t steps,
                                                    std::int64_t attention_layers,
                                                    std::int64_t chunks);

}  // namespace meshplan
