#pragma once
// Flags of plan that ask for more than the best plans of one size.
#include <optional>
#include <string>
#include <vector>

#include "command.hpp"
#include "inputs.hpp"
#include "search/search.hpp"
#include "study/studies.hpp"

namespace meshplan {

struct StudyFlags {
  bool pareto = false, sensitivity = false, fallback = false;
  std::string memory_risk = "0.1";
  std::string failure_rate, checkpoint_time, checkpoint_bandwidth, restart_time;
};

void add_study_flags(Command& command, StudyFlags& flags);

struct StudyRequest {
  bool pareto = false, sensitivity = false, fallback = false;
  double memory_risk = 1;  // that needs no safer plan
  std::optional<FailureModel> failures;
};

[[nodiscard]] StudyRequest read_studies(const StudyFlags& flags, Diagnostics& problems);

// "256..4096" is 256, 512, ... 4096, and "256,512" a list of sizes; empty for one number.
[[nodiscard]] bool is_sizes(const std::string& gpus);
[[nodiscard]] std::vector<std::int64_t> read_sizes(const std::string& gpus, Diagnostics& problems);

// The studies of a search that found plans; the sweep was made before it. `sizes`: for the front.
[[nodiscard]] Result<Studies> run_studies(const StudyRequest& wanted, const ModelSpec& m,
                                          const ClusterSpec& c, const SearchRequest& request,
                                          const SearchResult& result,
                                          std::vector<std::int64_t> sizes,
                                          const Progress& progress);

}  // namespace meshplan
