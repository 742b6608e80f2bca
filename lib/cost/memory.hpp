#pragma once
// Memory of one pipeline rank's device, to the byte of what is stored.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cost/block.hpp"
#include "cost/chunks.hpp"
#include "cost/deferral.hpp"
#include "cost/ledger.hpp"
#include "cost/plan_cost.hpp"
#include "schedule/in_flight.hpp"

namespace meshplan {

// [F-ZERO-2] Bytes of weights, gradients and optimizer states per parameter p over n shards:
// weights w p (w p / n under ZeRO-3), gradients g p (g p / n from ZeRO-2), master weights and two
// moments (4 + 2 o) p (/ n from ZeRO-1) (Rajbhandari et al. 1910.02054 sec. 5). fp16 or bf16
// gradients in Megatron-LM get an fp32 copy in the optimizer, 4 p / n (Megatron-Core
// dist_optimizer.md), from the start of the update until the next step's zero_grad
// (core/optimizer/distrib_optimizer.py): when no activation is held. Its published CI runs with
// 16-bit gradients, fp16 and bf16, log the copies between steps.
//
// [F-MEM-5] PyTorch's autograd makes a parameter's gradient when the backward pass comes to it, and
// zero_grad(set_to_none) gives it back (torch/optim/optimizer.py): with one microbatch per step the
// gradients take the place of the activations that the same pass frees: most is held at its
// beginning (activations and buffers), in its last layer, or at its end (gradients). Measured on
// one H200 (scripts/gpu_reference.py). Megatron-LM, DeepSpeed and nanotron keep buffers for all
// gradients, and so does everyone from the second microbatch on.
struct StateBytes {
  Bytes weights, gradients, optimizer;
  Bytes update{};  // from the update on
  Bytes stays{};   // of which until the next step begins
  Bytes late{};    // gradients that take the place of activations
  Bytes paged{};   // optimizer states in unified memory
  Bytes master{};  // fp32 weights, of `optimizer`
  Bytes parked{};  // shards of weights and gradients on the host
};
// On the device: of an offloaded optimizer nothing.
[[nodiscard]] StateBytes state_bytes(const Strategy& s, const BlockParameters& p,
                                     std::int64_t hidden_size = 0);

// [F-MEM-7] What stays allocated from step to step beside weights, gradients and optimizer states.
enum class Kept {
  kMathWorkspace,     // PyTorch's for cuBLAS
  kEngineWorkspace,   // Transformer Engine's for cuBLAS
  kOverlapWorkspace,  // its others, for products beside communication [F-UB-1]
  kGroupedWorkspace,  // Transformer Engine's for experts' products
  kGatheredInput,     // the buffer that inputs are gathered into
  kLayerDummies,      // gradients that nobody reads, of layers' weights
  kHeadDummy,         // of the output layer's
  kLowWeights,        // copies of weights in 8 bits
  kReductionBuckets,  // [F-MEM-2]
};
inline constexpr std::size_t kNumKept = 9;
class KeptBuffers {
 public:
  [[nodiscard]] Bytes& operator[](Kept k) { return bytes_[static_cast<std::size_t>(k)]; }
  [[nodiscard]] Bytes operator[](Kept k) const { return bytes_[static_cast<std::size_t>(k)]; }
  [[nodiscard]] Bytes sum() const {
    Bytes all;
    for (const Bytes each : bytes_) all += each;
    return all;
  }

