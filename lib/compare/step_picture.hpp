#pragma once
// One measured step over time, in columns: what a chart of it needs and no more.
#include <array>
#include <vector>

#include "base/units.hpp"
#include "compare/device_trace.hpp"

namespace meshplan {

// Shares (0..1) of a column's time by class of operation; those of kernels beside each other count
// one each.
using PictureColumn = std::array<double, NameTable<OpClass>::rows.size()>;

struct StepPicture {
  Seconds length;  // of the step
  std::vector<PictureColumn> columns;
};

// The first step of the trace, which has `steps`: from its first operation as long as one is in the
// mean. A trace without operations has no columns.
[[nodiscard]] StepPicture picture_of(const DeviceTrace& trace, std::int64_t steps,
                                     std::size_t columns);

}  // namespace meshplan
