#pragma once
// A device's trace in numbers: seconds of one step, the mean over the steps of the trace.
#include <array>
#include <map>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "base/units.hpp"
#include "compare/device_trace.hpp"
#include "cost/plan_cost.hpp"

namespace meshplan {

inline constexpr std::size_t kOpClasses = NameTable<OpClass>::rows.size();

// Per step. `time` sums durations: operations beside each other count twice.
struct OpTime {
  Seconds time;
  double count = 0;
};

// By shape, whatever the direction: a linear layer's forward product and the two of its backward
// pass have the same three sizes.
struct ProductTime {
  ProductShape shape;  // m >= n >= k
  OpTime all;
};

struct CommTime {
  std::optional<CommDimension> dimension;  // nothing: the trace does not tell
  CommKind kind = CommKind::kNone;
  std::int64_t group_size = 0;  // 0: not said
  OpTime all;
  Seconds exposed;  // while nothing computes
};

struct DeviceMeasure {
  std::string file;
  std::int64_t rank = -1;
  std::int64_t steps = 1;
  std::string steps_from;  // what tells how many steps the trace has
  Seconds step;
  std::array<std::array<OpTime, 3>, kOpClasses> classes;  // by class and Direction
  std::vector<ProductTime> products;                      // longest first
  std::vector<CommTime> communication;                    // most exposed first
  Seconds computing;  // while at least one kernel that is no communication and no copy runs
  Seconds copying;    // copies that nothing hides
  Seconds loading;    // idle while the host loads data
  Seconds waiting;    // idle otherwise: the device waits for the host
  double gaps = 0;    // of at least kShortGap, in which it does
  // What kernels take longer while communication runs beside them than the same ones alone do.
  Seconds slow_down;
  Seconds beside;  // of computing, with communication beside it
  // Kernels of fused attention's forward pass, by name: repeated ones run in the thread of the
  // backward pass.
  double attention_forward = 0;
  double wide_products = 0;  // share of the products' time in kernels of fp32 or TF32, by name
  double kernels = 0;
  double allocations = 0;  // cudaMalloc and cudaFree
  Seconds allocation_time;
  std::vector<std::string> notes;

  [[nodiscard]] OpTime of(OpClass c) const;
  [[nodiscard]] Seconds exposed(CommDimension d) const;
};

// A device that is idle for less than this is between two kernels that follow each other.
inline constexpr double kShortGap = 2;  // us

// `plan` tells which collectives belong to which dimension.
[[nodiscard]] DeviceMeasure measured_device(const DeviceTrace& trace, const PlanCost& plan);

}  // namespace meshplan
