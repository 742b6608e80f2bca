#pragma once
// What the runs that a profile was learnt from say of another plan on the same cluster.
#include <functional>
#include <span>

#include "calibrate/profile_parameters.hpp"
#include "spec/seen_run.hpp"

namespace meshplan {

// Derivatives of ln(step_time) by ln of the cluster's numbers that training runs can tell.
[[nodiscard]] TimeDerivatives time_derivatives(
    const ClusterSpec& c, Precision precision,
    const std::function<double(const ClusterSpec&)>& step_time);

struct SeenEffect {
  double factor = 1;    // by what the plan takes longer than predicted
  double widening = 1;  // of its interval
};

// [F-CAL-12] The model errs alike on runs that are made of the same parts (a discrepancy that is a
// Gaussian process over the derivatives of ln(step time): Kennedy and O'Hagan 2001): what the runs
// took longer than the learnt parameters say, times how near the plan is, k' C^-1 e. Its interval
// widens by the root of what is left of its variance, where runs err by 3 % for themselves, times
// (3 + e' C^-1 e) / (3 + n) where the n runs err by more than that.
[[nodiscard]] SeenEffect effect_of(std::span<const SeenRun> runs, const TimeDerivatives& plan);

}  // namespace meshplan
