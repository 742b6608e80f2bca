#pragma once
// Leave-one-source-out: every source predicted with constants that were chosen on the others.
#include <map>
#include <string>
#include <vector>

#include "fit.hpp"

namespace meshplan::accuracy {

struct CrossValidation {
  std::map<std::string, double> shipped;  // values of the constants that some run sees
  std::vector<Refit> refits;              // by source, then the one that leaves nothing out
  std::vector<Prediction> held_out;       // every scored run, predicted without its source
  std::vector<Prediction> all_sources;    // the same, by the constants chosen on all sources
};

struct CrossValidateOptions {
  FitOptions fit;
  // Of a larger source, this many rows spread evenly over the file choose the constants while
  // another is left out.
  std::size_t rows_per_source = 60;
};

// `tasks` that are not scored are left alone. Constants start at their uninformed values and are
// held there by the ridge: what no run determines stays.
[[nodiscard]] CrossValidation cross_validate(const std::vector<Task>& tasks,
                                             const std::vector<FittedConstant>& constants,
                                             const CrossValidateOptions& options = {});

}  // namespace meshplan::accuracy
