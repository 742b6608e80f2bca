#pragma once
// Weight gradients of the output layer that wait until its rank has done its microbatches.
#include <cstdint>

#include "base/units.hpp"
#include "model/context.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

// [F-DEFER-1] How many microbatches' wait: in a pipeline with whole backward passes, of weights
// that are trained. Megatron-Core starts them when the rank's last backward pass is done
// (pipeline_parallel/schedules.py, finish_embedding_wgrad_compute), while ranks before it are still
// at work; from wgrad_deferral_limit microbatches on they are made at once
// (tensor_parallel/layers.py).
[[nodiscard]] std::int64_t deferred_microbatches(const Strategy& s);

// [F-MEM-17] What they wait with: the gradients of their logits and the output layer's inputs, as
// its tensor-parallel ranks have them.
struct DeferredBytes {
  Bytes beside_loss;  // while the loss of one more microbatch is there
  Bytes behind_loss;  // when all of a step's, or as many as may, wait
};
[[nodiscard]] DeferredBytes deferred_bytes(const Strategy& s, const LocalShape& l);

}  // namespace meshplan
