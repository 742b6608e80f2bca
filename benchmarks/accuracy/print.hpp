#pragma once
// A report as text for people, as JSON, and as a CSV row per run for residual analysis.
#include <string>
#include <vector>

#include "summary.hpp"

namespace meshplan::accuracy {

// The table of sources, their worst runs, and what was skipped or searched. `verbose` lists every
// run and every skipped row.
[[nodiscard]] std::string to_text(const Report& report, bool verbose);

// Fractions, not per cent; every number is finite.
[[nodiscard]] std::string to_json(const Report& report);

// All inputs, the predicted terms and the memory parts of every predicted run.
[[nodiscard]] std::string to_csv(const std::vector<Prediction>& predictions);

}  // namespace meshplan::accuracy
