#pragma once
// What runs say of how far the parameters of a model may be off, before any of them is fitted.
#include <span>
#include <vector>

namespace meshplan {

// Of runs of one code on one machine.
struct EvidenceRuns {
  std::vector<double> errors;                    // ln(predicted / measured)
  std::vector<std::vector<double>> derivatives;  // of errors by ln of each parameter: columns
};

// [F-CAL-11] -ln of the probability of the errors, up to a constant, if ln of every parameter is
// off by a normal deviate of its width and each run by one of `noise` besides:
//   (e' C^-1 e + ln det C) / 2, C = noise^2 (I + K) + J W^2 J'
// with K as alike as their rows of J are ([F-CAL-12])
// (type II maximum likelihood: Good 1965; Berger 1985 sec. 3.5.4). Least over noise at noises that
// are a factor of 1.3 apart, from 1 to 15 %, as within how far runs differ is not known beforehand.
[[nodiscard]] double negative_log_evidence(const EvidenceRuns& runs, std::span<const double> widths,
                                           double alike_length, double alike_size);

}  // namespace meshplan
