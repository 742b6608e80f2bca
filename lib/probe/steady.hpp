#pragma once
// A rate that lasts: the first milliseconds of a product run at clocks that the power limit takes
// back within a second or so, and training runs for weeks.
#include <functional>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "probe/sample.hpp"

namespace meshplan {

struct SteadyLimits {
  Seconds least{1.0};      // run this long in any case
  Seconds most{2.0};       // and no longer than this
  double settled = 0.005;  // end as soon as the late times vary by no more (standard deviation)
  bool operator==(const SteadyLimits&) const = default;
};

// Some repetitions, right after those before them.
struct Burst {
  std::vector<Seconds> times;   // of one call each
  Seconds lasted;               // all of it, on the host's clock
  std::optional<double> clock;  // of the device over its default, at the end
};

// Runs bursts until the times of the run's later half have settled, within the limits. Those are
// what counts. Fails where a burst does, or has no times.
[[nodiscard]] Result<SteadyTimes> run_until_steady(const std::function<Result<Burst>()>& burst,
                                                   const SteadyLimits& limits);

}  // namespace meshplan
