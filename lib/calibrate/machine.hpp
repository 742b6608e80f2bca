#pragma once
// A machine that was measured, as a cluster file describes it.
#include <span>
#include <string_view>

#include "probe/sample.hpp"
#include "spec/cluster.hpp"

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

// [F-CAL-8] Bandwidth of each level that a curve crosses: the highest bus bandwidth of its curves;
// latency: the least time of its one-way messages, else the least of all its curves.
[[nodiscard]] ClusterSpec with_measured_levels(ClusterSpec c, std::span<const CollectiveFit> fits);

}  // namespace meshplan
