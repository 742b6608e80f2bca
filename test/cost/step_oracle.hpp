#pragma once
// One step put together rank by rank and chunk by chunk, nothing shared or left out: what
// StepModel must give.
#include <algorithm>
#include <vector>

#include "cost/chunks.hpp"
#include "cost/data_parallel.hpp"
#include "cost/memory.hpp"
#include "cost/placement.hpp"
#include "cost/step_parts.hpp"
#include "schedule/pipeline.hpp"
#include "schedule/run.hpp"

namespace meshplan::test {

inline PipelineShape shape_of_pipeline(const Strategy& s) {
  return {s.schedule, s.pp, s.vp, num_microbatches(s), 0};
}

// DualPipe: on either of its two ranks.
inline std::vector<std::size_t> chunks_on(const Strategy& s, std::int64_t rank) {
  const PipelineShape shape = shape_of_pipeline(s);
  std::vector<std::size_t> held;
  for (std::int64_t c = 0; c < num_chunks(shape); ++c) {
    const bool up = s.schedule == Schedule::kDualPipe && rank_of_chunk(shape, c, 1) == rank;
    if (rank_of_chunk(shape, c, 0) == rank || up) held.push_back(static_cast<std::size_t>(c));
  }
  return held;
}

// Who takes one layer more, first to last: chunks without embedding or head, then those.
inline std::vector<std::int64_t> spread_layers(std::int64_t layers, std::size_t chunks,
                                               bool embedding_first, bool head_last) {
  std::vector<std::int64_t> counts(chunks, layers / static_cast<std::int64_t>(chunks));
  std::int64_t left = layers % static_cast<std::int64_t>(chunks);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < chunks; ++i) {
    const bool burdened = (i == 0 && embedding_first) || (i + 1 == chunks && head_last);
    if (!burdened) order.push_back(i);
  }
  if (embedding_first) order.push_back(0);
  if (head_last && (chunks > 1 || !embedding_first)) order.push_back(chunks - 1);
  for (std::size_t i = 0; left > 0; ++i, --left) ++counts[order[i]];
  return counts;
}

// Layer by layer.
inline std::vector<Chunk> place_by_layer(const ModelSpec& m, const Strategy& s) {
  const PipelineShape shape = shape_of_pipeline(s);
  const auto count = static_cast<std::size_t>(num_chunks(shape));
  const BlockTable table = block_table(m, s);
  std::vector<Chunk> chunks(count, Chunk(table.size()));
  std::vector<std::vector<std::size_t>> owned(static_cast<std::size_t>(s.pp));
  for (std::size_t c = 0; c < count; ++c) {
    chunks[c].rank = rank_of_chunk(shape, static_cast<std::int64_t>(c), 0);
    owned[static_cast<std::size_t>(chunks[c].rank)].push_back(c);
  }
  for (std::size_t r = 0; r < owned.size(); ++r) {
    const auto& mine = owned[r];
    const auto layers =
        spread_layers(s.stage_layers[r], mine.size(), mine.front() == 0, mine.back() + 1 == count);
    for (std::size_t i = 0; i < mine.size(); ++i) chunks[mine[i]].layers = layers[i];
  }
  std::int64_t next = 0;
  for (Chunk& chunk : chunks) {
    chunk.first_layer = next;
    next += chunk.layers;
  }
  for (std::size_t r = 0; r < owned.size(); ++r) {
    std::int64_t left = s.recompute_layers[r];
    for (const std::size_t c : owned[r]) {
      for (std::int64_t i = 0; i < chunks[c].layers; ++i) {
        const auto layer = static_cast<std::size_t>(chunks[c].first_layer + i);
        ++chunks[c].blocks[table.of_layer[layer]];
        if (left > 0) --left, ++chunks[c].recomputed[table.of_layer[layer]];
      }
    }
  }
  ++chunks.front().blocks.embedding();
  Chunk& last = chunks.back();
  ++last.blocks.head();
  last.blocks.mtp() = m.mtp_layers;
  if (s.recompute == Recompute::kFull && last.layers > 0 &&
      s.recompute_layers[static_cast<std::size_t>(last.rank)] > 0) {
    last.recomputed.mtp() = m.mtp_layers;
  }
  return chunks;
}

class StepOracle {
 public:
  StepOracle(const ModelSpec& m, const ClusterSpec& c, const Strategy& s, const BlockCosts& blocks)
      : m_(m), c_(c), s_(s), blocks_(blocks), chunks_(place_by_layer(m, s)) {
    for (const Chunk& chunk : chunks_) {
      const ChunkSaved bytes = saved_bytes(chunk, saved_rates(blocks, s.recompute));
      saved_.push_back(bytes.whole), for_weight_.push_back(bytes.for_weight);
      times_.push_back(chunk_cost(chunk, blocks, s.recompute).time);
    }
  }

  [[nodiscard]] MemoryBreakdown memory(std::int64_t rank) const {
    return memory_breakdown(c_, stored(rank), s_, communicator_bytes(m_, c_, s_));
  }
  // Of a device.
  [[nodiscard]] Bytes host(std::int64_t rank) const { return host_bytes(stored(rank), s_.offload); }
  [[nodiscard]] Bytes node_host() const {
    Bytes most;
    for (std::int64_t r = 0; r < s_.pp; ++r) most = std::max(most, host(r));
    return most * c_.gpus_per_node;
  }
  [[nodiscard]] Bytes peak() const {
    Bytes most;
    for (std::int64_t r = 0; r < s_.pp; ++r) most = std::max(most, memory(r).peak);
    return most;
  }

