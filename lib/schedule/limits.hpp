#pragma once
// How deep a pipeline can be planned for: far beyond what is run (Megatron-LM's 1T model has 64
// stages, 2104.04473 table 1), as orders and memory are worked out chunk by chunk.
#include <cstdint>

namespace meshplan {

inline constexpr std::int64_t kMostChunks = 2048;
inline constexpr std::int64_t kMostChunksPerRank = 128;

}  // namespace meshplan
