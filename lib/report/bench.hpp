#pragma once
// What bench measured, for people and as a document.
#include <string>

#include "probe/bench_run.hpp"
#include "report/json.hpp"
#include "report/table.hpp"

namespace meshplan {

// Bytes per second of nccl-tests' "busbw" that a collective's sample amounts to.
[[nodiscard]] BytesPerSecond bus_bandwidth(const CollectiveOperation& c, Seconds t);

[[nodiscard]] std::string machine_text(const Machine& m, const TextOptions& options);

// Machine, one line per kind of operation and group, what was left out, wrong results.
[[nodiscard]] std::string bench_text(const BenchOutcome& outcome, const TextOptions& options);

// What would be measured, without measuring.
[[nodiscard]] std::string agenda_text(const Machine& m, const std::vector<Operation>& all,
                                      const TextOptions& options);

// bench.schema.json. `samples_file` is empty where nothing was written.
[[nodiscard]] std::string bench_document(const ToolInfo& tool, const BenchOutcome& outcome,
                                         const std::string& samples_file);

// The samples whose results were not what they have to be.
[[nodiscard]] std::size_t wrong_results(const BenchOutcome& outcome);

}  // namespace meshplan
