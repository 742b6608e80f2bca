#pragma once
// How fast the matrix products of a run's libraries were, of what the date of its software tells.
#include "run.hpp"
#include "spec/kinds.hpp"

namespace meshplan::accuracy {

// Over what the newest libraries reach; 1 where no date is stated.
[[nodiscard]] double product_rate_of(const Source& source, const Run& run, Precision precision);

}  // namespace meshplan::accuracy
