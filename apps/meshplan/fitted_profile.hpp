#pragma once
// A profile that measured runs moved, and what it says of itself.
#include <span>
#include <string>
#include <vector>

#include "calibrate/profile_parameters.hpp"
#include "report/calibration.hpp"
#include "spec/cluster.hpp"

namespace meshplan {

[[nodiscard]] std::vector<CalibrationParameter> fitted_parameters(
    std::span<const ProfileParameter> parameters, const ParameterFit& fit);

// The profile says which of its numbers come from where: `basis` of those that were fitted, the
// reason of the others. `method`: how the runs were measured.
[[nodiscard]] ClusterSpec documented(ClusterSpec c,
                                     std::span<const CalibrationParameter> parameters,
                                     const std::string& basis, const std::string& method);

// "2025-06-01", in UTC.
[[nodiscard]] std::string today();

}  // namespace meshplan
