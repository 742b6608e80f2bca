#pragma once
// Flags of the commands that search: what to look for, where, and how long.
#include <string>
#include <vector>

#include "command.hpp"
#include "inputs.hpp"
#include "search/search.hpp"

namespace meshplan {

// Numbers stay text until read_request() reads them.
struct SearchFlags {
  std::string top = "1", objective = "step-time", space, memory_risk = "0.1", precision, threads,
              time_limit;
  std::vector<std::string> fixed, limits, freed;
  bool without_activations = false;
};

// All but --top.
void add_search_flags(Command& command, SearchFlags& flags);

// The workload must be complete; what is wrong or missing is added to `problems`.
[[nodiscard]] SearchRequest read_request(const SearchFlags& flags, const WorkloadFlags& workload,
                                         const WorkloadInputs& in, Diagnostics& problems);

}  // namespace meshplan
