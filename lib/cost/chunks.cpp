#include "cost/chunks.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace meshplan {

PipelineShape pipeline_shape(const Strategy& s) {
  return PipelineShape{s.schedule, s.pp, s.vp, num_microbatches(s), 0};
}

std::vector<std::int64_t> chunk_layers(std::int64_t layers, std::size_t chunks,
                                       bool embedding_first, bool head_last) {
  std::vector<std::int64_t> counts(chunks, layers / static_cast<std::int64_t>(chunks));
  std::int64_t left = layers % static_cast<std::int64_t>(chunks);
  std::vector<std::size_t> order;  // who takes one more, first to last
  for (std::size_t i = 0; i < chunks; ++i) {
    const bool burdened = (i == 0 && embedding_first) || (i + 1 == chunks && head_last);
    if (!burdened) order.push_back(i);
  }
  if (embedding_first) order.push_back(0);
  if (head_last && (chunks > 1 || !embedding_first)) order.push_back(chunks - 1);
  for (std::size_t i = 0; left > 0; ++i, --left) ++counts[order[i]];
  return counts;
}

namespace {

void fill_blocks(const BlockTable& table, Chunk& chunk, std::int64_t recomputed) {
  for (std::int64_t i = 0; i < chunk.layers; ++i) {
    const std::size_t block = table.of_layer[static_cast<std::size_t>(chunk.first_layer + i)];
    ++chunk.blocks[block];
    if (i < recomputed) ++chunk.recomputed[block];
  }
}

}  // namespace

std::vector<std::size_t> chunks_of_rank(const Strategy& s, std::int64_t rank) {
  const RankChunks chunks = chunks_on_rank(pipeline_shape(s), rank);
  std::vector<std::size_t> held;
  for (std::int64_t i = 0; i < chunks.count; ++i) held.push_back(chunks[i]);
  return held;
}

std::vector<Chunk> chunk_plan(const ModelSpec& m, const Strategy& s) {
  const PipelineShape shape = pipeline_shape(s);
  const auto count = static_cast<std::size_t>(num_chunks(shape));
  const BlockTable table = block_table(m);
  std::vector<Chunk> chunks(count, Chunk(table.size()));
  std::vector<std::vector<std::size_t>> owned(static_cast<std::size_t>(s.pp));
  for (std::size_t c = 0; c < count; ++c) {
    chunks[c].rank = rank_of_chunk(shape, static_cast<std::int64_t>(c), 0);
    owned[static_cast<std::size_t>(chunks[c].rank)].push_back(c);
  }
  for (std::size_t r = 0; r < owned.size(); ++r) {
    const auto& mine = owned[r];
    const std::vector<std::int64_t> layers =
        chunk_layers(s.stage_layers[r], mine.size(), mine.front() == 0, mine.back() + 1 == count);
    for (std::size_t i = 0; i < mine.size(); ++i) chunks[mine[i]].layers = layers[i];
  }
  std::int64_t next = 0;
  for (Chunk& chunk : chunks) {
    chunk.first_layer = next;
    next += chunk.layers;
  }
  PLAN_CHECK(next == m.num_layers);
  for (std::size_t r = 0; r < owned.size(); ++r) {
    std::int64_t left = s.recompute_layers[r];
    for (const std::size_t c : owned[r]) {
      const std::int64_t here = std::min(left, chunks[c].layers);
      fill_blocks(table, chunks[c], here);
      left -= here;
    }
  }
  ++chunks.front().blocks.embedding();
  auto& last = chunks.back();
  ++last.blocks.head();
  last.blocks.mtp() = m.mtp_layers;
  if (s.recompute == Recompute::kFull && last.layers > 0 &&
      s.recompute_layers[static_cast<std::size_t>(last.rank)] > 0) {
    last.recomputed.mtp() = m.mtp_layers;
  }
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

}  // namespace meshplan
