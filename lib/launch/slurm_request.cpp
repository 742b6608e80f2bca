#include "launch/slurm_request.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

namespace meshplan {
namespace {

constexpr std::int64_t kMostNodes = 1 << 24;

// "8", "gpu:8", "a100:8(S:0)": the last number before anything else.
std::int64_t count_in(std::string_view text) {
  const std::size_t colon = text.find_last_of(':', std::min(text.find('('), text.size()));
  if (colon != std::string_view::npos) text.remove_prefix(colon + 1);
  std::int64_t value = 0;
  const auto [stop, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || value < 1 || value > kMostNodes) return 0;
  const bool ends =
      stop == text.data() + text.size() || *stop == '(' || *stop == '-' || *stop == ',';
  return ends ? value : 0;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos || line[begin] == '#') return words;
    line.remove_prefix(begin);
    const std::size_t end = std::min(line.find_first_of(" \t\r"), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

void take(std::string_view name, std::string_view value, SlurmRequest& r) {
  struct Row {
    std::string_view name;
    std::int64_t SlurmRequest::*field;
  };
  constexpr std::array kRows{Row{"--nodes", &SlurmRequest::nodes},
                             Row{"-N", &SlurmRequest::nodes},
                             Row{"--gpus-per-node", &SlurmRequest::gpus_per_node},
                             Row{"--gpus", &SlurmRequest::gpus},
                             Row{"-G", &SlurmRequest::gpus},
                             Row{"--gpus-per-task", &SlurmRequest::gpus_per_task},
                             Row{"--ntasks-per-node", &SlurmRequest::tasks_per_node},
                             Row{"--ntasks", &SlurmRequest::tasks},
                             Row{"-n", &SlurmRequest::tasks}};
  for (const Row& row : kRows) {
    if (row.name == name) r.*row.field = count_in(value);
  }
  if (name == "--gres" && value.starts_with("gpu")) r.gpus_per_node = count_in(value);
}

}  // namespace

SlurmRequest read_slurm_request(std::string_view script) {
  SlurmRequest request;
  while (!script.empty()) {
    const std::size_t end = std::min(script.find('\n'), script.size());
    std::string_view line = script.substr(0, end);
    script.remove_prefix(std::min(end + 1, script.size()));
    constexpr std::string_view kMark = "#SBATCH";
    if (!line.starts_with(kMark)) continue;
    const std::vector<std::string_view> words = words_of(line.substr(kMark.size()));
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::size_t equals = words[i].find('=');
      if (equals != std::string_view::npos) {
        take(words[i].substr(0, equals), words[i].substr(equals + 1), request);
      } else if (words[i].starts_with("-") && i + 1 < words.size()) {
        take(words[i], words[i + 1], request);
      }
    }
  }
  return request;
}

std::map<std::string, std::string> slurm_environment(const SlurmRequest& r) {
  std::map<std::string, std::string> all;
  const auto add = [&](std::initializer_list<const char*> names, std::int64_t value) {
    for (const char* name : names) {
      if (value > 0) all[name] = std::to_string(value);
    }
  };
  add({"SLURM_NNODES", "SLURM_JOB_NUM_NODES"}, r.nodes);
  add({"SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"}, r.gpus_per_node);
  add({"SLURM_NTASKS_PER_NODE"}, r.tasks_per_node);
  add({"SLURM_GPUS"}, r.gpus);
  add({"SLURM_NTASKS", "SLURM_NPROCS"},
      r.tasks > 0 ? r.tasks : std::max<std::int64_t>(r.nodes, 0) * r.tasks_per_node);
  return all;
}

}  // namespace meshplan
