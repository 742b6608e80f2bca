// How probable errors are, given how far parameters may be off.
#include "calibrate/evidence.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/catch.hpp"

using namespace meshplan;

TEST_CASE("[F-CAL-11] one run: a normal deviate of width and noise together") {
  const EvidenceRuns run{{0.1}, {{1.0}}};
  // The noise that is tried and leaves least, by the density written out.
  double least = 1e9;
  for (double noise = 0.01; noise <= 0.15; noise *= 1.3) {
    const double variance = 0.05 * 0.05 + noise * noise;
    least = std::min(least, 0.1 * 0.1 / variance / 2 + std::log(variance) / 2);
  }
  CHECK(negative_log_evidence(run, std::vector{0.05}, 0.1, 0) == Approx(least));
}

TEST_CASE("[F-CAL-11] runs that err alike are likeliest where a parameter is as far off") {
  // Three runs that a parameter moves by as much, all of them 8 % off, and alike but for a percent.
  const EvidenceRuns alike{{0.08, 0.09, 0.07}, {{1.0, 1.0, 1.0}}};
  const auto at = [&](double width) {
    return negative_log_evidence(alike, std::vector{width}, 0.1, 0);
  };
  CHECK(at(0.08) < at(0.02));
  CHECK(at(0.08) < at(0.4));
  // Runs that err in both directions are noise, whatever the width.
  const EvidenceRuns apart{{0.08, -0.08, 0.07, -0.07}, {{1.0, 1.0, 1.0, 1.0}}};
  const auto narrow = negative_log_evidence(apart, std::vector{0.01}, 0.1, 0);
  CHECK(narrow < negative_log_evidence(apart, std::vector{0.3}, 0.1, 0));
}

TEST_CASE("[F-CAL-12] runs of the same parts that err alike tell that errors are shared") {
  // Two kinds of runs, one of which is off, and no parameter that could be the reason.
  const EvidenceRuns kinds{{0.1, 0.09, 0.11, 0, 0.01, -0.01},
                           {{1, 1, 1, 0, 0, 0}, {0, 0, 0, 1, 1, 1}}};
  const std::vector<double> narrow{0.001, 0.001};
  CHECK(negative_log_evidence(kinds, narrow, 0.1, 2) <
        negative_log_evidence(kinds, narrow, 0.1, 0));
  // Where neighbours contradict each other, they share nothing.
  const EvidenceRuns apart{{0.1, -0.1, 0.1, -0.1}, {{1, 1, 1, 1}}};
  const std::vector<double> one{0.001};
  CHECK(negative_log_evidence(apart, one, 0.1, 0) < negative_log_evidence(apart, one, 0.1, 2));
}
