#pragma once
// Flags of plan that ask for more than the best plans of one size.
#include <string>
#include <vector>

#include "command.hpp"
#include "inputs.hpp"
#include "study/studies.hpp"

namespace meshplan {

struct StudyFlags {
  bool pareto = false, sensitivity = false, fallback = false;
  std::string failure_rate, checkpoint_time, checkpoint_bandwidth, restart_time;
};

void add_study_flags(Subcommand& command, StudyFlags& flags);

[[nodiscard]] StudyRequest read_studies(const StudyFlags& flags, Diagnostics& problems);

// "256..4096" is 256, 512, ... 4096, and "256,512" a list of sizes; empty for one number.
[[nodiscard]] bool is_sizes(const std::string& gpus);
[[nodiscard]] std::vector<std::int64_t> read_sizes(const std::string& gpus, Diagnostics& problems);

}  // namespace meshplan
