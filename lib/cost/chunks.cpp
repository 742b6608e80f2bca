#include "cost/chunks.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "schedule/chunk_map.hpp"

namespace meshplan {

PipelineShape pipeline_shape(const Strategy& s) {
  const bool in_groups = s.schedule == Schedule::kInterleaved;
  return PipelineShape{s.schedule, s.pp, s.vp, num_microbatches(s),
                       in_groups ? s.runtime.microbatch_group_size : 0};
}

void add_head(const ModelSpec& m, const Strategy& s, std::int64_t recomputed_by_rank,
              Chunk& chunk) {
  ++chunk.blocks.head();
  chunk.blocks.mtp() = m.mtp_layers;
  if (s.recompute == Recompute::kFull && chunk.layers > 0 && recomputed_by_rank > 0) {
    chunk.recomputed.mtp() = m.mtp_layers;
  }
}

void place_chunks(const ModelSpec& m, const LayerPrefix& prefix, const Strategy& s,
                  std::vector<Chunk>& chunks) {
  const PipelineShape shape = pipeline_shape(s);
  const auto count = static_cast<std::size_t>(num_chunks(shape));
  chunks.assign(count, Chunk(prefix.table.size()));
  const bool stated = s.chunk_layers.size() == count;
  for (std::int64_t r = 0; r < s.pp; ++r) {
    const RankChunks mine = home_chunks(shape, r);
    const bool embedding_first = mine[0] == 0, head_last = mine.last() + 1 == count;
    const std::int64_t layers = s.stage_layers[static_cast<std::size_t>(r)];
    for (std::int64_t i = 0; i < mine.count; ++i) {
      chunks[mine[i]].rank = r;
      chunks[mine[i]].layers =
          stated ? s.chunk_layers[mine[i]]
                 : chunk_layers(layers, mine.count, i, embedding_first, head_last);
    }
  }
  std::int64_t next = 0;
  for (Chunk& chunk : chunks) {
    chunk.first_layer = next;
    next += chunk.layers;
  }
  PLAN_CHECK(next == m.num_layers);
  for (std::int64_t r = 0; r < s.pp; ++r) {
    const RankChunks mine = home_chunks(shape, r);
    std::int64_t left = s.recompute_layers[static_cast<std::size_t>(r)];
    for (std::int64_t i = 0; i < mine.count; ++i) {
      Chunk& chunk = chunks[mine[i]];
      const std::int64_t layers = std::exchange(chunk.layers, 0);
      add_layers(prefix, chunk.first_layer, chunk.first_layer + layers, left, chunk);
      left = std::max<std::int64_t>(0, left - layers);
    }
  }
  ++chunks.front().blocks.embedding();
  Chunk& last = chunks.back();
  add_head(m, s, s.recompute_layers[static_cast<std::size_t>(last.rank)], last);
}

std::vector<Chunk> chunk_plan(const ModelSpec& m, const Strategy& s) {
  std::vector<Chunk> chunks;
  place_chunks(m, layer_prefix(m, s), s, chunks);
  return chunks;
}

ChunkCost chunk_cost(const Chunk& chunk, const BlockCosts& blocks, Recompute mode) {
  ChunkCost cost;
  PassTime weight;
  for (std::size_t k = 0; k < chunk.blocks.size(); ++k) {
    if (chunk.blocks[k] == 0) continue;
    const auto n = static_cast<double>(chunk.blocks[k]);
    const auto full = static_cast<double>(chunk.recomputed[k]);
    const BlockCost& b = blocks.of(k, chunk.device);
    cost.forward += b.forward * n;
    cost.backward += b.backward_input * n;
    weight += b.backward_weight * n;
    cost.recompute += b.recompute_full * full;
    if (mode == Recompute::kSelective) cost.recompute += b.recompute_selective * (n - full);
  }
  cost.time.forward = cost.forward.total();
  cost.time.backward_input = cost.backward.total() + cost.recompute.total();
  cost.time.backward_weight = weight.total();
  cost.backward += weight;
  return cost;
}

PassTime unpaired_passes(const BlockCosts& blocks, const BlockCounts& counts, std::size_t device) {
  PassTime all;
  for (std::size_t k = 0; k < counts.size(); ++k) {
    if (counts[k] > 0) all += blocks.of(k, device).unpaired * static_cast<double>(counts[k]);
  }
  return all;
}

}  // namespace meshplan
