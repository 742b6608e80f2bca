#pragma once
// A comparison as one HTML file that opens offline: charts as drawings in it, no scripts.
#include <optional>
#include <span>
#include <string>

#include "compare/comparison.hpp"
#include "cost/timeline.hpp"

namespace meshplan {

// The measured step over time above the predicted one on one axis, the differences between them as
// a waterfall, terms and verdict. `timelines`: the predicted step of every run, where it is shown
// (report/detail.hpp says which are too long).
[[nodiscard]] std::string comparison_html(std::span<const ComparedRun> runs,
                                          std::span<const std::optional<StepTimeline>> timelines);

}  // namespace meshplan
