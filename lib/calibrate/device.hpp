#pragma once
// Measured kernels, copies and launches -> the efficiencies of a device.
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "calibrate/parameters.hpp"
#include "probe/sample.hpp"
#include "spec/cluster.hpp"

namespace meshplan {

// The times that the cost model gives: the formulas that are fitted are those that predict.
struct KernelModel {
  std::function<Seconds(const DeviceSpec&, const GemmOperation&)> gemm;
  std::function<Seconds(const DeviceSpec&, const AttentionOperation&)> attention;
};

// One number of the device, or several that were fitted together.
struct DeviceNumber {
  std::string key;  // of the device file: "gemm.sustained.bf16"
  std::string before, after;
  FitErrors errors;    // held out: shapes that the fit was kept from
  std::string note{};  // goes with its source: what the samples were
};

struct DeviceFit {
  DeviceSpec device;
  std::vector<DeviceNumber> numbers;
  std::vector<std::string> warnings;  // what could not be fitted, and why
  // Measured, but of no number of the device file; for the profile's notes.
  std::map<std::string, std::string> facts;
};

// [F-CAL-7] Products: gemm.sustained of each precision measured and one gemm.k_half, so that waves,
// tiles and inner dimension of unseen shapes follow from [F-GEMM-1]; attention likewise over its
// shapes. Where some ran on until their rate lasted, gemm.sustained and the rates of attention are
// fitted to those steady times with the shapes' parameters kept, and the rate of short bursts,
// which the power limit does not allow for long, is a fact beside them. kernel_overhead and
// memory_efficiency as latency and bandwidth [F-CAL-4] of memory-bound kernels over their least
// traffic; host_link and overlap_slowdown as medians. What was not measured, or does not determine
// its number, keeps the number of `start`; the device's sources say which is which. Wrong results
// and throttled samples do not count. launch_gap is always kept: it is a training framework's, of
// which the issue of empty kernels (a fact) is the driver's part alone.
[[nodiscard]] DeviceFit fit_device(std::span<const Sample> samples, const Machine& machine,
                                   const DeviceSpec& start, const KernelModel& model);

}  // namespace meshplan
