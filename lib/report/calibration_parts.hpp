#pragma once
// Parts of a fit's text and document that a comparison has too; private to this library.
#include <span>
#include <string>

#include "report/calibration.hpp"
#include "report/json_value.hpp"

namespace meshplan {

[[nodiscard]] std::string parameters_text(std::span<const CalibrationParameter> parameters,
                                          const TextOptions& options);
[[nodiscard]] Json parameter_json(const CalibrationParameter& p);

}  // namespace meshplan