  // Of one microbatch, over all chunks of the rank.
  [[nodiscard]] Seconds pass_time(std::int64_t rank) const {
    Seconds time;
    for (const std::size_t i : chunks_on(s_, rank)) {
      time += times_[i].forward + times_[i].backward_input + times_[i].backward_weight;
    }
    return time;
  }

  // When the last rank is done. Not of what kernels.retry_stall adds.
  [[nodiscard]] Seconds step_time() const {
    const double m = static_cast<double>(num_microbatches(s_));
    const double share = s_.schedule == Schedule::kDualPipe ? 0.5 : 1.0;
    std::vector<Seconds> finish{pass_time(0) * m};
    if (s_.pp > 1) {
      const SendTime send = boundary_send(m_, c_, s_, Placement(m_, c_, s_)).time;
      const std::vector<SendTime> sends(times_.size() - 1, send);
      finish = testing::run_pipeline(shape_of_pipeline(s_), times_, sends, sends).finish;
    }
    Seconds reduced, optimizer, offload;
    for (std::int64_t r = 0; r < s_.pp; ++r) {
      Seconds forward, backward;
      Bytes saved;
      for (const std::size_t i : chunks_on(s_, r)) {
        forward += times_[i].forward * share;
        backward += (times_[i].backward_input + times_[i].backward_weight) * share;
        saved += ceil_bytes(saved_[i].si() * share);
      }
      const RankEnd end = rank_end(m_, c_, s_, step_end_groups(m_, c_, s_), stored(r).parameters);
      const StepEnd here = step_end(c_, s_, end, forward, backward);
      const Bytes out = ceil_bytes(saved.si() * s_.offload.share_of_layers(m_.num_layers));
      const Seconds copies = s_.offload.activations
                                 ? activation_offload_time(c_.device, out, forward, backward) * m
                                 : Seconds{};
      reduced = std::max(reduced, finish[static_cast<std::size_t>(r)] + here.exposed);
      optimizer = std::max(optimizer, here.optimizer);
      offload = std::max(offload, here.offload + copies);
    }
    return reduced + unpaired() + embedding_reduction(m_, c_, s_, nullptr) + optimizer + offload;
  }

  [[nodiscard]] const std::vector<Chunk>& chunks() const { return chunks_; }

 private:
  // Of one microbatch through the whole model.
  [[nodiscard]] Seconds unpaired() const {
    Seconds more;
    for (const Chunk& chunk : chunks_) {
      for (std::size_t k = 0; k < chunk.blocks.size(); ++k) {
        const PassTime& each = blocks_.of(k, chunk.device).unpaired;
        more += (each.ep + each.launch) * static_cast<double>(chunk.blocks[k]);
      }
    }
    return more;
  }
  [[nodiscard]] RankMemory stored(std::int64_t rank) const {
    Chunk mine(chunks_.front().blocks.size());
    for (const std::size_t i : chunks_on(s_, rank)) add_blocks(chunks_[i], mine);
    RankMemory memory;
    set_stored(memory_rates(m_, c_, s_), blocks_, mine, s_.recompute, memory);
    memory.activations = testing::peak_activation(shape_of_pipeline(s_), rank, saved_, for_weight_);
    set_offloaded(blocks_, mine, s_, memory);
    if (mine.blocks.head() > 0) memory.given_back = given_back_on(rank, memory.activations);
    return memory;
  }

  // What the rank of the head holds the less while its layers' backward pass runs: of one
  // microbatch what the head and multi-token prediction saved.
  [[nodiscard]] Bytes given_back_on(std::int64_t rank, Bytes activations) const {
    const bool at_once = s_.schedule == Schedule::kGpipe || s_.schedule == Schedule::k1f1b ||
                         s_.schedule == Schedule::kInterleaved;
    if (!at_once) return {};
    const Chunk& last = chunks_.back();
    Chunk ends = last;
    for (std::size_t k = 0; k < mtp_block(ends.blocks.size()); ++k) {
      ends.blocks[k] = ends.recomputed[k] = 0;
    }
    const Bytes of_ends = saved_bytes(ends, saved_rates(blocks_, s_.recompute)).whole;
    const std::vector<Bytes> none(saved_.size());
    std::vector<Bytes> left = saved_, one = none;
    left.back() -= of_ends, one.back() = Bytes{1};
    const PipelineShape shape = shape_of_pipeline(s_);
    const std::int64_t held = testing::peak_activation(shape, rank, one, none).count();
    left.back() = std::max(left.back(), Bytes{});
    const Bytes after =
        testing::peak_activation(shape, rank, left, for_weight_) + of_ends * (held - 1);
    return std::max(activations - after, Bytes{});
  }

  const ModelSpec& m_;
  const ClusterSpec& c_;
  const Strategy& s_;
  const BlockCosts& blocks_;
  std::vector<Chunk> chunks_;
  std::vector<Bytes> saved_, for_weight_;
  std::vector<ChunkTime> times_;
};

}  // namespace meshplan::test
