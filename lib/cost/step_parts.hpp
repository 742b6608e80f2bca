#pragma once
// The parts that a step is put together from (cost/step_model.hpp).
#include <vector>

#include "cost/block.hpp"
#include "cost/chunks.hpp"
#include "cost/placement.hpp"
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

// Time of a step that grows with the tokens of its documents, and with their pairs: of one pipeline
// rank, all of them doing alike.
struct UnevenWork {
  Seconds tokens, pairs;
};
// What attention takes grows with pairs, all else with tokens; recomputation repeats both.
// `passes`: microbatches that pass each of the chunks, which are those of all pipeline ranks.
[[nodiscard]] UnevenWork uneven_work(const std::vector<Chunk>& chunks, const BlockCosts& blocks,
                                     const Strategy& s, double passes);
// The same of a plan.
[[nodiscard]] UnevenWork uneven_work(const ModelSpec& m, const ClusterSpec& c, const Strategy& s);

// Messages between neighbouring pipeline ranks.
struct BoundarySend {
  SendTime time;
  Bytes message;
  bool bidirectional = false;  // most messages meet one that goes the other way
};
[[nodiscard]] BoundarySend boundary_send(const ModelSpec& m, const ClusterSpec& c,
                                         const Strategy& s, const Placement& placement);

// [F-EMB-2] All-reduce of the tied embedding's gradients between the first and the last pipeline
// rank. `table`: where to list it, if anywhere.
[[nodiscard]] Seconds embedding_reduction(const ModelSpec& m, const ClusterSpec& c,
                                          const Strategy& s, std::vector<CommEntry>* table);

// What follows the last task of a rank with these passes. `table`: where to list its messages, if
// anywhere.
[[nodiscard]] StepEnd step_end(const ClusterSpec& c, const Strategy& s, const RankEnd& rank,
                               const RankCost& passes, std::vector<CommEntry>* table = nullptr);

// A step as one rank lives it.
struct RankStep {
  const RankCost& passes;
  double microbatches;
  Seconds finish;              // of its pipeline
  Seconds reduction;           // of gradients and weights, exposed
  Seconds tied;                // of the tied embedding
  Seconds optimizer, offload;  // of the slowest rank
};
// All idle time counts as bubble.
[[nodiscard]] TimeTerms step_terms(const RankStep& r);
// Of the idle time so much is due to messages. The terms add up to the same sum as before, to the
// last digit.
void split_idle(TimeTerms& t, Seconds messages);

}  // namespace meshplan
