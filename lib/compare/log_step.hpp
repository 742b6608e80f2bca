#pragma once
// What a training log says of a steady step, part by part.
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "compare/step_terms.hpp"
#include "io/log_timers.hpp"
#include "io/training_log.hpp"

namespace meshplan {

// The steps of a log that are compared.
struct SteadySteps {
  Seconds median;
  double spread = 0;  // interquartile range over the median
  std::int64_t reports = 0, warm_up = 0, outliers = 0;
  // What the outliers took beyond the median, spread over all steps behind the warm-up.
  Seconds stalls;
};

// Warm-up is the first fifth (io/training_log.hpp). An outlier takes more than three interquartile
// ranges beyond the upper quartile (Tukey's "far out") and a fifth more than the median.
// Fails where no step is left.
[[nodiscard]] Result<SteadySteps> steady_steps(const TrainingLog& log, std::int64_t global_batch,
                                               std::int64_t seq_len, std::int64_t gpus);

// Timers by what they measure, in the order of StepTerm. Timers inside of others are not counted
// twice: parameter gathers inside the optimizer's step are data-parallel communication, the sums of
// single reductions count where no timer surrounds them.
[[nodiscard]] std::vector<MeasuredTerm> terms_of(const std::vector<LogTimer>& timers);

}  // namespace meshplan
