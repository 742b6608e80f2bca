#pragma once
// Predictions and measurements -> the scores of each source and their average over sources.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "predict.hpp"
#include "score.hpp"

namespace meshplan::accuracy {

struct ScoredRun {
  const Prediction* prediction = nullptr;
  double measured_s = 0;
  double error = 0;
  std::optional<double> memory_error;
};

// Of memory alone, or of the longest sequence in a given one.
struct ScoredMemory {
  const Prediction* prediction = nullptr;
  double predicted = 0, measured = 0;  // bytes or tokens
  double error = 0;
};

struct Feasibility {
  std::int64_t ran = 0;              // runs of the source that ran
  std::int64_t ran_not_fitting = 0;  // of which predicted not to fit
  std::int64_t out_of_memory = 0;    // runs that ran out of memory
  std::int64_t oom_fitting = 0;      // of which predicted to fit
  std::int64_t other_failures = 0;   // failed for another reason, or one not told: not counted
};

struct Choice {
  std::int64_t groups = 0;
  double regret_mean = 0, regret_max = 0;
  std::optional<double> kendall_tau, spearman;  // means over the groups where they exist
};

struct SourceScore {
  std::string name;
  std::vector<ScoredRun> runs;  // in the file's order
  std::optional<ErrorStats> step_time;
  std::vector<ScoredMemory> memories, lengths;
  std::optional<ErrorStats> memory, length;
  std::optional<Feasibility> feasibility;
  std::optional<Choice> choice;
  std::map<std::string, std::int64_t> searched;  // runs by the field that was searched
};

struct Macro {
  std::int64_t sources = 0, choice_sources = 0, memory_sources = 0;
  std::optional<ErrorStats> step_time, memory;
  std::optional<double> regret_mean, kendall_tau, spearman;
  // Over all runs, not sources.
  Feasibility feasibility;
};

struct Report {
  std::vector<SourceScore> sources;
  Macro macro;
  std::vector<Skipped> skipped;
  std::int64_t sanity_runs = 0;  // shown nowhere: layout, recomputation or batch unknown
};

inline constexpr std::size_t kSmallestGroup = 5;

// Runs compete that train the same model at the same sequence length, GPU count and global batch.
[[nodiscard]] std::string choice_group(const Run& run);

[[nodiscard]] bool is_out_of_memory(const std::string& status);
// "doubtful: ...", why: the row's layout and its measurement cannot belong together. It is not
// scored.
[[nodiscard]] bool is_doubtful(const std::string& status);

// `predictions` in the order of the sources' runs; the report points into them.
[[nodiscard]] Report summarise(const std::vector<Source>& sources,
                               const std::vector<Prediction>& predictions,
                               std::vector<Skipped> skipped);
Report summarise(const std::vector<Source>&, std::vector<Prediction>&&,
                 std::vector<Skipped>) = delete;

}  // namespace meshplan::accuracy
