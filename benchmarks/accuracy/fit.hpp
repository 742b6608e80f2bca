#pragma once
// Chooses constants so that predicted step times come near the measured ones.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "constants.hpp"
#include "minimise.hpp"

namespace meshplan::accuracy {

struct FitOptions {
  int threads = 1;
  double loss_scale = 0.05;  // errors much smaller than this count as squares
  // Weight of the squared distance from the uninformed values, in ranges, against the loss of the
  // runs that tell the constant.
  double ridge = 0.1;
};

// What choosing the constants without one source (or with all of them) gave.
struct Refit {
  std::string left_out;                   // empty: nothing
  std::map<std::string, double> values;   // of the constants that were chosen anew
  std::vector<std::string> undetermined;  // of which no run knows: like another, else uninformed
  double loss = 0;                        // what was minimised, where it ended
};

// [F-CAL-9] Minimises the mean over sources of the mean robust_loss() of their runs. Starts at
// `start`, else at the uninformed values: compass steps, if their sizes are given, which cross what
// is not smooth, then Gauss-Newton steps along the valleys that constants share.
[[nodiscard]] Refit fit_constants(std::vector<Task> tasks,
                                  std::vector<const FittedConstant*> constants,
                                  const std::map<std::string, double>& start,
                                  std::optional<StepSizes> steps, const FitOptions& options);

// ln(predicted / measured) of a result that must be a prediction.
[[nodiscard]] double log_error(const std::variant<Prediction, Skipped>& result);

// Sources in the order of their first task.
[[nodiscard]] std::vector<const Source*> sources_of(const std::vector<Task>& tasks);

}  // namespace meshplan::accuracy
