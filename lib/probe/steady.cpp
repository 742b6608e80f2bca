#include "probe/steady.hpp"

#include <cmath>

namespace meshplan {
namespace {

// Standard deviation over the mean.
double deviation(const std::vector<Seconds>& times) {
  const auto n = static_cast<double>(times.size());
  double sum = 0, squares = 0;
  for (const Seconds t : times) sum += t.si();
  const double mean = sum / n;
  for (const Seconds t : times) squares += (t.si() - mean) * (t.si() - mean);
  return mean > 0 ? std::sqrt(squares / n) / mean : 0;
}

// The times of the bursts that ended in the later half of the run.
std::vector<Seconds> late_times(const std::vector<Burst>& bursts, Seconds lasted) {
  std::vector<Seconds> late;
  Seconds end;
  for (const Burst& b : bursts) {
    end += b.lasted;
    if (end > lasted * 0.5) late.insert(late.end(), b.times.begin(), b.times.end());
  }
  return late;
}

}  // namespace

Result<SteadyTimes> run_until_steady(const std::function<Result<Burst>()>& burst,
                                     const SteadyLimits& limits) {
  std::vector<Burst> bursts;
  SteadyTimes steady;
  while (true) {
    Result<Burst> next = burst();
    if (!next) return next.errors();
    if (next->times.empty() || !(next->lasted > Seconds{0})) {
      return error("a steady run took no time");
    }
    steady.lasted += next->lasted;
    steady.clock = next->clock;
    bursts.push_back(std::move(next).value());
    if (steady.lasted < limits.least) continue;
    const std::vector<Seconds> late = late_times(bursts, steady.lasted);
    steady.spread = deviation(late);
    steady.settled = steady.spread <= limits.settled;
    if (!steady.settled && steady.lasted < limits.most) continue;
    steady.median = median_of(late);
    return steady;
  }
}

}  // namespace meshplan
