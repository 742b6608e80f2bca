#pragma once
// One training step of one strategy after the other, each costed in stages, so that work which
// several strategies share is done once for all of them: its value, and the same value explained.
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cost/block.hpp"
#include "cost/chunks.hpp"
#include "cost/memory.hpp"
#include "cost/placement.hpp"
#include "cost/plan_cost.hpp"
#include "cost/step_parts.hpp"
#include "cost/timeline.hpp"
#include "model/uneven.hpp"
#include "schedule/critical_path.hpp"
#include "schedule/in_flight.hpp"
#include "schedule/pipeline.hpp"

namespace meshplan {

struct StepValue {
  Seconds step_time;
  Bytes peak;         // of the fullest pipeline rank
  Bytes host;         // of a node, where something is offloaded
  bool fits = false;  // device and host
};

// Three stages, from what few keys decide to what all do:
//   set_pipeline   tp to ep, micro_batch, schedule, vp, layers, recomputation: chunks and their
//                  passes, activations of every rank, one run of the pipeline
//   set_sharding   zero, zero_group, and the order as far as groups go: states, buffers, what each
//                  rank does at the step's end
//   evaluate       offload, overlap.grad_reduce, overlap.param_gather: all together
// Each takes a complete, legal strategy, and starts from what the stages above were given. With
// zero >= 2 block costs hold the traffic of sharded weights, so another pipeline must be set.
//
// Nothing is allocated once the buffers have grown to the largest pipeline. One per thread, as
// `runner` is.
class StepModel {
 public:
  StepModel(const ModelSpec& m, const ClusterSpec& c, PipelineRunner& runner);

  // `blocks`, `placement`: of `s`; `in_flight`: of its pipeline's ranks. All must live until the
  // next pipeline is set.
  void set_pipeline(const Strategy& s, const BlockCosts& blocks, const Placement& placement,
                    const std::vector<InFlight>& in_flight);
  // `placement` must live until the next sharding is set.
  void set_sharding(const Strategy& s, const Placement& placement);
  [[nodiscard]] StepValue evaluate(const Strategy& s) const;

  // The value of evaluate(), term by term, with what every rank does and holds and with all
  // messages; `blocks` with their communication.
  [[nodiscard]] PlanCost explain(const Strategy& s);
  // The same step, task by task.
  [[nodiscard]] StepTimeline timeline(const Strategy& s);

  // Of the pipeline set, which has more than one rank: the longest with the reduction of gradients
  // that follows it on the rank that it ends on, as the sharding set leaves it exposed; or, before
  // a sharding is set, the longest by itself.
  [[nodiscard]] std::optional<CriticalPath> longest_chain(const Strategy& s);
  [[nodiscard]] Seconds length(const CriticalPath& chain) const { return chain.length(times_); }

  // What follows the last task of a rank that holds these blocks, whatever pipeline is set.
  [[nodiscard]] StepEnd end_of_rank(const Strategy& s, const BlockCosts& blocks,
                                    const Placement& placement, const Chunk& mine);

  // [F-SEARCH-6] A time that evaluate() does not undercut, without a run of the pipeline: the
  // schedule's bound, the slowest optimizer step and offloading, the least data-parallel
  // communication that a rank leaves exposed. Takes the place of all stages. Gives up adding terms
  // once the sum exceeds `enough`.
  [[nodiscard]] Seconds lower_bound(const Strategy& s, const BlockCosts& blocks,
                                    const Placement& placement, Seconds enough);

