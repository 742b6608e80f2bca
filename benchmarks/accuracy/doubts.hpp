#pragma once
// How far what ships may be off on a machine that nobody measured: the doubts that
// `meshplan calibrate` starts from, from how far sources are off that had no say in the constants.
#include <map>
#include <string>
#include <vector>

#include "calibrate/profile_parameters.hpp"
#include "predict.hpp"

namespace meshplan::accuracy {

using Doubts = std::map<ProfileKey, double>;  // as factors of 1 + doubt

struct ChosenDoubts {
  Doubts all;
  // How far apart runs are whose errors are alike, and how large what they share is ([F-CAL-12]).
  double alike_length = 0, alike_size = 0;
  // Least and largest with one source left out.
  Doubts least, most;
};

// [F-CAL-11] Of largest marginal likelihood over the runs of every source and device, each source
// with the same weight; `tasks` hold the constants that were chosen without their source.
[[nodiscard]] ChosenDoubts choose_doubts(const std::vector<Task>& tasks, int threads);

[[nodiscard]] std::string to_text(const ChosenDoubts& doubts);

}  // namespace meshplan::accuracy
