#pragma once
// Step time and peak memory of complete strategies, one after the other: what lib/cost's cost_of()
// gives, without its tables; times up to rounding, as they are summed in another order. Work that
// several strategies share is done once for all of them, and nothing is allocated once the buffers
// have grown to the largest pipeline.
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cost/block.hpp"
#include "cost/memory.hpp"
#include "cost/step_parts.hpp"
#include "schedule/critical_path.hpp"
#include "schedule/pipeline.hpp"
#include "search/end_cache.hpp"
#include "search/in_flight_cache.hpp"
#include "search/stage_layout.hpp"

namespace meshplan {

struct Evaluated {
  Seconds step_time;
  Bytes peak;         // of the fullest pipeline rank
  Bytes host;         // of a node, where something is offloaded
  bool fits = false;  // device and host
};

// Three levels, from what few keys decide to what all do:
//   set_pipeline   tp to ep, micro_batch, schedule, vp, layers, recomputation: passes, one pipeline
//                  run, activations of every rank
//   set_sharding   zero, zero_group, and the order as far as groups go: states, collectives of the
//                  step's end
//   evaluate       offload, overlap.grad_reduce, overlap.param_gather: all together
// Each takes a complete, legal strategy, and starts from what the levels above were given. With
// zero >= 2 block costs hold the traffic of sharded weights, so another pipeline must be set.
class StrategyEvaluator {
 public:
  StrategyEvaluator(const ModelSpec& m, const ClusterSpec& c, const LayerPrefix& prefix,
                    InFlightCache& in_flight)
      : model_(m), cluster_(c), prefix_(prefix), in_flight_(in_flight), ends_(m, c) {}

  // `blocks`: of `s`; must live until the next pipeline.
  void set_pipeline(const Strategy& s, const BlockCosts& blocks);
  void set_sharding(const Strategy& s, const StepEndGroups& groups, Bytes communicators);
  [[nodiscard]] Evaluated evaluate(const Strategy& s) const;
  // Of the pipeline set, which has more than one rank.
  [[nodiscard]] std::optional<CriticalPath> longest_chain(const Strategy& s);

 private:
  // What a chunk of these blocks costs; most chunks of a pipeline are one of a few.
  struct Kind {
    BlockCounts blocks, recomputed;
    ChunkCost cost;
    Bytes saved, kept;
  };
  // Ranks next to each other that hold the same blocks and take the same time.
  struct Ranks {
    Chunk mine;  // all chunks of one rank together
    RankCost passes;
    Bytes activations;  // of the fullest
    Bytes resident;     // that stay on the device where activations are offloaded
    Seconds finish;     // of the last one's pipeline
    // Of the sharding:
    RankEnd end;
    Bytes states, optimizer, update, late_gradients, optimizer_on_host;
    BufferBytes buffers;
  };

  struct Placement {
    RankOrder order{};
    std::int64_t tp = 0, pp = 0, cp = 0, dp = 0;
    Dtype grad_dtype = Dtype::kFp32;
    bool operator==(const Placement&) const = default;
  };
  // What depends on where the ranks are alone.
  struct Placed {
    Placement key;
    GroupShape neighbours;  // of pipeline ranks
    Seconds tied;           // reduction of tied embeddings
  };

  void lay_out(const Strategy& s);
  void place_rank(const Strategy& s, std::int64_t rank);
  void run(const Strategy& s);
  // Depends on few keys, and on group shapes that take long to find.
  [[nodiscard]] const SendTime& send_of(const Strategy& s);
  [[nodiscard]] const Placed& placed_of(const Strategy& s);
  void add_rank(const Strategy& s, std::int64_t rank, const InFlight& held);
  [[nodiscard]] std::size_t kind_of(const Chunk& chunk, const Strategy& s);
  [[nodiscard]] Bytes peak_of(const Ranks& ranks, bool offloads_activations,
                              bool offloads_optimizer) const;

  const ModelSpec& model_;
  const ClusterSpec& cluster_;
  const LayerPrefix& prefix_;
  InFlightCache& in_flight_;
  PipelineRunner runner_;
  EndCache ends_;
  const BlockCosts* blocks_ = nullptr;
  std::vector<Placed> placed_;  // the last few
  std::size_t oldest_ = 0;
  Strategy sent_;  // of which send_ and tied_ are
  SendTime send_;
  Seconds tied_;
  double microbatches_ = 0, share_ = 1;
  std::vector<Chunk> chunks_;
  std::vector<std::size_t> chunk_kinds_;
  std::vector<Kind> kinds_;
  std::vector<ChunkTime> times_;
  std::vector<SendTime> sends_;
  // What finish_ is of; shape 0 ranks deep: of no pipeline.
  PipelineShape ran_;
  std::vector<ChunkTime> ran_times_;
  SendTime ran_send_;
  std::vector<Seconds> finish_;
  std::vector<Bytes> saved_, kept_;
  std::vector<Ranks> ranks_;
  Bytes communicators_;
};

}  // namespace meshplan
