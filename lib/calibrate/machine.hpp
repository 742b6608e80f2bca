#pragma once
// A machine that was measured, as a cluster file describes it.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/bench_samples.hpp"

namespace meshplan {

// The shipped device that the driver calls so ("NVIDIA H200" -> "h200-sxm-141gb"); empty where none
// is known by that name.
[[nodiscard]] std::string_view shipped_device(std::string_view driver_name);

// Processors as devices: `cores` and `memory` of one rank. Rates are nominal, and its sources say
// so: what measures communication between processors alone says nothing about their kernels.
[[nodiscard]] DeviceSpec processor_device(double cores, Bytes memory);

// The job's hosts and ranks as nodes and devices: a level inside of a node, one between nodes.
// Their bandwidth and latency are placeholders until with_measured_levels() reads them off the
// curves.
[[nodiscard]] ClusterSpec cluster_of(const Machine& m, DeviceSpec device);

struct MeasuredLevels {
  ClusterSpec cluster;
  std::vector<std::string> warnings;  // levels that were not measured, or read too high
};

// [F-CAL-8] Bandwidth of each level that a curve crosses: the highest bus bandwidth of its curves;
// latency: the least of its ping-pongs. Without one it is the least time of its curves, those of
// one-way messages and broadcasts excepted, which follow each other without waiting: several
// messages long, hence too high. The cluster's source says of each level what it has.
[[nodiscard]] MeasuredLevels with_measured_levels(ClusterSpec c,
                                                  std::span<const CollectiveFit> fits,
                                                  std::span<const LevelLatency> latencies);

}  // namespace meshplan
