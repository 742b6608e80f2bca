#pragma once
// What a few measured runs say about a model whose parameters are roughly known beforehand.
#include <span>
#include <vector>

#include "calibrate/parameters.hpp"

namespace meshplan {

// Of a run whose parameters are known: what the model itself gets wrong, as a standard deviation of
// ln(predicted / measured): by so much runs of one code on one machine differ from each other
// (benchmarks/accuracy, medians of the published sources).
inline constexpr double kModelError = 0.06;

// The same where nothing else tells a run that the model gets right from one that it does not: then
// no published source of 18 is predicted half a percent worse after one of its runs was seen than
// before, by the constants of the others (`meshplan-accuracy --cross-validate --shots 1`).
inline constexpr double kSingleRunError = 0.09;

// Parameters are said to be learned where the runs moved them, or their deviation, by more than
// this share of their doubt.
inline constexpr double kToldApart = 0.05;

// [F-CAL-10] Maximum a posteriori: minimises
//   -ln sum over c of c^-n exp(-sum rho(ln(predicted / measured) / (c s)))
//   + sum rho(ln(p / start) / w),
//   rho(z) = 2 ln(1 + z^2 / 3), s^2 = noise^2 + kModelError^2, w = ln(1 + doubt), c = 1, 2, 4,
// over ln of every parameter: Student's t with three degrees of freedom, so that a run that does
// not fit is not followed, and runs that agree are, however far off the parameters were thought to
// be (Lange, Little and Taylor 1989; O'Hagan 1979). How widely n runs of one code scatter is not
// known: by c s with any c alike, so that runs that all disagree move little. One run alone cannot
// tell a slow machine from a step that stalled: there the parameters' rho is that of a normal,
// z^2 / 2, and kSingleRunError stands for kModelError. Parameters that the runs do not tell stay
// where they are. Deviations are those of the quadratic at the minimum.
// `fitted`: learned (kToldApart). Fails where a measurement is not above zero.
[[nodiscard]] Result<ParameterFit> update_parameters(std::span<const Parameter> parameters,
                                                     std::span<const Observation> observations,
                                                     const Predictor& predict,
                                                     LeaveOneOut leave_one_out = LeaveOneOut::kYes);

}  // namespace meshplan
