#pragma once
// What validation measured, fed back into the description of the cluster.
#include "spec/cluster.hpp"
#include "validate/validate.hpp"

namespace meshplan {

// [F-VAL-2] Collectives join the curve of their operation, level and group (a new one where there
// is none) in place of what it said for sizes within a tenth of theirs. The rates of matrix
// products, of attention each way and of memory-bound kernels fall or rise by predicted over
// measured time, each summed over the plans' steps, to at most their peak.
[[nodiscard]] ClusterSpec with_measurements(ClusterSpec c, const Validation& v);

}  // namespace meshplan
