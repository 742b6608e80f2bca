#pragma once
// The model is a chain of blocks: embedding, decoder layers of a few kinds, head. A block's cost
// for one microbatch depends on the model, the cluster and few keys of the strategy; the plan's
// cost is assembled from them.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cost/plan_cost.hpp"
#include "model/block_table.hpp"
#include "model/context.hpp"
#include "model/operations.hpp"
#include "spec/cluster.hpp"
#include "spec/model.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

// Wall time of one pass over a block, by what the device (or nothing) does meanwhile.
struct PassTime {
  Seconds compute;
  Seconds tp, cp, ep, dp;  // exposed communication
  Seconds launch;          // waiting for the host

  PassTime& operator+=(const PassTime& o);
  [[nodiscard]] Seconds total() const { return compute + tp + cp + ep + dp + launch; }
  bool operator==(const PassTime&) const = default;
};
[[nodiscard]] PassTime operator+(PassTime a, const PassTime& b);
[[nodiscard]] PassTime operator*(PassTime a, double times);

// Parameters that one device holds of a block.
struct BlockParameters {
  std::int64_t dense = 0;    // trained, reduced over dp * cp
  std::int64_t experts = 0;  // trained, reduced over the expert-data-parallel group
  // Frozen, with neither gradient nor optimizer state: number, and bytes as they are stored.
  std::int64_t frozen = 0;
  std::int64_t frozen_bytes = 0, frozen_expert_bytes = 0;
  // Of `dense`: the embedding's table and the output layer's, of which some optimizers keep more.
  std::int64_t embedding = 0, head = 0;
  // Of `dense` and of `experts`: of layers that are left in bf16.
  std::int64_t dense_in_bf16 = 0, experts_in_bf16 = 0;
  // Operations of an update by Muon, of the matrices of `dense` and of `experts`; their number.
  double orthogonalisation = 0, expert_orthogonalisation = 0;
  double matrices = 0, expert_matrices = 0;
  // Of the largest such matrix, its elements here and those operations.
  std::int64_t largest_matrix = 0, largest_expert = 0;
  double largest_orthogonalisation = 0;

  bool operator==(const BlockParameters&) const = default;
};

// Bytes saved per microbatch for the backward pass, by recomputation mode.
struct SavedActivations {
  Bytes none, selective, full;
  [[nodiscard]] Bytes of(Recompute r) const;
  bool operator==(const SavedActivations&) const = default;
};

// Shapes of weights, as a set of places in BlockCosts::shape().
using WeightShapes = std::uint64_t;

struct BlockCost {
  PassTime forward;
  PassTime backward_input;
  PassTime backward_weight;
  // [F-EP-18] More of a microbatch whose passes run beside no other's; of `ep` and `launch` alone.
  PassTime unpaired;
  PassTime deferred_weight;      // of the output layer, behind all passes: a microbatch's share
  PassTime recompute_selective;  // added to the backward pass under selective recomputation
  PassTime recompute_full;       // likewise under full recomputation
  SavedActivations saved;
  Bytes saved_for_weight_gradient;  // of `saved`, what a split weight-gradient pass still needs
  Bytes working_set;                // temporaries of the backward pass (forward for the head)
  // More of them under selective recomputation: what a listed module, or a layer that is repeated
  // by operation, brings back at once.
  Bytes repeated_set;
  Bytes graph_inputs;  // of what is saved, what CUDA graphs keep allocated [F-GRAPH-1]
  // [F-GRAPH-2] Of what is saved, what lies in the graphs' pool; the captured parts' working set,
  // and that of the other parts.
  Bytes graph_saved, graph_working, working_beside;
  Bytes offloaded;        // of a layer, on the host (offload.modules): no part of `saved`
  Bytes host_checkpoint;  // of a layer that is recomputed, on the host (runtime.host_checkpoints)
  BlockParameters parameters;
  WeightShapes weight_shapes = 0;  // that its products have
  // Elements of the weights of its products, all of one device; of adapters and of layers that are
  // left in bf16 none.
  std::int64_t weights = 0;
  // Of its fused attention, whose work differs from document to document: one pass each way.
  Seconds attention_forward, attention_backward;
  Flops recompute_full_flops, recompute_selective_flops;  // products and attention, of one device
  std::vector<CommEntry> communication;  // per microbatch: count_per_step counts one microbatch
  bool operator==(const BlockCost&) const = default;
};

// The cost of each block (model/per_block.hpp) on each type of device. A cluster has one type
// today, which is what is meant where none is named.
class BlockCosts {
 public:
  BlockCosts() = default;
  explicit BlockCosts(std::size_t blocks, std::size_t devices = 1)
      : blocks_(blocks), costs_(blocks * devices) {}

