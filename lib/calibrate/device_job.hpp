#pragma once
// One fit of some numbers of a device to samples; lib/calibrate/device.cpp says which numbers.
#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "calibrate/device.hpp"

namespace meshplan::device_fit {

using Apply = std::function<DeviceSpec(DeviceSpec, std::span<const double>)>;
using Predict = std::function<Seconds(const DeviceSpec&, const Sample&)>;

// Samples of one kind of operation that count.
template <class Op>
std::vector<Sample> of_kind(std::span<const Sample> samples) {
  std::vector<Sample> some;
  for (const Sample& s : samples) {
    const bool counts = s.correctness != Correctness::kWrong && !s.throttled && s.median.si() > 0;
    if (counts && std::holds_alternative<Op>(s.operation)) some.push_back(s);
  }
  return some;
}

struct Job {
  std::vector<Parameter> parameters;
  Apply apply;
  Predict predict;
  std::string what;  // for warnings: "the products"
};

// Fits the job's parameters to the samples, robustly: samples that a first fit misses by far are
// left out of the second. Adds the numbers, or warnings, to the result.
void fit_job(const Job& job, std::vector<Sample> samples, DeviceFit& result);

// A rate that was fitted to short bursts, fitted again to what lasts. The device is predicted by
// the second; the first stands beside it.
void settle(const std::string& key, const Apply& apply, const Job& bursts,
            const std::vector<Sample>& samples, DeviceFit& result);

}  // namespace meshplan::device_fit
