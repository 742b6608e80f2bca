#pragma once
// Which blocks each pipeline chunk and each pipeline rank holds.
#include <cstdint>
#include <vector>

#include "cost/block.hpp"
#include "schedule/pipeline.hpp"
#include "spec/model.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

struct Chunk {
  Chunk() = default;
  explicit Chunk(std::size_t num_blocks) : blocks(num_blocks), recomputed(num_blocks) {}

  std::int64_t rank = 0;  // pipeline rank; where chunks are mirrored, of even microbatches
  std::int64_t first_layer = 0;
  std::int64_t layers = 0;
  std::size_t device = 0;  // type of the rank's device: whose costs count
  BlockCounts blocks;      // embedding and head included
  BlockCounts recomputed;  // of which fully recomputed
};

[[nodiscard]] PipelineShape pipeline_shape(const Strategy& s);

// Layers of one rank over its chunks, in the order of their depth: as even as they go, what is left
// over first to chunks without the embedding or the head.
[[nodiscard]] std::vector<std::int64_t> chunk_layers(std::int64_t layers, std::size_t chunks,
                                                     bool embedding_first, bool head_last);

// Chunks by depth. `s` must be complete (cost/step.hpp). A rank's layers are spread over its chunks
// as evenly as they go; what is left over goes to chunks without embedding or head first.
[[nodiscard]] std::vector<Chunk> chunk_plan(const ModelSpec& m, const Strategy& s);

// Chunks (indices into chunk_plan) that a pipeline rank holds parameters of.
[[nodiscard]] std::vector<std::size_t> chunks_of_rank(const Strategy& s, std::int64_t rank);

// Wall time of one microbatch over a chunk, split as the executor needs it, and the same by term.
struct ChunkCost {
  PassTime forward;
  PassTime backward;  // without recomputation
  PassTime recompute;
  ChunkTime time;  // recomputation is part of backward_input
};
[[nodiscard]] ChunkCost chunk_cost(const Chunk& chunk, const BlockCosts& blocks, Recompute mode);

}  // namespace meshplan
