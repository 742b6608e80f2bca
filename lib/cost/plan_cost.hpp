#pragma once
// What one strategy costs: plain values whose terms add up. The report prints these terms and
// computes nothing of its own.
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/units.hpp"
#include "cost/ledger.hpp"
#include "layout/groups.hpp"
#include "model/block_table.hpp"
#include "model/operations.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

// Memory of one pipeline rank's fullest device.
struct MemoryBreakdown {
  Bytes weights;
  Bytes gradients;
  Bytes optimizer;    // moments and master weights
  Bytes activations;  // saved for the backward pass, all microbatches in flight
  Bytes buffers;      // working set: gathered weights, logits and loss, recomputed layer, messages
  // Allocated between two steps beside weights, gradients and optimizer states: part of `buffers`,
  // but for the copies of gradients that an update leaves until the next step begins.
  Bytes persistent;
  Bytes communicators;  // part of `reserved`: NCCL buffers of every process group, user buffers
  Bytes context;        // part of `reserved`: driver context and library workspaces
  Bytes fragmentation;  // part of `reserved`: what the caching allocator cannot use
  Bytes reserved;       // communicators + context + fragmentation
  Bytes peak;           // sum of weights, gradients, optimizer, activations, buffers, reserved
  Bytes capacity;

  // What the framework's allocator hands out at its peak: peak - reserved.
  [[nodiscard]] Bytes allocated() const { return peak - reserved; }
  bool operator==(const MemoryBreakdown&) const = default;
};

// The step as one pipeline rank, the last to finish, lives it. The terms are each >= 0 and add up
// to the step time.
struct TimeTerms {
  Seconds compute;          // kernels of the model's own forward and backward
  Seconds recompute;        // forward kernels run again for the backward pass
  Seconds tp_comm_exposed;  // communication that nothing hides, by dimension
  Seconds cp_comm_exposed;
  Seconds ep_comm_exposed;
  Seconds pp_comm_exposed;
  Seconds pp_bubble;        // idle, waiting for other pipeline ranks
  Seconds dp_comm_exposed;  // gradient reduction, parameter gathers, ZeRO-3 traffic
  Seconds optimizer;
  Seconds uneven;  // waiting for the data-parallel rank with the longest documents
  Seconds other;   // the host's launch rate where it is slower than the device, offload

  bool operator==(const TimeTerms&) const = default;
};
[[nodiscard]] Seconds total(const TimeTerms& t);

struct CommEntry {
  CommDimension dimension = CommDimension::kTp;
  Collective operation = Collective::kAllReduce;
  std::int64_t group_size = 1;
  std::size_t level = 0;  // index into the cluster's levels: outermost that the group crosses
  Bytes bytes;            // one call, as nccl-tests counts them
  double count_per_step = 0;
  Seconds time_each;
  Seconds exposed;             // of all calls of a step
  Group group = Group::kTp;    // whose ranks it joins
  Dtype dtype = Dtype::kBf16;  // of the elements
  bool forward = false;        // of the forward pass
  bool bidirectional = false;  // send-recv: every rank sends while it receives
  bool selective = false;      // selective recomputation repeats it
  bool repeated = false;       // full recomputation repeats it

  bool operator==(const CommEntry&) const = default;
};

struct StageCost {
  std::int64_t layers = 0;             // decoder layers on this pipeline rank
  std::vector<LayerKindCount> kinds;   // of them
  std::int64_t recomputed_layers = 0;  // of which fully recomputed
  bool embedding = false, head = false;
  Seconds forward;             // one microbatch, all chunks of the rank
  Seconds backward;            // input and weight gradients, recomputation included
  std::int64_t in_flight = 0;  // microbatches per chunk at the peak
  MemoryBreakdown memory;
  // Beyond the peak: segments that the allocator keeps of shorter microbatches, and gives back when
  // memory runs out. nvidia-smi shows them.
  Bytes cached;
  Ledger ledger;                        // of what the allocator hands out
  std::int64_t parameters = 0;          // held by one device of this rank, ZeRO-3 sharding aside
  std::int64_t trained_parameters = 0;  // of which
  bool operator==(const StageCost&) const = default;
};

// [F-CAL-12] What runs that the cluster's numbers were learnt from say of a plan made of the same
// parts: by what the step takes longer than its terms, and how far its interval widens.
struct LikeRuns {
  double factor = 1;
  double widening = 1;

  [[nodiscard]] bool any() const { return factor != 1 || widening != 1; }
};

struct PlanCost {
  Strategy strategy;  // complete: dp, stage_layers and recompute_layers filled in
  TimeTerms time;
  Seconds step_time;  // == total(time)
  std::vector<StageCost> stages;
  std::size_t fullest_stage = 0;
  std::size_t last_stage = 0;  // whose step `time` and `communication` describe
  std::vector<CommEntry> communication;
  double bubble_fraction = 0;  // pp_bubble / step_time
  double tokens_per_step = 0;
  Flops model_flops;      // of one step: forward and backward, attention counted in full
  Flops hardware_flops;   // with what recomputation repeats
  double mfu = 0;         // of model_flops
  double mfu_causal = 0;  // of the model's work with causal attention counted as its mask leaves it
  double hfu = 0;
  std::vector<std::string> warnings;
  LikeRuns like_runs;  // of `step_time`, which stays the sum of its terms

  // What a run is expected to take.
  [[nodiscard]] Seconds expected_time() const { return step_time * like_runs.factor; }
  [[nodiscard]] const MemoryBreakdown& memory() const { return stages[fullest_stage].memory; }
};

enum class InfeasibleReason {
  kIllegal,      // breaks a rule of the strategy (validate)
  kModelStates,  // weights, gradients and optimizer alone exceed the memory
  kActivations,  // states fit, activations and buffers do not
  kHostMemory,   // offloaded states exceed the host's memory
};
[[nodiscard]] std::string_view name_of(InfeasibleReason r);

struct Infeasible {
  InfeasibleReason reason = InfeasibleReason::kIllegal;
  std::vector<std::string> messages;  // kIllegal: the broken rules
  Bytes shortfall;                    // memory that is missing on the fullest rank
  std::vector<std::string> remedies;  // what would make it fit or legal, cheapest first
};

// A strategy that does not fit is still costed, so that estimate can say by how much.
struct Verdict {
  std::variant<PlanCost, Infeasible> state;  // PlanCost: fits
  std::vector<StageCost> stages;             // filled for both unless illegal
  [[nodiscard]] bool feasible() const { return state.index() == 0; }
  [[nodiscard]] const PlanCost& cost() const { return std::get<PlanCost>(state); }
  [[nodiscard]] const Infeasible& infeasible() const { return std::get<Infeasible>(state); }
};

}  // namespace meshplan