 private:
  // Chunks of the same blocks; most chunks of a pipeline are of one of a few kinds.
  struct ChunkKind {
    std::size_t device = 0;
    BlockCounts blocks, recomputed;
    ChunkCost cost;
    ChunkSaved saved;
  };
  // Ranks next to each other that hold the same blocks and take the same time.
  struct RankGroup {
    Chunk mine;  // all chunks of one rank together
    RankCost passes;
    PassTime deferred;  // behind all passes [F-DEFER-1]
    Bytes saved;        // per microbatch
    std::size_t first;  // rank
    Seconds finish;     // of the last one's pipeline
    RankMemory memory;  // of the fullest
    RankEnd end;
  };
  // What follows the pipelines: every rank reduces its gradients for itself; then the pipelines'
  // ends reduce the tied embedding; the optimizer and offloading take as long as on the slowest
  // rank.
  struct StepTail {
    const RankGroup* last = nullptr;  // whose reduction ends last
    Seconds reduction, optimizer, offload;
    Bytes peak, host;  // of the fullest device
  };

  void set_chunks(const Strategy& s, const BlockCosts& blocks);
  [[nodiscard]] std::size_t kind_of(const Chunk& chunk, const Strategy& s);
  void set_ranks(const Strategy& s);
  void run(const Strategy& s, const Placement& placement);
  void add_activations(const Strategy& s, const std::vector<InFlight>& in_flight);
  [[nodiscard]] Bytes in_flight_of(Bytes BlockCost::*part, const Strategy& s, std::size_t rank,
                                   const InFlight& in_flight) const;
  // rank_end() of the rank with these parameters, the last ones kept: neither the micro-batch nor
  // the schedule changes them.
  const RankEnd& end_of(const Placement& placement, const BlockParameters& p);
  [[nodiscard]] Seconds uneven_time(const Unevenness& u) const;
  [[nodiscard]] PassTime unpaired_time(const Strategy& s) const;
  [[nodiscard]] StepTail tail_of(const Strategy& s) const;
  [[nodiscard]] TimeTerms terms_of(const Strategy& s, const StepTail& tail) const;

  void add_allocated(const Strategy& s, std::size_t rank, StepTimeline& t) const;
  void explain_stages(const Strategy& s, PlanCost& plan) const;
  void explain_messages(const Strategy& s, const RankGroup& last, PlanCost& plan) const;
  void explain_utilisation(const Strategy& s, PlanCost& plan) const;

  const ModelSpec& model_;
  const ClusterSpec& cluster_;
  LayerPrefix prefix_;                     // of strategies with
  std::array<std::int64_t, 2> in_bf16_{};  // so many first and last layers in bf16
  PipelineRunner& runner_;

  // Of the pipeline.
  const BlockCosts* blocks_ = nullptr;
  const std::vector<InFlight>* in_flight_ = nullptr;
  double microbatches_ = 0, share_ = 1;
  UnevenWork uneven_;
  std::vector<Chunk> chunks_;
  std::vector<ChunkKind> kinds_;
  std::vector<std::size_t> kind_of_chunk_;
  std::vector<ChunkTime> times_;
  std::vector<RankGroup> groups_;
  std::vector<std::size_t> group_of_rank_;
  std::vector<Bytes> activations_;                 // by rank
  std::vector<Bytes> graph_inputs_, graph_saved_;  // by rank; empty without graphs of layers
  BoundarySend send_;
  std::vector<SendTime> sends_;
  std::vector<Seconds> finish_;
  // What finish_ is of; shape 0 ranks deep: of no pipeline.
  PipelineShape ran_;
  std::vector<ChunkTime> ran_times_;
  SendTime ran_send_;

  // Of the sharding.
  const Placement* placement_ = nullptr;
  struct KnownEnd {
    std::uint64_t placement = 0;  // 0: none yet
    BlockParameters parameters;
    RankEnd end;
  };
  std::vector<KnownEnd> ends_;  // each at the place of its hash
  RankEnd lone_end_;            // where there is no table yet
  int asked_ = 0;               // for so many until then

  std::vector<Bytes> saved_, kept_;  // of a rank's chunks
};

// All stages of one strategy, which is complete and legal. `blocks` must live as long.
class OneStep {
 public:
  OneStep(const ModelSpec& m, const ClusterSpec& c, const Strategy& s, const BlockCosts& blocks);
  [[nodiscard]] StepModel& model() { return model_; }

 private:
  Placement placement_;
  StepModel model_;
};

}  // namespace meshplan
