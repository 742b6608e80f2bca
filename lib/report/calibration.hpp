#pragma once
// What a fit to training runs found, for people and for programs.
#include <optional>
#include <string>
#include <vector>

#include "report/json.hpp"
#include "report/table.hpp"

namespace meshplan {

struct CalibrationRun {
  std::string file, framework;
  Strategy strategy;
  Seconds measured;
  double spread = 0;  // of the log's steps: interquartile range over the median
  std::int64_t reports = 0;
  Seconds before, after;                 // predicted
  std::optional<double> leave_one_out;   // relative error of a fit to the other runs, signed
  Bytes allocated, allocated_predicted;  // of the fullest device; measured 0: not in the log
  Bytes reserved, reserved_predicted;
};

struct CalibrationParameter {
  std::string name, unit;  // unit "s", or "" for shares and factors
  double before = 0, after = 0;
  bool fitted = false;
  double deviation = 0;  // relative, where fitted
  std::string reason;    // why it was not fitted
};

struct Calibration {
  std::vector<CalibrationRun> runs;
  std::vector<CalibrationParameter> parameters;
  double error_before = 0, error_after = 0;  // median
  std::optional<double> leave_one_out;       // median
};

[[nodiscard]] std::string calibration_text(const Calibration& c, const TextOptions& options);
// calibrate.schema.json
[[nodiscard]] std::string calibration_document(const ToolInfo& tool, const Calibration& c,
                                               const ModelSpec& m, const ClusterSpec& fitted);

}  // namespace meshplan
