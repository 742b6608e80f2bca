#pragma once
// How far a predicted step time or memory peak may be off, from errors measured on published runs
// (cost/measured_errors.hpp).
#include <string>

#include "cost/measured_errors.hpp"
#include "cost/plan_cost.hpp"
#include "spec/cluster.hpp"

namespace meshplan {

struct StepTimeInterval {
  Seconds low;
  Seconds high;

  bool operator==(const StepTimeInterval&) const = default;
};

[[nodiscard]] Regime regime_of(const PlanCost& p);

// Why an interval is wider than the runs of its regime alone would make it.
struct Extrapolation {
  bool device = false;     // no source ran on this device
  bool framework = false;  // no source ran with this framework
  double doublings = 0;    // of the largest number of devices that any source ran on

  [[nodiscard]] bool any() const { return device || framework || doublings > 0; }
  bool operator==(const Extrapolation&) const = default;
};
[[nodiscard]] Extrapolation extrapolation_of(const std::string& device,
                                             const std::string& framework, std::int64_t gpus,
                                             const MeasuredErrors& errors = shipped_errors());
[[nodiscard]] Extrapolation extrapolation_of(const ClusterSpec& c, const PlanCost& p,
                                             const MeasuredErrors& errors = shipped_errors());

// Bands widen by this for each doubling of the number of devices beyond every source's. An
// assumption: nothing was measured there.
inline constexpr double kPerDoubling = 0.25;

// [F-UNC-1] Interval that four runs in five are expected in: t exp(c - b w), t exp(c + a w), taken
// outwards to t itself. c, b, a: centre, below and above of the band of the plan's regime, w what
// extrapolation widens: (device) (framework) (1 + kPerDoubling x doublings). The bands are
// quantiles of the errors of sources left out, every source with the same weight (conformal
// prediction for grouped data: Dunn, Wasserman and Ramdas 2022; Lee, Barber and Willett 2023,
// 2306.06342).
[[nodiscard]] StepTimeInterval step_time_interval(const ClusterSpec& c, const PlanCost& p,
                                                  const MeasuredErrors& errors = shipped_errors());

// Its parts: the band of a regime, widened; and the interval that a band makes around a time.
[[nodiscard]] ErrorBand error_band(Regime regime, const Extrapolation& beyond,
                                   const MeasuredErrors& errors = shipped_errors());
// [F-CAL-12] The same once runs like the plan were seen.
[[nodiscard]] ErrorBand learnt_band(ErrorBand band, const LikeRuns& runs);
[[nodiscard]] StepTimeInterval interval_around(Seconds predicted, const ErrorBand& band);

struct MemoryInterval {
  Bytes low;
  Bytes high;

  bool operator==(const MemoryInterval&) const = default;
};

// [F-UNC-2] Interval that four runs in five are expected in: the capacities at which [F-UNC-3] is
// 90 % and 10 %, taken outwards to the peak itself.
[[nodiscard]] MemoryInterval memory_interval(const MemoryBreakdown& m,
                                             const MeasuredErrors& errors = shipped_errors());

// [F-UNC-3] Probability that the measured peak exceeds the capacity C: the mean over sources of the
// share of errors r with peak exp(r) > C where the whole device was measured, and with x + (peak -
// x) exp(r) > C where the allocator was (x: context and communicators, which it does not see).
// Quantiles are joined by lines; beyond the outermost, exponential tails hold its probability and
// fall by e per spacing of the two outermost quantiles. In (0, 1).
[[nodiscard]] double out_of_memory_probability(const MemoryBreakdown& m,
                                               const MeasuredErrors& errors = shipped_errors());

// [F-UNC-5] The largest peak, of at most the capacity, whose [F-UNC-3] is at most `risk`: of what
// an allocator does not see, `unseen` is in every such peak. Zero if there is none. It grows with
// `unseen`, by less than `unseen` does.
[[nodiscard]] Bytes safe_peak(Bytes unseen, Bytes capacity, double risk,
                              const MeasuredErrors& errors = shipped_errors());

// The part of the memory that would tip a plan over its capacity, and by what factor it has to grow
// for that. Weights, gradients and optimizer states are counted exactly; of what is estimated the
// largest part gets there first.
struct TippingTerm {
  Bytes MemoryBreakdown::*term = nullptr;
  double growth = 0;  // of that term alone; 0.25: a quarter more and the plan does not fit
};
[[nodiscard]] TippingTerm tipping_term(const MemoryBreakdown& m);

}  // namespace meshplan
