#pragma once
// Sizes of the axes that ranks are numbered along.
#include <cstdint>

#include "spec/model.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

// Ranks along an axis: of the experts' grid (tp counts etp there), or of everything else's.
[[nodiscard]] std::int64_t axis_size(const Strategy& s, Axis axis, bool expert);

// Whether experts' groups keep every device on one pipeline rank: both grids count the same
// pipeline ranks only if the axes inside of pp hold as many ranks in both. Megatron-Core asserts
// that its two rank generators give the same pipeline groups (core/parallel_state.py,
// initialize_model_parallel). Always true of a model without experts.
[[nodiscard]] bool keeps_pipeline_ranks(const Strategy& s, const ModelSpec& m);

}  // namespace meshplan
