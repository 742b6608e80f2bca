#pragma once
// Measured runs beside their predictions, for people and for programs.
#include <span>
#include <string>

#include "compare/comparison.hpp"
#include "report/calibration.hpp"
#include "report/json.hpp"
#include "report/table.hpp"

namespace meshplan {

// `learnt`: what the runs say of the profile's parameters; empty: they were not asked.
[[nodiscard]] std::string comparison_text(std::span<const ComparedRun> runs,
                                          std::span<const CalibrationParameter> learnt,
                                          const TextOptions& options);
// compare.schema.json
[[nodiscard]] std::string comparison_document(const ToolInfo& tool,
                                              std::span<const ComparedRun> runs,
                                              std::span<const CalibrationParameter> learnt);

}  // namespace meshplan
