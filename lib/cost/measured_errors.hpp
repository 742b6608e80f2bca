#pragma once
// How far predictions were off on published runs whose source had no say in the constants that
// predicted them. A table of numbers, written by `meshplan-accuracy --cross-validate
// --write-errors FILE`; what is made of it stands in cost/uncertainty.hpp and cost/order.hpp.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "spec/kinds.hpp"

namespace meshplan {

// What decides how far off a step time may be, as far as it is known before the run. The first
// that holds of a plan is its regime.
enum class Regime {
  kMoe,          // experts on several ranks exchange tokens
  kLaunchBound,  // the host's launches take more than kLaunchBoundShare of the step, and no
                 // pipeline message leaves the innermost level
  kWaiting,      // exposed communication, the bubble and launches take more than kWaitingShare
  kSteady,       // mostly kernels
};
inline constexpr std::size_t kNumRegimes = 4;
inline constexpr double kLaunchBoundShare = 0.1;
inline constexpr double kWaitingShare = 0.25;

[[nodiscard]] std::string_view name_of(Regime r);         // "moe", "launch_bound", ...
[[nodiscard]] std::string_view description_of(Regime r);  // "runs that mostly compute", ...

// Of ln(measured / predicted): four runs in five of a source that was not seen lie in centre -
// below to centre + above.
struct ErrorBand {
  double centre = 0;
  double below = 0, above = 0;
  std::int64_t sources = 0;  // that it comes from
  std::int64_t runs = 0;

  bool operator==(const ErrorBand&) const = default;
};

// Of ln(measured / predicted) of a memory peak: quantiles at (i + 1/2) / kMemoryQuantiles, every
// source with the same weight. Runs that ran out of memory, and runs of the same sources that ran
// without telling their memory, count as errors above or below what was left.
inline constexpr std::size_t kMemoryQuantiles = 20;
struct MemoryErrors {
  std::array<double, kMemoryQuantiles> quantiles{};
  std::int64_t sources = 0;
  std::int64_t runs = 0;

  bool operator==(const MemoryErrors&) const = default;
};

// Of one source's step times, the median of |predicted / measured - 1|.
struct SourceError {
  std::string name;
  double shipped = 0;   // with the constants that ship
  double left_out = 0;  // with constants chosen without it

  bool operator==(const SourceError&) const = default;
};

struct MeasuredErrors {
  std::array<ErrorBand, kNumRegimes> step_time{};
  // Bands widen by this where no source ran on the device or with the framework; >= 1.
  double unseen_device = 1, unseen_framework = 1;
  std::vector<std::string> devices;     // that some source ran on
  std::vector<std::string> frameworks;  // "megatron", or of one old release: "megatron v2.6"
  std::int64_t most_gpus = 0;           // of any run
  MemoryErrors device_memory;           // of the whole device, as nvidia-smi counts
  MemoryErrors allocator_memory;        // of what the framework's allocator holds
  // Two plans of the same model, GPUs and batch: scale of the error of ln(time / time), at least
  // order_floor, growing by order_spread with the share of the step in which they differ.
  double order_floor = 0, order_spread = 0;
  std::int64_t order_sources = 0, order_pairs = 0;
  std::vector<SourceError> sources;

  bool operator==(const MeasuredErrors&) const = default;
};

// The table that ships (cost/measured_errors_table.cpp, a generated file).
[[nodiscard]] const MeasuredErrors& shipped_errors();

}  // namespace meshplan
