#include "compare/step_picture.hpp"

#include <algorithm>
#include <cmath>

namespace meshplan {

StepPicture picture_of(const DeviceTrace& trace, std::int64_t steps, std::size_t columns) {
  StepPicture picture;
  if (trace.ops.empty() || columns == 0 || steps < 1) return picture;
  const double begin = trace.ops.front().start;
  double end = begin;
  for (const DeviceOp& op : trace.ops) end = std::max(end, op.start + op.duration);
  const double length = (end - begin) / static_cast<double>(steps);
  if (!(length > 0) || !std::isfinite(length)) return picture;
  picture.length = Seconds{length * 1e-6};
  picture.columns.resize(columns);
  const double width = length / static_cast<double>(columns);
  for (const DeviceOp& op : trace.ops) {
    if (op.start >= begin + length) break;
    const auto cls = static_cast<std::size_t>(trace.names[op.name].cls);
    const double from = (op.start - begin) / width;
    const double to =
        std::min((op.start + op.duration - begin) / width, static_cast<double>(columns));
    for (auto i = static_cast<std::size_t>(from); i < columns && static_cast<double>(i) < to; ++i) {
      const double column = static_cast<double>(i);
      const double share = std::min(to, column + 1) - std::max(from, column);
      double& sum = picture.columns[i][cls];
      sum = std::min(sum + std::max(share, 0.0), 1.0);
    }
  }
  return picture;
}

}  // namespace meshplan
