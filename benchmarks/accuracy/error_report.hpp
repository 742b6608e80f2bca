#pragma once
// What ships about the errors of predictions, and how well it foretells sources that it was not
// made from.
#include <string>
#include <vector>

#include "cross_validate.hpp"
#include "errors.hpp"
#include "summary.hpp"

namespace meshplan::accuracy {

struct ErrorReport {
  MeasuredErrors table;
  std::vector<Coverage> coverage;           // by source
  std::vector<StepTimeInterval> intervals;  // by run left out, by the other sources' errors
  std::vector<Reliability> order, memory;
};

// `shipped` and `predictions`: by the constants that ship, of all runs and of those that failed.
// `unfitted`: of runs that chose no constant, whose step times count as those of sources left out.
[[nodiscard]] ErrorReport error_report(const CrossValidation& all, const Report& shipped,
                                       const std::vector<Prediction>& predictions,
                                       const std::vector<Prediction>& unfitted = {});

// Mean over sources of the share of runs inside.
[[nodiscard]] double macro_coverage(const std::vector<Coverage>& coverage);

[[nodiscard]] std::string to_text(const ErrorReport& report);

}  // namespace meshplan::accuracy
