#pragma once
// The parts that a step is put together from, shared by its cost and its timeline.
#include <vector>

#include "cost/block.hpp"
#include "cost/chunks.hpp"
#include "cost/data_parallel.hpp"
#include "cost/plan_cost.hpp"
#include "schedule/pipeline.hpp"

namespace meshplan {

// One microbatch (of each direction for DualPipe: halves) over all chunks of a rank.
struct RankCost {
  PassTime forward, backward, recompute;
  [[nodiscard]] Seconds total() const {
    return forward.total() + backward.total() + recompute.total();
  }
};

struct Assembly {
  std::vector<Chunk> chunks;
  std::vector<ChunkCost> costs;
  std::vector<RankCost> ranks;
  double microbatches = 0;
  double share = 1;  // of the microbatches that pass one chunk on one rank: DualPipe one half
};

[[nodiscard]] Assembly assemble(const ModelSpec& m, const Strategy& s, const BlockCosts& blocks);

// Messages between neighbouring pipeline ranks.
struct BoundarySend {
  SendTime time;
  Bytes message;
  bool bidirectional = false;  // most messages meet one that goes the other way
};
[[nodiscard]] BoundarySend boundary_send(const ModelSpec& m, const ClusterSpec& c,
                                         const Strategy& s);
// The same between ranks placed like this.
[[nodiscard]] BoundarySend boundary_send(const ModelSpec& m, const ClusterSpec& c,
                                         const Strategy& s, const GroupShape& neighbours);

// The pipeline of the assembly with all its messages alike.
[[nodiscard]] PipelineResult run_assembly(const Strategy& s, const Assembly& a,
                                          const SendTime& send, bool with_timeline);

// [F-EMB-2] All-reduce of the tied embedding's gradients between the first and the last pipeline
// rank. `table`: where to list it, if anywhere.
[[nodiscard]] Seconds embedding_reduction(const ModelSpec& m, const ClusterSpec& c,
                                          const Strategy& s, std::vector<CommEntry>* table);

// A step as one rank lives it.
struct RankStep {
  const RankCost& passes;
  double microbatches;
  Seconds finish, finish_alone;  // of its pipeline, and if messages took no time
  Seconds reduction;             // of gradients and weights, exposed
  Seconds tied;                  // of the tied embedding
  Seconds optimizer, offload;    // of the slowest rank
};
[[nodiscard]] TimeTerms step_terms(const RankStep& r);

// What follows the pipeline. Every rank reduces its gradients for itself; then the pipelines' ends
// reduce the tied embedding; the optimizer and offloading take as long as on the slowest rank.
struct StepEnds {
  std::vector<StepEnd> ranks;
  std::size_t last = 0;  // the rank whose reduction ends last
  Seconds tied;          // reduction of the tied embedding's gradients
  Seconds optimizer;
  Seconds offload;
  std::vector<CommEntry> reductions;  // of the last rank
  std::vector<CommEntry> embedding;
};
// `finish`: per rank, when its pipeline ends. `stages`: with forward and backward filled in.
[[nodiscard]] StepEnds step_ends(const ModelSpec& m, const ClusterSpec& c, const Strategy& s,
                                 const BlockCosts& blocks, const Assembly& a,
                                 const std::vector<Seconds>& finish);

}  // namespace meshplan
