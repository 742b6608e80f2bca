#include "spec/device.hpp"

#include <algorithm>

#include "spec/findings.hpp"

namespace meshplan {
namespace {

constexpr double kEpsilon = 1e-12;  // stands for "more than nothing" in the ranges below

struct RealField {
  const char* key;
  double value;
  RealRange range;
};

void check_rates(const DeviceSpec& d, Findings& f) {
  bool any = false;
  for (std::size_t i = 0; i < kNumPrecisions; ++i) {
    const std::string name{NameTable<Precision>::rows[i].name};
    f.check("peak." + name, d.peak[i].si(), {0, 1e21});
    f.check("gemm.sustained." + name, d.gemm.sustained[i], {0, 1});
    // Slower ones would make times that no number holds.
    constexpr double kSlowestPeak = 1, kLeastSustained = 1e-6;
    any = any || d.peak[i].si() > 0;
    if (d.peak[i].si() > 0) f.check("peak." + name, d.peak[i].si(), {kSlowestPeak, 1e21});
    if (d.gemm.sustained[i] > 0) {
      f.check("gemm.sustained." + name, d.gemm.sustained[i], {kLeastSustained, 1});
    }
    if (d.peak[i].si() > 0 && d.gemm.sustained[i] <= 0) {
      f.error({"gemm.sustained", "peak." + name, "gemm.sustained." + name},
              "'gemm.sustained." + name + "' is missing: the device has a peak rate for " + name);
    }
  }
  if (!any) f.error({"peak"}, "'peak' states no precision");
}

void check_memory(const DeviceSpec& d, Findings& f) {
  constexpr IntegerRange kMemory{1, std::int64_t{1} << 50};
  const bool fits = f.check("memory", d.memory.count(), kMemory) &&
                    f.check("context", d.context.count(), {0, kMemory.highest});
  f.check("l2_cache", d.l2_cache.count(), {0, kMemory.highest});
  if (fits && d.context >= d.memory) {
    f.error({"context", "memory"}, "'context' leaves nothing of 'memory' for tensors");
  }
}

}  // namespace

Findings findings(const DeviceSpec& d) {
  Findings f;
  if (d.name.empty()) f.error({"name"}, "'name' is empty");
  check_memory(d, f);
  f.check("multiprocessors", d.multiprocessors, {1, 1 << 20});
  const RealField fields[] = {
      {"memory_bandwidth", d.memory_bandwidth.si(), {kEpsilon, 1e18}},
      {"gemm.k_half", d.gemm.k_half, {0, 1e6}},
      {"gemm.output_exposed", d.gemm.output_exposed, {0, 1}},
      {"attention.forward", d.attention.forward, {kEpsilon, 1}},
      {"attention.backward", d.attention.backward, {kEpsilon, 1}},
      {"attention.seq_half", d.attention.seq_half, {0, 1e6}},
      {"memory_efficiency", d.memory_efficiency, {kEpsilon, 1}},
      {"kernel_overhead", d.kernel_overhead.si(), {0, 1}},
      {"launch_gap", d.launch_gap.si(), {0, 1}},
      {"collective_gap", d.collective_gap.si(), {0, 1}},
      {"host_link", d.host_link.si(), {0, 1e18}},  // 0: none
      {"tdp_watts", d.tdp_watts, {0, 1e6}},
      {"overlap_slowdown", d.overlap_slowdown, {1, 10}},
      {"variability", d.variability, {0, 0.5}},
  };
  for (const RealField& field : fields) f.check(field.key, field.value, field.range);
  if (d.host_link.si() > 0 && d.host_link.si() < 1) {
    f.error({"host_link"}, "'host_link' must be at least 1 B/s, or 0 where there is none");
  }
  check_rates(d, f);
  return f;
}

Diagnostics validate(const DeviceSpec& d) { return findings(d).diagnostics(); }

FlopsPerSecond peak_rate(const DeviceSpec& d, Precision p) {
  const FlopsPerSecond own = d.peak[static_cast<std::size_t>(p)];
  if (own.si() > 0) return own;
  switch (p) {
    case Precision::kTf32:
      return peak_rate(d, Precision::kFp32);
    case Precision::kFp8:
    case Precision::kNvfp4:
      return peak_rate(d, Precision::kBf16);
    case Precision::kBf16:
      return d.architecture == Architecture::kVolta ? peak_rate(d, Precision::kFp16) : own;
    case Precision::kFp32:
    case Precision::kFp16:
      return own;
  }
  return own;
}

}  // namespace meshplan
