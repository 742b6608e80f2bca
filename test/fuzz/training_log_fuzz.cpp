// Any text as a training log, the step time that is made of it, and its timers.
#include <cmath>

#include "fuzz/fuzz.hpp"
#include "io/log_timers.hpp"
#include "io/training_log.hpp"

MESHPLAN_FUZZ_TARGET(training_log) {
  using namespace meshplan;
  for (const LogTimer& timer : parse_log_timers(fuzz::as_text(data, size))) {
    fuzz::require(!timer.name.empty() && timer.reports > 0);
    fuzz::require(timer.least.si() >= 0 && timer.least <= timer.most);
    fuzz::require(std::isfinite(timer.most.si()));
  }
  const Result<TrainingLog> log = parse_training_log(fuzz::as_text(data, size), "train.log");
  fuzz::require_value_or_errors(log);
  if (!log.ok()) return 0;
  fuzz::require(!log->reports.empty());
  fuzz::require(log->max_allocated.count() >= 0 && log->max_reserved.count() >= 0);
  fuzz::require(log->global_batch >= 0 && log->gpus >= 0 && log->tp >= 0 && log->pp >= 0);
  const Result<StepTime> step = steady_step_time(*log, 512, 4096, 64);
  fuzz::require_value_or_errors(step);
  if (step.ok()) {
    fuzz::require(std::isfinite(step->median.si()) && step->median.si() > 0);
    fuzz::require(std::isfinite(step->spread) && step->spread >= 0 && step->reports > 0);
  }
  return 0;
}
