#pragma once
// Which blocks each pipeline chunk and each pipeline rank holds.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cost/block.hpp"
#include "model/layer_prefix.hpp"
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

// Layers of a rank's i-th chunk by depth: as even as they go, what is left over first to chunks
// without the embedding or the head.
[[nodiscard]] constexpr std::int64_t chunk_layers(std::int64_t layers, std::int64_t chunks,
                                                  std::int64_t i, bool embedding_first,
                                                  bool head_last) {
  const std::int64_t first = embedding_first ? 1 : 0;
  const bool has_embedding = embedding_first && i == 0;
  const bool has_head = head_last && i + 1 == chunks;
  std::int64_t turn = i - first;  // in which chunks take one more
  if (has_embedding || has_head) {
    turn = chunks - first - (head_last ? 1 : 0) + (has_head && !has_embedding ? first : 0);
  }
  return layers / chunks + (chunks > 1 && turn < layers % chunks ? 1 : 0);
}

// Adds layers begin .. end - 1, of which the first `recomputed` are fully recomputed.
inline void add_layers(const LayerPrefix& prefix, std::int64_t begin, std::int64_t end,
                       std::int64_t recomputed, Chunk& chunk) {
  const std::int64_t middle = begin + std::min(recomputed, end - begin);
  const std::int64_t* const before = prefix.until(begin).data();
  const std::int64_t* const again = prefix.until(middle).data();
  const std::int64_t* const after = prefix.until(end).data();
  std::int64_t* const blocks = chunk.blocks.data();
  std::int64_t* const recompute = chunk.recomputed.data();
  for (std::size_t k = kFirstLayerBlock; k < mtp_block(chunk.blocks.size()); ++k) {
    blocks[k] += after[k] - before[k];
    recompute[k] += again[k] - before[k];
  }
  chunk.layers += end - begin;
}

// Adds the head to the last chunk, whose layers are there already, and multi-token prediction: it
// is recomputed where the chunk has layers and its rank recomputes any.
void add_head(const ModelSpec& m, const Strategy& s, std::int64_t recomputed_by_rank, Chunk& chunk);

// Adds the blocks of another chunk of the same rank.
inline void add_blocks(const Chunk& from, Chunk& to) {
  const std::int64_t* const blocks = from.blocks.data();
  const std::int64_t* const recomputed = from.recomputed.data();
  std::int64_t* const all = to.blocks.data();
  std::int64_t* const again = to.recomputed.data();
  for (std::size_t k = 0; k < to.blocks.size(); ++k) {
    all[k] += blocks[k];
    again[k] += recomputed[k];
  }
}

// Chunks by depth. `s` must be complete (cost/step.hpp). A rank's layers are spread over its chunks
// as Strategy::chunk_layers says, else by chunk_layers(); its first layers are the recomputed ones.
[[nodiscard]] std::vector<Chunk> chunk_plan(const ModelSpec& m, const Strategy& s);
// The same into `chunks`, which keeps its memory.
void place_chunks(const ModelSpec& m, const LayerPrefix& prefix, const Strategy& s,
                  std::vector<Chunk>& chunks);

// Wall time of one microbatch over a chunk, split as the executor needs it, and the same by term.
struct ChunkCost {
  PassTime forward;
  PassTime backward;  // without recomputation
  PassTime recompute;
  ChunkTime time;  // recomputation is part of backward_input
};
// `mode`: the strategy's; with kFull, what is not marked as recomputed is kept.
[[nodiscard]] ChunkCost chunk_cost(const Chunk& chunk, const BlockCosts& blocks, Recompute mode);

// [F-EP-18] What a microbatch takes more through these blocks whose passes run beside no other's.
[[nodiscard]] PassTime unpaired_passes(const BlockCosts& blocks, const BlockCounts& counts,
                                       std::size_t device = 0);

}  // namespace meshplan