 private:
  std::array<Bytes, kNumKept> bytes_{};
};

// What a rank's memory depends on besides its layers: worked out once, used for many ranks and
// divisions.
struct MemoryRates {
  struct State {
    double bytes_each = 0;  // per trained parameter
    bool sharded = false;
    bool frozen = false;                   // and what is frozen, as it is stored
    bool whole_matrices = false;           // shards are of whole matrices [F-MEM-18]
    bool whole_tables = false;             // and each table has one owner
    double of_embedding = 0, of_head = 0;  // more, of their tables
  };
  State weights, gradients, optimizer, update;
  State master;  // fp32 weights, of `optimizer`
  State parked;  // weights and gradients on the host
  State paged;   // optimizer states that pages of the host hold where there is no room
  bool late_gradients = false;  // [F-MEM-5]
  bool head_goes_first = true;  // [F-MEM-13]
  std::int64_t dense_shards = 1, expert_shards = 1;
  std::int64_t copied_table = 0;   // parameters that a head's rank without the embedding holds more
  std::int64_t copied_frozen = 0;  // bytes of it where it is frozen
  // Bytes per parameter of the largest block (ZeRO-3): of the ends, and of layers, whose weights
  // may be gathered in few bits.
  std::int64_t gathered_each = 0;
  double gathered_layer = 0;
  Bytes messages;                // buffers that every rank has
  KeptBuffers kept;              // likewise
  Bytes head_input, head_dummy;  // kept more by ranks with the output layer
  std::int64_t dummy_each = 0;   // bytes of an element of layers' weights, each shape once
  double low_each = 0;           // bytes of the copies of an element of layers' weights
  bool update_stays = false;     // `update` is held until the next step begins
  Bytes stage_inputs;            // likewise, of all chunks of a rank
  Bytes chunk_inputs;            // of one of them
  Bytes user_buffers;            // [F-UB-1], outside the allocator, of every rank
  DeferredBytes deferred;        // [F-MEM-17] of the rank with the output layer
};
[[nodiscard]] MemoryRates memory_rates(const ModelSpec& m, const ClusterSpec& c, const Strategy& s);
// The part of it that is kept from step to step.
void add_kept(const ModelSpec& m, const DeviceSpec& d, const Strategy& s, const LocalShape& l,
              MemoryRates& rates);
// At least that much of what does not grow with a rank's layers: messages' and kept buffers, its
// communicators and the driver's context. Without user buffers, as the capacities are that bounds
// are held against (SearchContext::capacity). Nothing of what comes and goes is free of
// fragmentation.
[[nodiscard]] inline Bytes least_fixed(const MemoryRates& rates, const DeviceSpec& d,
                                       Bytes communicators) {
  return rates.messages + rates.kept.sum() + communicators + d.context;
}
// Wherever the optimizer is; and what of that is on the device.
[[nodiscard]] StateBytes state_bytes(const MemoryRates& rates, const BlockParameters& p);
[[nodiscard]] StateBytes on_device(StateBytes states, const Offload& offload);

// Of one kind of state, as if shards could be cut anywhere: for bounds.
[[nodiscard]] double unrounded_bytes(const MemoryRates& rates, const MemoryRates::State& kind,
                                     const BlockParameters& p);

// [F-NCCL-MEM-1] Device buffers of all communicators of a rank; see communicators.cpp.
[[nodiscard]] Bytes communicator_bytes(const ModelSpec& m, const ClusterSpec& c, const Strategy& s);

// Of one microbatch of a chunk.
struct ChunkSaved {
  Bytes whole;       // saved for its backward pass
  Bytes for_weight;  // of that, what a split weight-gradient pass still needs
};
// What saved_bytes() adds up, by block: worked out once, used for many chunks.
struct SavedRate {
  Bytes recomputed;        // of a block that is fully recomputed
  Bytes other;             // of one that is not
  Bytes for_weight_other;  // of that; a recomputed block keeps nothing
};
using SavedRates = PerBlock<SavedRate>;
[[nodiscard]] SavedRates saved_rates(const BlockCosts& blocks, Recompute mode,
                                     std::size_t device = 0);
[[nodiscard]] inline ChunkSaved saved_bytes(const Chunk& chunk, const SavedRates& rates) {
  const SavedRate* const rate = rates.data();
  const std::int64_t* const blocks = chunk.blocks.data();
  const std::int64_t* const recomputed = chunk.recomputed.data();
  ChunkSaved bytes;
  for (std::size_t k = 0; k < chunk.blocks.size(); ++k) {
    if (blocks[k] == 0) continue;
    const std::int64_t others = blocks[k] - recomputed[k];
    bytes.whole += rate[k].recomputed * recomputed[k] + rate[k].other * others;
    bytes.for_weight += rate[k].for_weight_other * others;
  }
  bytes.for_weight = std::min(bytes.for_weight, bytes.whole);
  return bytes;
}

// In use at once, gathered weights and messages included.
struct BufferBytes {
  Bytes ends;    // in the backward pass of the output layer or multi-token prediction, if any
  Bytes layers;  // in that of a layer
  Bytes gathered{}, messages{};  // of both
  Bytes last_layer{};      // [F-MEM-5] what it saved and needs beyond the gradients that are still
                           // to come
  Bytes head_gradients{};  // of `layers`: late ones that the output layer has made
  DeferredBytes deferred{};  // of `ends` and of `layers`
  // [F-GRAPH-2] `layers` without what CUDA graphs hold, and what these need beside what they save.
  Bytes beside_graphs{}, in_graphs{};
};

// What one pipeline rank stores, by name and by when in the step it is there. From here on the
// chunks of a rank count as one, `mine`, with all of its blocks.
struct RankMemory {
  BlockParameters parameters;  // before any sharding
  StateBytes states;           // from step to step, but for `update` and `late`
  Bytes activations;           // from forward to backward: all microbatches in flight, at the most
  Bytes resident;              // of which stay on the device where activations are offloaded
  Bytes copied_back;           // of `resident`, after the head's backward pass [F-OFF-8]
  Bytes on_host;               // of `activations`, what the host holds at the most
  Bytes host_checkpoints;      // inputs of recomputed layers on the host
  Bytes given_back;            // of `activations`, before the layers' backward pass [F-MEM-13]
  BufferBytes buffers;         // within a backward pass
  KeptBuffers kept;            // from step to step
  Bytes inputs;                // of its chunks, between two steps
  Bytes graph_inputs;          // of `activations`, what CUDA graphs keep from step to step
  Bytes graph_saved;           // of `activations`, what lies in their pool [F-GRAPH-2]
  Bytes user_buffers;          // outside the allocator
};

// Parameters, states and buffers of a rank.
void set_stored(const MemoryRates& rates, const BlockCosts& blocks, const Chunk& mine,
                Recompute mode, RankMemory& rank);
// [F-OFF-4] Inputs of recomputed layers that are kept on the host, of one microbatch.
[[nodiscard]] Bytes host_checkpoint_bytes(const BlockCosts& blocks, const Chunk& mine);
// [F-OFF-8] Of rank.activations, what stays on the device where activations are offloaded, and what
// the host holds.
void set_offloaded(const BlockCosts& blocks, const Chunk& mine, const Strategy& s,
                   RankMemory& rank);
[[nodiscard]] BlockParameters held_parameters(const MemoryRates& rates, const BlockCosts& blocks,
                                              const Chunk& mine);
[[nodiscard]] KeptBuffers kept_buffers(const MemoryRates& rates, const BlockCosts& blocks,
                                       const Chunk& mine);
[[nodiscard]] BufferBytes buffer_bytes(const MemoryRates& rates, const BlockCosts& blocks,
                                       const Chunk& mine, Recompute mode);

// [F-MEM-13] What the output layer and multi-token prediction saved of a microbatch is given back
// before the layers' backward pass begins: autograd walks backwards, and frees what a node saved
// when it has used it (PyTorch torch/csrc/autograd/engine.cpp, release_variables). The rank of the
// head runs a microbatch's backward pass right after its forward pass or, with GPipe, all of them
// in turn: as many as it holds, less one, stay. Not where weight gradients wait. `saved`: of the
// rank's chunks, `activations` their most.
[[nodiscard]] Bytes given_back(const Strategy& s, const BlockCosts& blocks, const Chunk& mine,
                               const InFlight& in_flight, std::vector<Bytes>& saved,
                               const std::vector<Bytes>& kept, Bytes activations);
// The fuller of the moments at which that is still held, with what the head's backward pass needs,
// and at which it is not, with what a layer's does.
struct BackwardMoment {
  Bytes activations, buffers;
  bool of_layers = false;  // given back already
};
[[nodiscard]] BackwardMoment fuller_moment(const RankMemory& rank, const Offload& offload);

// [F-GRAPH-2] Where graphs are captured before the first step, the rank as the allocator counts it
// in every step: without what lies in the graphs' pool. Else as it is.
[[nodiscard]] RankMemory without_pool(RankMemory rank);

// At the fullest moment of the step, or where graphs are captured.
[[nodiscard]] MemoryBreakdown memory_breakdown(const ClusterSpec& c, const RankMemory& rank,
                                               const Strategy& s, Bytes communicators);

// [F-MEM-15] Where microbatches are of different lengths, what the caching allocator holds of the
// shorter ones: a segment is as large as what was first asked for, so that a microbatch longer than
// all before finds none for its largest tensors, and new ones are made beside them (PyTorch
// documentation, CUDA semantics, expandable_segments). Largest are those of the output layer and
// its loss, else of one layer's backward pass; what is saved of many layers fits into older
// segments. Three quarters are new: tensors half as large fit into segments of older ones. That is
// the median over lengths that are cut off and left out (benchmarks/accuracy/allocator/simulate.py,
// 24 orders of 150 samples each: 0.4 to 0.9; of samples of 900 tokens and twice the words 0.7, 0.4
// to 1.0). The update's copies lie in the same segments. At most what is left of the device.
[[nodiscard]] Bytes cached_bytes(const ModelSpec& m, const Strategy& s, const RankMemory& rank,
                                 const MemoryBreakdown& memory);

// The same by name. Its fullest moment is memory_breakdown()'s.
[[nodiscard]] Ledger ledger_of(const RankMemory& rank, const Offload& offload);

// [F-OFF-3] What a device keeps in host memory: its offloaded optimizer states and activations, of
// all microbatches in flight. A node's host holds that of all its devices, each as of the fullest
// rank.
[[nodiscard]] Bytes host_bytes(const RankMemory& rank, const Offload& offload);

}  // namespace meshplan
