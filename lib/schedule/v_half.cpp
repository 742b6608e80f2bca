#include "schedule/building_block.hpp"
#include "schedule/divided.hpp"

namespace meshplan {
namespace {

// The forward of the first chunk and the input gradient of the second, which go down the ranks,
// take two slots per rank, the passes that come back one. For an even number of ranks the two ways
// would meet in one slot modulo 6: the backward begins 3 later.
BuildingBlock v_half_block(std::int64_t pp, std::int64_t rank) {
  const std::int64_t wait = pp % 2 == 0 ? 3 : 0;
  return {2 * rank, 3 * pp - 2 - rank, 3 * pp - 1 + wait + 2 * rank, 6 * pp - 2 + wait - rank};
}

// [F-PIPE-12] Qi et al. 2024 (arXiv:2405.15362), V-Half: floor((p + 2) / 2) microbatches' worth of
// activations, half of 1F1B's p, with about half of its idle time for F = B = W.
// sail-sg's fork of Megatron-LM (--zero-bubble-v-schedule-mem-setup half) and AMD's Primus run it;
// Megatron-LM itself, PyTorch and DeepSpeed do not.
TaskOrder v_half_order(const PipelineShape& s, std::int64_t rank) {
  return building_block_order(s, rank, v_half_block);
}

}  // namespace

extern const ScheduleTraits kVHalfTraits;
const ScheduleTraits kVHalfTraits{
    .fact = "two chunks per rank in a V; half of the memory of 1f1b with half of its bubble",
    .source = "Qi et al. 2024 (2405.15362)",
    .layout = ChunkLayout::kV,
    .chunks = ChunksPerRank::kTwo,
    .splits_backward = true,
    .searched = false,
    .order = v_half_order,
    .chain = v_chain,
};

}  // namespace meshplan
