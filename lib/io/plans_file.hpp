#pragma once
// Reads back what `plan` and `estimate` write with --json or --out.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/units.hpp"
#include "spec/cluster.hpp"
#include "spec/model.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

// One plan: its strategy, complete and legal, and the numbers that were predicted for it. What else
// a plan consists of follows from model, cluster and strategy (cost_of, cost/step.hpp).
struct SavedPlan {
  std::int64_t rank = 0;  // from 1, best first
  Strategy strategy;
  Seconds step_time;
  Seconds step_time_low, step_time_high;
  double tokens_per_s = 0;
  double tokens_per_s_per_gpu = 0;
  double mfu = 0;
  double hfu = 0;
  Bytes peak_memory;  // of the fullest pipeline rank's devices
  std::optional<double> usd_per_step;

  bool operator==(const SavedPlan&) const = default;
};

struct PlansFile {
  std::string tool_version;  // of the program that wrote it
  ModelSpec model;
  ClusterSpec cluster;  // resized to the devices that were planned for
  std::int64_t global_batch = 0, seq_len = 0, gpus = 0;
  std::vector<SavedPlan> plans;  // in the order of the file; empty where nothing fitted
  // Beside the ranked plans, where there are some: what runs, of a search of more than that; what
  // is faster at more risk of running out of memory; and with what no framework has built yet.
  std::optional<Strategy> runnable, fastest, unbuilt;

  bool operator==(const PlansFile&) const = default;
};

// Strict in what it reads: types, ranges, names, legality of every strategy, all problems at once.
// Keys of the document that are not needed here may be anything: later versions add some.
// `file` is how diagnostics call the text.
Result<PlansFile> parse_plans(std::string_view text, const std::string& file);
Result<PlansFile> load_plans(const std::filesystem::path& path);

}  // namespace meshplan
