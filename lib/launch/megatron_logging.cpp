// What Megatron-LM logs takes time of the host, and the device waits meanwhile.
#include <algorithm>

#include "launch/megatron_parts.hpp"

namespace meshplan {

// The norm of the parameters takes "~10ms steady" (training/training.py, train), in kernels of H100
// systems' hosts. A line of the log collects the timers of all ranks behind a barrier; what that
// takes is chosen on launch-bound dense runs of Megatron-LM's continuous integration that log each
// step (benchmarks/accuracy/megatron_ci: 36 on H100, 117 on A100, 33 on GB200): 309 to 513 kernels
// a step with the norm, and one for each tensor whose zeros are counted
// (core/optimizer/clip_grads.py, count_zeros_fp32, waits for each; on one H200 28 ms for 150
// tensors, the host half as slow again: benchmarks/device/h200-megatron.json).
void read_logging(ProgramOptions& options, ImportedRun& run) {
  constexpr double kNorm = 145, kLine = 200, kTensor = 1;
  constexpr std::int64_t kOften = 10;  // of rarer lines a step's share is less than is told here
  Runtime& k = run.strategy.runtime;
  const std::int64_t given = options.number("--log-interval", 100, kCount);
  const std::int64_t interval = std::max<std::int64_t>(1, given);
  if (interval <= kOften) k.step_launches += kLine / static_cast<double>(interval);
  if (options.has("--log-params-norm")) k.step_launches += kNorm;
  if (options.has("--log-num-zeros-in-grad")) k.optimizer_launches += kTensor;
}

}  // namespace meshplan
