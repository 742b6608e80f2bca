// The moments of a step at which a rank may hold the most.
#include <algorithm>

#include "base/units.hpp"
#include "cost/memory.hpp"
#include "model/packing.hpp"
#include "schedule/traits.hpp"

namespace meshplan {
namespace {

// [F-MEM-20] The caching allocator's unusable share of what comes and goes within a step
// (activations and buffers); parameters and states are allocated once. Mean reserved over allocated
// of PyTorch training runs is 1 / 0.94 (SimuMax, config of its measured B200 and A100 runs). Where
// segments grow, free pages are given back and mapped where they are needed: lost is what lies
// beside used bytes in a page (benchmarks/accuracy/allocator/fragmentation.py, mean).
constexpr double kFragmentation = 0.06;
constexpr double kFragmentationOfPages = 0.014;

}  // namespace

Bytes given_back(const Strategy& s, const BlockCosts& blocks, const Chunk& mine,
                 const InFlight& in_flight, std::vector<Bytes>& saved,
                 const std::vector<Bytes>& kept, Bytes activations) {
  const std::size_t count = mine.blocks.size();
  if (mine.blocks.head() == 0 || traits_of(s.schedule).splits_backward) return {};
  const Recompute rest = s.recompute == Recompute::kFull ? Recompute::kNone : s.recompute;
  Bytes ends;
  for (const std::size_t k : {mtp_block(count), head_block(count)}) {
    const SavedActivations& bytes = blocks.of(k, mine.device).saved;
    ends +=
        bytes.full * mine.recomputed[k] + bytes.of(rest) * (mine.blocks[k] - mine.recomputed[k]);
  }
  saved.back() -= ends;
  const Bytes without = in_flight.peak(saved, kept) + ends * (in_flight.most_of_last() - 1);
  saved.back() += ends;
  return std::max(activations - without, Bytes{});
}

BackwardMoment fuller_moment(const RankMemory& rank, const Offload& offload) {
  const Bytes saved = offload.activations ? rank.resident : rank.activations;
  const Bytes left = saved - std::min(rank.given_back, saved);
  // The head's moment is one of its own only where the head gives back what it saved.
  const Bytes in_head = rank.given_back > Bytes{} ? saved - rank.copied_back : saved;
  const bool of_layers = left + rank.buffers.layers > in_head + rank.buffers.ends;
  if (of_layers) return {left, rank.buffers.layers, true};
  return {in_head, rank.buffers.ends, false};
}

RankMemory without_pool(RankMemory rank) {
  if (rank.graph_saved == Bytes{}) return rank;
  rank.activations -= rank.graph_saved;
  rank.resident = std::min(rank.resident, rank.activations);
  rank.buffers.layers = rank.buffers.beside_graphs;
  return rank;
}

namespace {

// The fullest of the step's moments. What all of them hold: weights, gradients, optimizer states,
// and what is reserved. Beside that, in a backward pass activations and buffers, and during the
// update its copies. Late gradients come only in its course.
MemoryBreakdown fullest_of_step(const ClusterSpec& c, const RankMemory& rank, const Strategy& s,
                                Bytes communicators) {
  const StateBytes states = on_device(rank.states, s.offload);
  const auto [activations, buffers, of_layers] = fuller_moment(rank, s.offload);
  MemoryBreakdown memory;
  memory.weights = states.weights;
  memory.gradients = states.gradients;
  memory.optimizer = states.optimizer;
  memory.activations = activations;
  const Bytes kept = rank.kept.sum();
  memory.persistent = kept + states.stays + rank.inputs + rank.graph_inputs;
  memory.buffers = std::max(buffers, states.update + rank.inputs + rank.graph_inputs - activations);
  if (states.late > Bytes{0}) {
    const Bytes beyond =
        std::max({activations + buffers - states.late, rank.buffers.last_layer, Bytes{0}});
    memory.buffers = std::min(memory.buffers, beyond);
    memory.activations = beyond - memory.buffers;
  }
  memory.buffers += kept;
  const Bytes held = std::min(rank.graph_inputs, memory.activations);
  memory.activations -= held, memory.buffers += held;
  memory.communicators = communicators + rank.user_buffers;
  memory.context = c.device.context;
  const double lost = s.runtime.expandable_segments ? kFragmentationOfPages : kFragmentation;
  memory.fragmentation = ceil_bytes(lost * (activations + buffers).si());
  memory.reserved = memory.communicators + memory.context + memory.fragmentation;
  memory.peak = memory.weights + memory.gradients + memory.optimizer + memory.activations +
                memory.buffers + memory.reserved;
  memory.capacity = c.device.memory;
  return memory;
}

}  // namespace

// The device must hold all of it at once; what the allocator has handed out at the most is less by
// what lies in the pool, or what capturing the graphs takes, before the optimizer has moments.
MemoryBreakdown memory_breakdown(const ClusterSpec& c, const RankMemory& rank, const Strategy& s,
                                 Bytes communicators) {
  const MemoryBreakdown all = fullest_of_step(c, rank, s, communicators);
  if (rank.graph_saved == Bytes{}) return all;
  MemoryBreakdown memory = fullest_of_step(c, without_pool(rank), s, communicators);
  MemoryBreakdown capture = memory;
  capture.optimizer = std::min(memory.optimizer, rank.states.master);
  capture.activations = rank.graph_saved;
  capture.buffers = rank.kept.sum() + rank.graph_inputs + rank.buffers.in_graphs;
  capture.peak = capture.weights + capture.gradients + capture.optimizer + capture.activations +
                 capture.buffers + capture.reserved;
  if (capture.allocated() > memory.allocated()) {
    // States are shown as they are between steps, in the place of what will be theirs.
    const Bytes later = std::min(memory.optimizer - capture.optimizer, capture.activations);
    memory = capture;
    memory.optimizer += later, memory.activations -= later;
  }
  const Bytes pool = std::max(all.allocated() - memory.allocated(), Bytes{0});
  memory.fragmentation = all.fragmentation + pool;
  memory.reserved = all.reserved + pool;
  memory.peak = memory.weights + memory.gradients + memory.optimizer + memory.activations +
                memory.buffers + memory.reserved;
  return memory;
}

Bytes cached_bytes(const ModelSpec& m, const Strategy& s, const RankMemory& rank,
                   const MemoryBreakdown& memory) {
  if (!m.lengths || s.runtime.expandable_segments) return {};
  constexpr double kNew = 0.75;
  const double growth = kNew * (record_growth(*m.lengths, s.packing, s.seq_len, s.micro_batch) - 1);
  const BackwardMoment backward = fuller_moment(rank, s.offload);
  const Bytes large = std::max(rank.given_back + rank.buffers.ends, rank.buffers.layers);
  const Bytes held = backward.activations + backward.buffers + ceil_bytes(growth * large.si());
  const Bytes more = held - (memory.activations + memory.buffers - memory.persistent);
  const Bytes left = memory.capacity - memory.peak;
  return std::max(std::min(more, left), Bytes{0});
}

}  // namespace meshplan
