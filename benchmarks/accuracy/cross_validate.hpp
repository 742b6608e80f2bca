#pragma once
// Leave-one-source-out: every source predicted with constants that were chosen on the others.
#include <map>
#include <string>
#include <vector>

#include "constants.hpp"

namespace meshplan::accuracy {

// What choosing the constants without one source (or with all of them) gave.
struct Refit {
  std::string left_out;                   // empty: nothing
  std::map<std::string, double> values;   // of the constants that were chosen anew
  std::vector<std::string> undetermined;  // of which no other source knows: uninformed values
};

struct CrossValidation {
  std::map<std::string, double> shipped;  // values of the constants that some run sees
  std::vector<Refit> refits;              // by source, then the one that leaves nothing out
  std::vector<Prediction> held_out;       // every scored run, predicted without its source
  std::vector<Prediction> all_sources;    // the same, by the constants chosen on all sources
};

struct CrossValidateOptions {
  int threads = 1;
  // Of a larger source, this many rows spread evenly over the file choose the constants.
  std::size_t rows_per_source = 30;
};

// A run's part of what is minimised: Cauchy's loss ln(1 + (e / 10 %)^2) of e = ln(predicted /
// measured), which lets a run that stalled weigh little (Rousseeuw and Leroy 1987, sec. 1.2 on why
// squares do not). Averaged over the runs of a source, then over sources.
[[nodiscard]] double robust_loss(double log_error);

// `tasks` that are not scored are left alone. Constants start at their uninformed values, and a
// hundredth of their squared distance from there, in ranges, is added to the loss: what no run
// determines stays there.
[[nodiscard]] CrossValidation cross_validate(const std::vector<Task>& tasks,
                                             const std::vector<FittedConstant>& constants,
                                             const CrossValidateOptions& options = {});

}  // namespace meshplan::accuracy
