#pragma once
// How much better the other runs of a source are predicted once a few of them are known.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "constants.hpp"
#include "cost/uncertainty.hpp"
#include "cross_validate.hpp"
#include "predict.hpp"

namespace meshplan::accuracy {

struct ShotOptions {
  std::size_t shots = 1;  // runs that are shown
  std::uint64_t seed = 1;
  int draws = 20;  // of which runs
  int threads = 1;
  // Intervals of runs, over their predictions, that their source had no say in; of others by what
  // ships.
  std::map<const Run*, StepTimeInterval> intervals{};
};

// Of one source's runs on one device.
struct ShotResult {
  std::string source, device;
  std::size_t runs = 0;
  // Mean over draws of the median error of the runs that were not shown.
  double before = 0, after = 0;
  std::size_t farther_off = 0;  // draws after which that error was larger than before
  // Means over draws of the share of those runs inside their intervals, and of the median width.
  double inside_before = 0, inside_after = 0;
  double width_before = 0, width_after = 0;
};

// The runs with the constants that ship, or with those that were chosen without their source.
[[nodiscard]] std::vector<Task> left_out_tasks(const std::vector<Task>& tasks,
                                               const CrossValidation& all,
                                               const std::vector<FittedConstant>& constants);

// A source's runs whose step time counts and that are predicted, by the name of their device.
[[nodiscard]] std::map<std::string, std::vector<Task>> scored_by_device(
    const std::vector<Task>& tasks, const Source& source);

// Every source and device with more runs than are shown. `meshplan calibrate` learns from the runs
// shown what they tell of the machine (calibrate/posterior.hpp) and of runs that are made of the
// same parts (calibrate/seen_runs.hpp); then the others are predicted.
[[nodiscard]] std::vector<ShotResult> learn_from_shots(const std::vector<Task>& tasks,
                                                       const ShotOptions& options);

// A source's error is that of its devices, each weighing as its runs do; last comes the mean over
// sources.
[[nodiscard]] std::string to_text(const std::vector<ShotResult>& results,
                                  const ShotOptions& options);

}  // namespace meshplan::accuracy
