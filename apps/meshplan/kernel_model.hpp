#pragma once
// The cost model's kernel times for the fits of lib/calibrate, which may not include lib/cost.
#include "calibrate/device.hpp"

namespace meshplan {

[[nodiscard]] KernelModel kernel_model();

}  // namespace meshplan
