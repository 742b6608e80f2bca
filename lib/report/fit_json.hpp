#pragma once
// Fits as JSON; private to this library.
#include "report/bench.hpp"
#include "report/json_value.hpp"

namespace meshplan {

[[nodiscard]] Json fit_json(const CollectiveFit& fit);
[[nodiscard]] Json errors_json(const FitErrors& e);
[[nodiscard]] Json bench_profile_json(const BenchProfileReport& report);

}  // namespace meshplan
