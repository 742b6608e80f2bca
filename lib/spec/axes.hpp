#pragma once
// Sizes of the axes that ranks are numbered along.
#include <cstdint>

#include "spec/strategy.hpp"

namespace meshplan {

// Ranks along an axis: of the experts' grid (tp counts etp there), or of everything else's.
[[nodiscard]] std::int64_t axis_size(const Strategy& s, Axis axis, bool expert);

}  // namespace meshplan
