#pragma once
// What happens once per step on a pipeline rank: gradient reduction, parameter gather, optimizer.
#include <array>
#include <cstdint>
#include <vector>

#include "cost/block.hpp"
#include "cost/plan_cost.hpp"
#include "layout/groups.hpp"

namespace meshplan {

struct StepEnd {
  Seconds exposed;  // data-parallel communication that nothing hides
  Seconds optimizer;
  Seconds offload;  // host copies and host optimizer, not hidden
};

// Groups that reduce gradients and gather weights: the same on every pipeline rank.
struct StepEndGroups {
  GroupShape shard, all;  // of dense parameters
  GroupShape replica;     // where shard groups are smaller than all replicas
  GroupShape experts;     // of a model that has them
  GroupShape tensor;      // of matrices that Muon updates
  bool hybrid = false;    // whether shard groups are smaller
};
[[nodiscard]] StepEndGroups step_end_groups(const ModelSpec& m, const ClusterSpec& c,
                                            const Strategy& s);

// A collective of the step's end.
struct Reduction {
  Collective op = Collective::kAllReduce;
  double bytes = 0;  // of one
  double times = 1;
  Group group = Group::kZeroShard;
  Dtype dtype = Dtype::kFp32;
  std::int64_t size = 1;  // ranks
  std::size_t level = 0;
  Seconds each;
};

// At most two for the shards and the copies of dense parameters, and one for the experts'.
struct Reductions {
  std::array<Reduction, 3> all;
  std::size_t count = 0;
};

// What a rank with these parameters does at the end of a step, whatever hides it.
// [F-OPT-6] Pages of optimizer states for which a step leaves no room go to the host and come back
// for the update, over the host link: min(states, peak + states - capacity) each way (bitsandbytes'
// paged optimizers, QLoRA 2305.14314 sec. 3; cudaMallocManaged moves what is touched).
[[nodiscard]] Seconds page_time(const DeviceSpec& d, Bytes states, Bytes peak);

struct RankEnd {
  Reductions gradients, weights;
  Seconds optimizer;  // on the device
  Seconds offload;    // if it is offloaded instead
  Seconds on_host;    // if the weights are on the host too, which nothing need be copied to
};
[[nodiscard]] RankEnd rank_end(const ModelSpec& m, const ClusterSpec& c, const Strategy& s,
                               const StepEndGroups& groups, const BlockParameters& p);

// backward and forward: one microbatch over all the rank's chunks, behind which overlapped
// reductions and gathers hide. Interleaved schedules finish (and start) their chunks apart, so that
// the last (first) pp microbatches of the other chunks hide them too: pp (v - 1) / v microbatches
// instead of one. `table`: where to list the messages, if anywhere.
[[nodiscard]] StepEnd step_end(const ClusterSpec& c, const Strategy& s, const RankEnd& rank,
                               Seconds forward, Seconds backward,
                               std::vector<CommEntry>* table = nullptr);

// Whether reductions of gradients, and gathers of weights, run beside passes at all.
[[nodiscard]] bool reduces_beside(const Strategy& s);
[[nodiscard]] bool gathers_beside(const Strategy& s);

// Reductions that follow each other, and what of them other work may hide.
struct LeastReduced {
  Seconds whole, hideable;
};
struct LeastRankEnd {
  LeastReduced gradients, weights;
};

// [F-DP-5] Of a rank with the parameters of `rank`, or more, but no more than those of `most`.
// Reductions grow with their bytes and take no less per byte the fewer these are, so a last bucket
// takes what it does of the largest reduction at least:
//   exposed >= W - (2 - o) min(W - min(W, k W_most / S_most), window)
// W, W_most seconds; S_most bytes, k those of a bucket or S_most, o the device's overlap_slowdown.
// It grows with the parameters. Not of clusters where single collectives are given.
[[nodiscard]] LeastRankEnd least_rank_end(const Strategy& s, const RankEnd& rank,
                                          const RankEnd& most);
// What step_end() says is exposed of it at least, beside passes that take so long.
[[nodiscard]] Seconds least_exposed(const ClusterSpec& c, const LeastReduced& r, Seconds window);
// [F-DP-2] Seconds of a reduction of gradients, or a gather of weights, that nothing hides however
// long the passes beside it are: the last bucket, or all of what runs beside nothing.
[[nodiscard]] Seconds never_hidden_gradients(const Strategy& s, const Reduction& r);
[[nodiscard]] Seconds never_hidden_weights(const Strategy& s, const Reduction& r);
// Microbatches whose passes run beside the reductions.
[[nodiscard]] double microbatches_beside(const Strategy& s);

// Copies and host optimizer of an offloaded optimizer [F-OFF-1].
[[nodiscard]] Seconds optimizer_offload_time(const DeviceSpec& d, const Strategy& s,
                                             const BlockParameters& p);

// [F-OFF-2] Offloaded activations leave for the host behind the forward pass of their microbatch
// and come back behind its backward pass; what the host link cannot move in that time is exposed:
// max(0, bytes / link - forward) + max(0, bytes / link - backward) per microbatch.
// (Transformer Engine cpu_offload.py copies on streams of their own, one layer ahead.)
[[nodiscard]] Seconds activation_offload_time(const DeviceSpec& d, Bytes saved, Seconds forward,
                                              Seconds backward);

// Bytes that the optimizer step reads and writes on a device, zeroing of gradients included.
[[nodiscard]] double optimizer_traffic(const Strategy& s, const BlockParameters& p);

// [F-OPT-1] Adam on n parameters of a device: bytes read and written, over the memory bandwidth.
[[nodiscard]] Seconds optimizer_time(const DeviceSpec& d, const Strategy& s,
                                     const BlockParameters& p);

}  // namespace meshplan
