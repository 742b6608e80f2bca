#pragma once
// Flags of the commands that search: what to look for, where, and how long.
#include <optional>
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
void add_search_flags(Subcommand& command, SearchFlags& flags);

// Programs that fine-tune rarely have context parallelism: it is left out unless a flag names it
// (read_request), or nothing fits without it: then this is the search with it. Nothing where it was
// not left out.
[[nodiscard]] std::optional<SearchRequest> with_context_parallelism(const SearchFlags& flags,
                                                                    const WorkloadInputs& in,
                                                                    SearchRequest request);

// The workload must be complete; what is wrong or missing is added to `problems`.
[[nodiscard]] SearchRequest read_request(const SearchFlags& flags, const WorkloadFlags& workload,
                                         const WorkloadInputs& in, Diagnostics& problems);

}  // namespace meshplan
