#pragma once
// One accelerator: what its datasheet says and what was measured on it.
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/diagnostic.hpp"
#include "base/units.hpp"
#include "spec/exact_times.hpp"
#include "spec/kinds.hpp"

namespace meshplan {

inline constexpr std::size_t kNumPrecisions = NameTable<Precision>::rows.size();
template <class T>
using PerPrecision = std::array<T, kNumPrecisions>;

// Matrix products: share of the peak rate that a large product sustains, and how it falls off.
// Tiles and waves follow from the number of multiprocessors (kernels/kernels.hpp).
struct GemmEfficiency {
  PerPrecision<double> sustained{};  // of the peak rate, at large shapes, power limit included
  double k_half = 0;  // inner dimension at which a tile's main loop is half efficient
  // Share of the output's traffic that no multiply-adds hide: a tile's results are written, and the
  // sums they are added to read, once its main loop is over.
  double output_exposed = 0;
  bool operator==(const GemmEfficiency&) const = default;
};

// Fused (flash) attention: share of the peak rate for head size 128 and long sequences; shorter
// sequences and other head sizes follow kernels/kernels.hpp.
struct AttentionEfficiency {
  double forward = 0;
  double backward = 0;
  double seq_half = 0;  // tokens at which the rate is half of that
  bool operator==(const AttentionEfficiency&) const = default;
};

struct DeviceSpec {
  std::string name;
  Architecture architecture = Architecture::kHopper;
  Bytes memory;   // what the driver reports as total
  Bytes context;  // driver context, library workspaces: not usable by tensors
  BytesPerSecond memory_bandwidth;
  Bytes l2_cache;
  std::int64_t multiprocessors = 0;
  PerPrecision<FlopsPerSecond> peak{};  // dense matrix rate; 0 where not supported
  GemmEfficiency gemm;
  AttentionEfficiency attention;
  double memory_efficiency = 0;  // of memory_bandwidth, large element-wise kernels
  Seconds kernel_overhead;       // start and drain of one kernel on the device
  Seconds launch_gap;            // host time to issue one kernel from a training framework
  // Device idle around a collective that the next kernel waits for: hand-over between the compute
  // and the communication stream both ways, and ranks that arrive apart; of four ranks, growing
  // with them as [F-GAP-1].
  Seconds collective_gap;
  BytesPerSecond host_link;  // to host memory, one direction
  double tdp_watts = 0;
  double overlap_slowdown = 1.0;  // compute time multiplier while a collective runs beside it
  double variability = 0;  // standard deviation of kernel times between devices, share of the mean
  std::map<std::string, std::string> sources;  // key -> where its number comes from
  ExactKernels exact_kernels;                  // measured for a plan; of no file

  bool operator==(const DeviceSpec&) const = default;
};

[[nodiscard]] Diagnostics validate(const DeviceSpec& d);

// Rate the precision's matrix products are computed at: tf32 falls back to fp32, fp8 to bf16 where
// the device lacks it, bf16 to fp16 on devices before Ampere. Zero: not supported at all.
[[nodiscard]] FlopsPerSecond peak_rate(const DeviceSpec& d, Precision p);

}  // namespace meshplan
