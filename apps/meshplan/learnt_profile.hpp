#pragma once
// compare --update-profile: what measured runs say of the profile that their predictions came from.
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compare/comparison.hpp"
#include "inputs.hpp"
#include "report/calibration.hpp"

namespace meshplan {

struct LearntProfile {
  std::vector<CalibrationParameter> parameters;
  ClusterSpec cluster;  // `whole` with what was learnt
};

// Maximum a posteriori as in calibrate ([F-CAL-10]). Observed are the step of every run, and of a
// trace the seconds of its products, of its memory-bound kernels and of its communication by
// dimension, each against the cost model's own sum. `whole`: the cluster of all its nodes.
[[nodiscard]] std::optional<LearntProfile> learnt_profile(std::span<const ComparedRun> runs,
                                                          const ClusterSpec& whole,
                                                          Diagnostics& problems);

}  // namespace meshplan