  [[nodiscard]] std::size_t size() const { return blocks_; }  // blocks of one device
  [[nodiscard]] BlockCost& of(std::size_t block, std::size_t device) {
    return costs_[device * blocks_ + block];
  }
  [[nodiscard]] const BlockCost& of(std::size_t block, std::size_t device) const {
    return costs_[device * blocks_ + block];
  }
  [[nodiscard]] BlockCost& operator[](std::size_t block) { return costs_[block]; }
  [[nodiscard]] const BlockCost& operator[](std::size_t block) const { return costs_[block]; }
  [[nodiscard]] BlockCost& embedding() { return costs_[kEmbeddingBlock]; }
  [[nodiscard]] const BlockCost& embedding() const { return costs_[kEmbeddingBlock]; }
  [[nodiscard]] BlockCost& mtp() { return costs_[mtp_block(blocks_)]; }
  [[nodiscard]] const BlockCost& mtp() const { return costs_[mtp_block(blocks_)]; }
  [[nodiscard]] BlockCost& head() { return costs_[head_block(blocks_)]; }
  [[nodiscard]] const BlockCost& head() const { return costs_[head_block(blocks_)]; }

  // The place of a shape. Those that no place is left for share the last one.
  [[nodiscard]] WeightShapes place_of(std::int64_t rows, std::int64_t columns);
  // Elements of all shapes in a set, each once.
  [[nodiscard]] std::int64_t elements(WeightShapes set) const;

  // All blocks of all devices.
  [[nodiscard]] auto begin() { return costs_.begin(); }
  [[nodiscard]] auto end() { return costs_.end(); }
  [[nodiscard]] auto begin() const { return costs_.begin(); }
  [[nodiscard]] auto end() const { return costs_.end(); }

  bool operator==(const BlockCosts&) const = default;

 private:
  struct Shape {
    std::int64_t rows = 0, columns = 0, elements = 0;
    bool operator==(const Shape&) const = default;
  };

  std::size_t blocks_ = 0;
  std::vector<BlockCost> costs_;
  std::vector<Shape> shapes_;
};

// Times are of the mean microbatch, memory is of the largest.
void take_memory(const BlockCosts& largest, BlockCosts& costs);

// Of one decoder layer, adapters aside.
[[nodiscard]] BlockParameters layer_parameters_of_device(const ModelSpec& m, const Strategy& s,
                                                         const LayerSpec& layer);

// Whether the strategy's contended_launches apply: the one way in which block costs depend on pp.
[[nodiscard]] bool pipeline_crosses_nodes(const Strategy& s, const ClusterSpec& c);

// Costs of every block that the model has. Keys that matter: tp, cp, cp_kind, ep, etp,
// sequence_parallel, micro_batch, seq_len, precision, grad_dtype, flash_attention,
// recompute_modules, overlap.tp, kernels, order, and dp, zero, zero_group where zero == 3.
// Independent of pp, vp, schedule, recompute and stage_layers, but rank placement makes pp matter
// where order puts pp inside.
[[nodiscard]] BlockCosts block_costs(const ModelSpec& m, const ClusterSpec& c, const Strategy& s);

// All kernels and collectives of each block of the model, ZeRO-2 and ZeRO-3 traffic aside (that is
// in BlockCost::communication alone).
[[nodiscard]] std::vector<BlockOps> block_ops(const ModelSpec& m, const ClusterSpec& c,
                                              const Strategy& s);

// What one operation adds to the wall time of its pass. `slowest`: of a kernel on the device that
// all others wait for, over the mean (kernels/kernels.hpp, slowest_of). `gap`: what ranks wait for
// the last of them before each collective; zero for a time that a block never undercuts.
[[nodiscard]] inline Seconds pass_time(const KernelOp& op, double slowest) {
  return op.time * slowest;
}
[[nodiscard]] inline Seconds pass_time(const CommOp& op, Seconds gap) {
  return (op.time_each - op.hidden + op.slowdown + gap) * op.count;
}
// With the gap of one that has to wait for its ranks.
[[nodiscard]] Seconds pass_time(const CommOp& op, const DeviceSpec& device);

// The bytes that a layer saves, by recomputation mode.
[[nodiscard]] SavedActivations layer_activations(const BlockContext& x, const LayerSpec& layer);

// The same from the block costs of `s` with zero 0 or 1: adds the gathers and reductions that
// ZeRO-2 and ZeRO-3 do for every microbatch.
[[nodiscard]] BlockCosts with_sharded_traffic(BlockCosts plain, const ModelSpec& m,
                                              const ClusterSpec& c, const Strategy& s);

}  // namespace meshplan
