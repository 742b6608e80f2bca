#pragma once
// A run that a profile was learnt from, as far as plans that are made of the same parts need it.
#include <cstddef>
#include <map>
#include <string>

namespace meshplan {

// Derivatives of ln(step time) by ln of a profile's numbers, by their names.
using TimeDerivatives = std::map<std::string, double>;

// More of them tell little more, and each plan is held against all.
inline constexpr std::size_t kMostSeenRuns = 256;

struct SeenRun {
  std::string name;
  TimeDerivatives sensitivity;
  double error = 0;  // ln(predicted / measured) with the numbers from before anything was learnt
  double noise = 0;  // relative spread of the measurement

  bool operator==(const SeenRun&) const = default;
};

}  // namespace meshplan
