#include "comm/measured.hpp"

#include <algorithm>
#include <cmath>

#include "comm/nccl_constants.hpp"

namespace meshplan {
namespace {

std::int64_t nodes_of(const ClusterSpec& c, const GroupShape& g) {
  std::size_t l = 0;
  while (l < g.num_levels && !is_network(c.levels[l].kind)) ++l;
  return l == 0 ? g.size : g.blocks[l - 1];
}

// Ratio of rank counts, 1 or more; 0 if the curve is of another operation or another placement.
double distance(const ClusterSpec& c, Collective op, const GroupShape& g,
                const CollectiveFit& fit) {
  const LinkLevel& level = c.levels[g.level];
  if (fit.operation != op || fit.points.empty() || fit.ranks < 2 || fit.level != level.name) {
    return 0;
  }
  // As many members per node: they share as many network cards.
  if (is_network(level.kind) && fit.ranks * nodes_of(c, g) != g.size * fit.nodes) return 0;
  const double ratio = static_cast<double>(fit.ranks) / static_cast<double>(g.size);
  return std::max(ratio, 1 / ratio);
}

// Null if every curve is too far.
const CollectiveFit* nearest_curve(const ClusterSpec& c, Collective op, const GroupShape& g,
                                   bool bidirectional) {
  const CollectiveFit* nearest = nullptr;
  double least = 2;
  for (const CollectiveFit& fit : c.collectives) {
    if (fit.bidirectional != bidirectional) continue;
    const double d = distance(c, op, g, fit);
    if (d < 1 || d > least || (nearest != nullptr && d == least)) continue;
    nearest = &fit;
    least = d;
  }
  return nearest;
}

}  // namespace

// [F-COMM-18] Between two measured sizes log t is linear in log S; below the first size its time
// holds, beyond the last its bandwidth does. A larger message is never faster than a measured
// smaller one.
Seconds curve_time(std::span<const TimedSize> points, Bytes bytes) {
  Seconds floor{0};
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto& [size, time] = points[i];
    if (bytes <= size) {
      if (i == 0 || bytes == size) return std::max(floor, time);
      const auto& [size0, time0] = points[i - 1];
      const double x = std::log(bytes.si() / size0.si()) / std::log(size.si() / size0.si());
      return std::max(floor, time0 * std::pow(time / time0, x));
    }
    floor = std::max(floor, time);
  }
  const auto& [size, time] = points.back();
  return std::max(floor, time * (bytes.si() / size.si()));
}

// [F-COMM-19] Bus bandwidth over algorithm bandwidth: all-reduce 2 (n - 1) / n; all-gather,
// reduce-scatter, all-to-all (n - 1) / n; broadcast, send-recv 1. nccl-tests doc/PERFORMANCE.md.
double bus_factor(Collective op, double ranks) {
  switch (op) {
    case Collective::kAllReduce:
      return 2 * (ranks - 1) / ranks;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
      return (ranks - 1) / ranks;
    case Collective::kBroadcast:
    case Collective::kSendRecv:
      return 1;
  }
  return 1;
}

// [F-COMM-20] The curve of the nearest number of ranks, at most twice or half as many, times the
// ratio of the bus factors: bus bandwidth carries over, algorithm bandwidth does not.
std::optional<MeasuredTime> measured_time(const ClusterSpec& c, Collective op, Bytes bytes,
                                          const GroupShape& g, bool bidirectional) {
  if (c.collectives.empty() || g.num_levels == 0) return std::nullopt;
  const CollectiveFit* nearest = nearest_curve(c, op, g, bidirectional);
  if (nearest == nullptr && op == Collective::kSendRecv) {
    nearest = nearest_curve(c, op, g, !bidirectional);
  }
  if (nearest == nullptr) return std::nullopt;
  const double scale = bus_factor(op, static_cast<double>(g.size)) /
                       bus_factor(op, static_cast<double>(nearest->ranks));
  const Seconds total = curve_time(nearest->points, bytes) * scale;
  return MeasuredTime{total, std::min(total, nearest->points.front().second * scale)};
}

}  // namespace meshplan
