#pragma once
// The cross-validated errors beside the fitted ones, as text and as JSON.
#include <string>
#include <vector>

#include "cross_validate.hpp"
#include "error_report.hpp"
#include "summary.hpp"

namespace meshplan::accuracy {

// `shipped` scores the same runs with the constants that ship.
[[nodiscard]] std::string to_text(const CrossValidation& all,
                                  const std::vector<FittedConstant>& constants,
                                  const Report& shipped);

// Fractions, not per cent; every number is finite.
[[nodiscard]] std::string to_json(const CrossValidation& all, const Report& shipped,
                                  const ErrorReport& errors);

// Constants that ship with another value than the one chosen on all sources, a line each: further
// off than rounding, a fiftieth of the constant's range.
[[nodiscard]] std::vector<std::string> not_as_chosen(const CrossValidation& all,
                                                     const std::vector<FittedConstant>& constants);

}  // namespace meshplan::accuracy
