#pragma once
// What failures leave of a job's throughput, and how often it should write a checkpoint.
#include <cstdint>
#include <optional>

#include "base/units.hpp"
#include "cost/plan_cost.hpp"
#include "spec/cluster.hpp"
#include "spec/model.hpp"

namespace meshplan {

struct FailureModel {
  double failures_per_gpu_hour = 0;  // > 0; whatever ends the job: devices, hosts, network, code
  // How long training stands still for one checkpoint; else the bandwidth to storage of the whole
  // job, and the time follows from the size. Exactly one is given.
  std::optional<Seconds> checkpoint_time;
  std::optional<BytesPerSecond> checkpoint_bandwidth;
  Seconds restart_time;  // from a failure until the job trains again, checkpoint loaded
};

// [F-GOOD-1] Mean time between failures of a job: 3600 / (l n) seconds.
// l failures per device and hour, n devices. Independent exponential failures add their rates.
[[nodiscard]] Seconds time_between_failures(double failures_per_gpu_hour, std::int64_t gpus);

// [F-GOOD-2] Computation between two checkpoints that loses least, first order: sqrt(2 d M).
// d time of one checkpoint, M mean time between failures; seconds. Young 1974 (CACM 17(9)).
[[nodiscard]] Seconds young_interval(Seconds checkpoint, Seconds between_failures);

// [F-GOOD-3] The same to higher order: sqrt(2 d M) (1 + sqrt(d / 2M) / 3 + (d / 2M) / 9) - d where
// d < 2 M, else M. Daly 2006 (FGCS 22(3), 303-312).
[[nodiscard]] Seconds daly_interval(Seconds checkpoint, Seconds between_failures);

// Where the wall time of a long job goes; the shares add up to one.
struct WallShares {
  double useful = 0;      // steps that count
  double checkpoint = 0;  // writing checkpoints
  double lost = 0;        // steps done again, and restarts
};

// [F-GOOD-4] Wall time per interval of t seconds of steps: M exp(R / M) (exp((t + d) / M) - 1).
// M mean time between failures, R restart, d checkpoint; seconds. Daly 2006, the complete cost:
// failures may strike during checkpoints and restarts too.
[[nodiscard]] WallShares wall_shares(Seconds interval, Seconds checkpoint, Seconds restart,
                                     Seconds between_failures);

struct Goodput {
  Seconds between_failures;  // of the whole job
  Bytes checkpoint_bytes;    // weights and optimizer states
  Seconds checkpoint_time;
  Seconds young;                          // intervals of computation
  Seconds daly;                           // likewise
  std::int64_t steps_per_checkpoint = 0;  // daly in whole steps, at least one
  WallShares shares;                      // at that many steps
  double tokens_per_s = 0;                // of wall time
};

// Bytes of one checkpoint: weights, master weights and moments of every parameter, once.
[[nodiscard]] Bytes checkpoint_bytes(const ModelSpec& m, const PlanCost& plan);

[[nodiscard]] Goodput goodput(const ModelSpec& m, const PlanCost& plan, const FailureModel& f);

}  // namespace meshplan
