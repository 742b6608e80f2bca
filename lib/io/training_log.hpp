#pragma once
// Training logs of Megatron-LM (and codes made from it), DeepSpeed, torchtitan and NeMo: how long a
// step took, how much memory it held, and what the log says of the job.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/units.hpp"

namespace meshplan {

enum class LogKind { kMegatron, kDeepspeed, kTorchtitan, kNemo };
[[nodiscard]] std::string_view name_of(LogKind kind);

// One report of a log. Kinds differ in what they print; exactly one of the three is above zero.
struct StepReport {
  Seconds time{};                   // of one step: Megatron-LM, NeMo, DeepSpeed's pipeline engine
  double samples_per_s = 0;         // of the whole job: DeepSpeed
  double tokens_per_s_per_gpu = 0;  // torchtitan

  bool operator==(const StepReport&) const = default;
};

struct TrainingLog {
  std::string file;
  LogKind kind = LogKind::kMegatron;
  std::vector<StepReport> reports;
  Bytes max_allocated;  // of the fullest rank that printed it; 0: not in the log
  Bytes max_reserved;
  // What the log says of the job; 0: nothing.
  std::int64_t global_batch = 0, gpus = 0, tp = 0, pp = 0, cp = 0, dp = 0;

  bool operator==(const TrainingLog&) const = default;
};

// The kind is told from the lines. Fails on a text without a line of any kind, and on one whose
// steps have different global batches (a batch-size ramp: there is no one step time).
[[nodiscard]] Result<TrainingLog> parse_training_log(std::string_view text,
                                                     const std::string& file);

// Seconds of the step of every report, in their order.
[[nodiscard]] std::vector<Seconds> step_times(const TrainingLog& log, std::int64_t global_batch,
                                              std::int64_t seq_len, std::int64_t gpus);

// How many of a log's reports are warm-up: the first fifth, at least one and at most twenty.
[[nodiscard]] std::size_t warm_up_reports(std::size_t reports);

struct StepTime {
  Seconds median;
  double spread = 0;         // interquartile range over the median
  std::int64_t reports = 0;  // that count; the first ones do not
};

// Step times of the steady part, behind the warm-up. Fails without a report left.
[[nodiscard]] Result<StepTime> steady_step_time(const TrainingLog& log, std::int64_t global_batch,
                                                std::int64_t seq_len, std::int64_t gpus);

}  // namespace meshplan
