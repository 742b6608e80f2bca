#include "schedule/building_block.hpp"
#include "schedule/divided.hpp"

namespace meshplan {
namespace {

// Every pass takes one slot per rank, down and back. For a multiple of three ranks the two ways
// would meet in one slot modulo 6: the backward begins 2 later.
BuildingBlock v_min_block(std::int64_t pp, std::int64_t rank) {
  const std::int64_t wait = pp % 3 == 0 ? 2 : 0;
  return {rank, 2 * pp - 1 - rank, 2 * pp + wait + rank, 4 * pp - 1 + wait - rank};
}

// [F-PIPE-13] Qi et al. 2024 (arXiv:2405.15362), V-Min: floor((p + 4) / 3) microbatches' worth of
// activations, a third of 1F1B's p, with about two thirds of its idle time for F = B = W. Where
// they differ, ranks wait for each other in every microbatch.
// sail-sg's fork of Megatron-LM (--zero-bubble-v-schedule-mem-setup min) and AMD's Primus run it;
// Megatron-LM itself, PyTorch and DeepSpeed do not.
TaskOrder v_min_order(const PipelineShape& s, std::int64_t rank) {
  return building_block_order(s, rank, v_min_block);
}

}  // namespace

extern const ScheduleTraits kVMinTraits;
const ScheduleTraits kVMinTraits{
    .fact = "two chunks per rank in a V; a third of the memory of 1f1b, waits where passes differ",
    .source = "Qi et al. 2024 (2405.15362)",
    .layout = ChunkLayout::kV,
    .chunks = ChunksPerRank::kTwo,
    .splits_backward = true,
    .searched = false,
    .order = v_min_order,
    .chain = v_chain,
};

}  // namespace meshplan
