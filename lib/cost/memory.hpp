#pragma once
// Memory of one pipeline rank's device, to the byte of what is stored.
#include <cstdint>
#include <span>
#include <vector>

#include "cost/block.hpp"
#include "cost/chunks.hpp"
#include "cost/plan_cost.hpp"

namespace meshplan {

// Parameters of a pipeline rank's device, before any ZeRO sharding.
[[nodiscard]] BlockParameters rank_parameters(const ModelSpec& m, const Strategy& s,
                                              const BlockCosts& blocks,
                                              std::span<const Chunk> chunks, std::int64_t rank);

// [F-ZERO-2] Bytes of weights, gradients and optimizer states per parameter p over n shards:
// weights w p (w p / n under ZeRO-3), gradients g p (g p / n from ZeRO-2), master weights and two
// moments (4 + 2 o) p (/ n from ZeRO-1) (Rajbhandari et al. 1910.02054 sec. 5). fp16 or bf16
// gradients in Megatron-LM get an fp32 copy in the optimizer, 4 p / n (Megatron-Core
// dist_optimizer.md), from the start of the update to its end: when no activation is held. (Logs of
// nvidia_dgxc.jsonl: 34.5 and 44.3 GB allocated between steps hold no such copy.)
//
// [F-MEM-5] PyTorch's autograd makes a parameter's gradient when the backward pass comes to it, and
// zero_grad(set_to_none) gives it back (torch/optim/optimizer.py): with one microbatch per step the
// gradients take the place of the activations that the same pass frees: most is held at its
// beginning (activations and buffers), in its last layer, or at its end (gradients). Measured on
// one H200 (scripts/gpu_reference.py). Megatron-LM, DeepSpeed and nanotron keep buffers for all
// gradients, and so does everyone from the second microbatch on.
struct StateBytes {
  Bytes weights, gradients, optimizer;
  Bytes update{};  // during the update alone
  Bytes late{};    // gradients that take the place of activations
};
[[nodiscard]] StateBytes state_bytes(const Strategy& s, const BlockParameters& p);

// What a rank's memory depends on besides its layers: worked out once, used for many divisions.
struct MemoryRates {
  struct State {
    std::int64_t bytes_each = 0;  // per parameter
    bool sharded = false;
  };
  State weights, gradients, optimizer, update;
  bool optimizer_on_host = false;
  bool late_gradients = false;  // [F-MEM-5]
  std::int64_t dense_shards = 1, expert_shards = 1;
  std::int64_t copied_table = 0;   // parameters that a head's rank without the embedding holds more
  std::int64_t gathered_each = 0;  // bytes per parameter of the largest block (ZeRO-3)
  Bytes messages;                  // buffers that every rank has
};
[[nodiscard]] MemoryRates memory_rates(const ModelSpec& m, const Strategy& s);
[[nodiscard]] StateBytes state_bytes(const MemoryRates& rates, const BlockParameters& p);

// [F-NCCL-MEM-1] Device buffers of all communicators of a rank; see memory.cpp.
[[nodiscard]] Bytes communicator_bytes(const ModelSpec& m, const ClusterSpec& c, const Strategy& s);

[[nodiscard]] MemoryBreakdown rank_memory(const ModelSpec& m, const ClusterSpec& c,
                                          const Strategy& s, const BlockCosts& blocks,
                                          std::span<const Chunk> chunks, std::int64_t rank);

// The pieces of rank_memory, for a search that varies one rank's layers and recomputation. `mine`:
// the chunks that the rank holds.
[[nodiscard]] Bytes saved_bytes(const Chunk& chunk, const BlockCosts& blocks, Recompute mode);
[[nodiscard]] Bytes kept_bytes(const Chunk& chunk, const BlockCosts& blocks, Recompute mode);
// Activations that stay on the device when the rest is offloaded.
[[nodiscard]] Bytes resident_activations(const Strategy& s, const BlockCosts& blocks,
                                         std::span<const Chunk> mine);
struct BufferBytes {
  Bytes most;
  Bytes last_layer{};  // [F-MEM-5] what it saved and needs beyond the gradients that are still to
                       // come
};
[[nodiscard]] BufferBytes buffer_bytes(const MemoryRates& rates, const BlockCosts& blocks,
                                       std::span<const Chunk> mine, Recompute mode);
[[nodiscard]] BlockParameters held_parameters(const MemoryRates& rates, const BlockCosts& blocks,
                                              std::span<const Chunk> mine);
[[nodiscard]] MemoryBreakdown memory_breakdown(const ClusterSpec& c, const StateBytes& states,
                                               Bytes activations, const BufferBytes& buffers,
                                               Bytes communicators);

// Optimizer states that each device keeps in host memory.
[[nodiscard]] Bytes offloaded_bytes(const Strategy& s, const BlockParameters& p);
[[nodiscard]] Bytes offloaded_bytes(const MemoryRates& rates, const BlockParameters& p);

// [F-OFF-3] Host memory of a node: the fullest rank's offloaded optimizer states and activations
// (of all microbatches in flight), times the devices of a node.
[[nodiscard]] Bytes host_bytes(const ModelSpec& m, const ClusterSpec& c, const Strategy& s,
                               const BlockCosts& blocks);

}  // namespace meshplan
