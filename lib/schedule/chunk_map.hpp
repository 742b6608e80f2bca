#pragma once
// Which rank holds which chunk.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "schedule/traits.hpp"

namespace meshplan {

// Chunks that the model is cut into: pp * vp, but for mirrored ones, which are held twice.
[[nodiscard]] inline std::int64_t num_chunks(const PipelineShape& s) {
  return s.pp * s.vp / traits_of(s.schedule).copies();
}

// Rank that holds a chunk. Mirrored chunks are on two ranks, one per direction of flow:
// microbatches of parity 0 enter at the first rank, those of parity 1 at the last. Ignored
// elsewhere.
[[nodiscard]] std::int64_t rank_of_chunk(const PipelineShape& s, std::int64_t chunk,
                                         int direction = 0);

// Chunks of one rank, by depth.
struct RankChunks {
  std::int64_t first = 0, stride = 0, count = 1;
  [[nodiscard]] std::size_t operator[](std::int64_t i) const {
    return static_cast<std::size_t>(first + i * stride);
  }
  [[nodiscard]] std::size_t last() const { return (*this)[count - 1]; }
};

// Those that it works on.
[[nodiscard]] inline RankChunks chunks_on_rank(const PipelineShape& s, std::int64_t rank) {
  const std::int64_t opposite = s.pp - 1 - rank;
  switch (traits_of(s.schedule).layout) {
    case ChunkLayout::kRounds:
      return {rank, s.pp, s.vp};
    case ChunkLayout::kV:
      return {rank, s.pp + opposite - rank, 2};
    case ChunkLayout::kBidirectional:
      return {std::min(rank, opposite), std::max(rank, opposite) - std::min(rank, opposite), 2};
  }
  return {};
}

// Those that microbatches of direction 0 pass on it: every chunk of the model is on one rank.
[[nodiscard]] inline RankChunks home_chunks(const PipelineShape& s, std::int64_t rank) {
  if (traits_of(s.schedule).layout == ChunkLayout::kBidirectional) return {rank, 0, 1};
  return chunks_on_rank(s, rank);
}

}  // namespace meshplan
