#pragma once
// What bench measured, for people and as a document.
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "probe/bench_run.hpp"
#include "report/json.hpp"
#include "report/table.hpp"

namespace meshplan {

// The profile that was made of the samples.
struct BenchProfileReport {
  struct Number {  // of the device
    std::string key, before, after;
    FitErrors errors;
  };
  struct Compared {  // one size of somebody else's log
    Collective operation = Collective::kAllReduce;
    std::int64_t ranks = 0, nodes = 1;
    Bytes bytes;
    Seconds log, predicted;
    bool measured = false;  // predicted from a measured curve
  };
  std::string file;         // empty: not written
  std::string device_file;  // of the device alone; the same
  std::vector<CollectiveFit> fits;
  std::vector<Number> numbers;
  std::vector<Compared> compared;
  std::vector<std::string> warnings;         // what could not be used, and why
  std::map<std::string, std::string> facts;  // measured, but no number of the profile
};

// Bytes per second of nccl-tests' "busbw" that a collective's sample amounts to.
[[nodiscard]] BytesPerSecond bus_bandwidth(const CollectiveOperation& c, Seconds t);

[[nodiscard]] std::string machine_text(const Machine& m, const TextOptions& options);

// Machine, one line per kind of operation and group, what was left out, wrong results.
[[nodiscard]] std::string bench_text(const BenchOutcome& outcome, const TextOptions& options);

// Ranks whose devices are slower than the others', and where to look; empty if none is.
[[nodiscard]] std::string straggler_text(const std::vector<Sample>& samples, const Machine& m,
                                         const TextOptions& options);

// What would be measured, without measuring.
[[nodiscard]] std::string agenda_text(const Machine& m, const std::vector<Operation>& all,
                                      const TextOptions& options);

// Fitted numbers of a device with what they were before, and their errors.
[[nodiscard]] std::string numbers_text(std::span<const BenchProfileReport::Number> numbers,
                                       const TextOptions& options);
// The profile's times against a log's, and how far apart they are in the middle.
[[nodiscard]] std::string comparison_text(std::span<const BenchProfileReport::Compared> rows,
                                          const TextOptions& options);

// bench.schema.json. `samples_file` is empty where nothing was written, `profile` null where none
// was made.
[[nodiscard]] std::string bench_document(const ToolInfo& tool, const BenchOutcome& outcome,
                                         const std::string& samples_file,
                                         const BenchProfileReport* profile = nullptr);

// The samples whose results were not what they have to be.
[[nodiscard]] std::size_t wrong_results(const BenchOutcome& outcome);

}  // namespace meshplan
