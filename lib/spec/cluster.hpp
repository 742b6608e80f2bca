#pragma once
// The machines: devices in nodes, nested levels of links, and what was measured on them.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/diagnostic.hpp"
#include "base/units.hpp"
#include "spec/device.hpp"
#include "spec/kinds.hpp"
#include "spec/provenance.hpp"
#include "spec/seen_run.hpp"

namespace meshplan {

struct LinkLevel {
  std::string name;
  std::int64_t span = 0;     // devices that one block of this level connects; 0: all of them
  BytesPerSecond bandwidth;  // per device, one direction
  Seconds latency;
  LinkKind kind = LinkKind::kInfiniband;
  double oversubscription = 1.0;  // >= 1: this many times less bandwidth than below it
  // Time that a host's proxy takes for one token's message of kernels that send tokens themselves
  // ([F-EP-11]); 0: devices post their own messages (InfiniBand GPUDirect Async).
  Seconds token_message{};
  std::int64_t domain = 0;  // where a job uses `span` devices of each larger block: of how many

  bool operator==(const LinkLevel&) const = default;
};

using TimedSize = std::pair<Bytes, Seconds>;

// latency + bytes / bandwidth over all sizes: for people to read, never used to predict.
struct AlphaBeta {
  Seconds latency;
  BytesPerSecond bandwidth;
  double error = 0;  // median relative error over the samples

  bool operator==(const AlphaBeta&) const = default;
};

// How far a fit is from what was measured, as relative errors.
struct FitErrors {
  double residual_median = 0, residual_p90 = 0;  // of the samples that the fit has seen
  double held_out_median = 0, held_out_p90 = 0;  // of sizes (shapes) that it was kept from
  std::int64_t samples = 0;
  std::int64_t outliers = 0;  // of these, left out of the fit

  bool operator==(const FitErrors&) const = default;
};

// A measured curve: time of one operation against message size.
struct CollectiveFit {
  Collective operation = Collective::kAllReduce;
  std::string level;  // outermost level that the group crosses
  std::int64_t ranks = 0;
  std::int64_t nodes = 1;
  std::vector<TimedSize> points;       // increasing sizes, bytes as nccl-tests counts them
  std::optional<AlphaBeta> summary{};  // these three only in files that a fit wrote
  std::optional<FitErrors> errors{};
  std::vector<TimedSize> samples{};  // what was measured, in the order of its sizes
  // send-recv: every member sent to the next one and received from the one before at once; else the
  // first of two sent to the second.
  bool bidirectional = false;

  bool operator==(const CollectiveFit&) const = default;
};

struct ClusterSpec {
  std::string name;
  DeviceSpec device;
  std::int64_t nodes = 0;
  std::int64_t gpus_per_node = 0;
  std::vector<LinkLevel> levels;  // innermost first
  std::vector<CollectiveFit> collectives;
  ExactCollectives exact_collectives;    // measured for a plan; of no file
  std::optional<Provenance> measured{};  // of `collectives`, where a measurement wrote them
  Bytes host_memory;                     // per node, for offload; 0: unknown
  std::optional<double> usd_per_gpu_hour;
  std::vector<SeenRun> seen_runs{};  // that its numbers were learnt from
  std::string source;

  bool operator==(const ClusterSpec&) const = default;
};

[[nodiscard]] std::int64_t num_gpus(const ClusterSpec& c);

// Whether some network takes the messages of single tokens from a host's proxy (token_message).
[[nodiscard]] bool has_token_proxies(const ClusterSpec& c);

// The same cluster with another number of devices: whole nodes, or part of one. A number that is
// neither is rounded up to whole nodes: num_gpus() of the result then differs from `gpus`.
// [F-LAY-6] Of an NVLink domain of many nodes a job that is larger than one takes an equal part,
// the largest that divides the job, a whole number of nodes and at least half of the domain (64 of
// the 72 GPUs on GB200 NVL72): no group then straddles two domains. Slurm's topology/block plugin
// places jobs so (sbatch --segment). Where there is no such part, domains are filled one after the
// other.
[[nodiscard]] ClusterSpec with_gpus(ClusterSpec c, std::int64_t gpus);

[[nodiscard]] Diagnostics validate(const ClusterSpec& c);

}  // namespace meshplan
