#pragma once
// Orders made from a building block: the passes of one microbatch on every rank, repeated.
#include <array>

#include "schedule/traits.hpp"

namespace meshplan {

// When the rank begins the passes of microbatch 0, in passes of equal length: forward of its first
// chunk and of its second, input gradient of its second chunk and of its first. Microbatch j does
// the same 6 j later, so the four must differ modulo 6; weight gradients take the slots left over.
using BuildingBlock = std::array<std::int64_t, 4>;

// [F-PIPE-11] Qi et al. 2024 (arXiv:2405.15362): the repeated blocks with every pass of the warm-up
// and of the cool-down moved as far forward as its input allows, and the most activations that the
// repeated blocks hold anywhere. Chunks lie on the ranks in a V. `block` gives each rank's block.
[[nodiscard]] TaskOrder building_block_order(const PipelineShape& s, std::int64_t rank,
                                             BuildingBlock (*block)(std::int64_t pp,
                                                                    std::int64_t rank));

}  // namespace meshplan
