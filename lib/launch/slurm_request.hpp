#pragma once
// "#SBATCH" lines of a script.
#include <map>
#include <string>
#include <string_view>

#include "launch/shell_words.hpp"

namespace meshplan {

[[nodiscard]] SlurmRequest read_slurm_request(std::string_view script);

// Variables that Slurm sets for a job that asked for that.
[[nodiscard]] std::map<std::string, std::string> slurm_environment(const SlurmRequest& request);

}  // namespace meshplan
