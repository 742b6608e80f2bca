#pragma once
// Times read off the cluster's measured curves.
#include <optional>
#include <span>

#include "comm/collectives.hpp"

namespace meshplan {

struct MeasuredTime {
  Seconds total;
  Seconds latency;
};

// Time at `bytes` on a curve of increasing sizes, at least one.
[[nodiscard]] Seconds curve_time(std::span<const TimedSize> points, Bytes bytes);

// Nothing if no curve covers the operation, the level and a near enough number of ranks. Sends one
// way and both ways have curves of their own; each stands in for the other where that one lacks.
[[nodiscard]] std::optional<MeasuredTime> measured_time(const ClusterSpec& c, Collective op,
                                                        Bytes bytes, const GroupShape& g,
                                                        bool bidirectional = false);

// Data that a rank must send in a group of `ranks` over the operation's bytes.
[[nodiscard]] double bus_factor(Collective op, double ranks);

}  // namespace meshplan
