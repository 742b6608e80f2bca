#pragma once
// Measured profiles on their way out: the file, and what the fits are worth.
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "calibrate/bench_samples.hpp"
#include "calibrate/device.hpp"
#include "console.hpp"
#include "inputs.hpp"
#include "io/nccl_tests.hpp"
#include "probe/samples_file.hpp"
#include "report/profile.hpp"

namespace meshplan {

struct NcclLogs {
  std::vector<CollectiveSample> samples;
  Provenance provenance;
};

// All runs of all files, rows with wrong results left out with a warning. `operation`: of logs that
// do not name it, else empty; `ranks`: of logs that do not name every rank.
[[nodiscard]] std::optional<NcclLogs> read_nccl_logs(const std::vector<std::string>& files,
                                                     const std::string& operation,
                                                     Diagnostics& problems, NcclRanks ranks = {});

// A profile from the samples of a benchmark run, and what was fitted for it.
struct BenchProfile {
  ClusterSpec cluster;
  std::vector<CollectiveFit> fits;
  std::vector<DeviceNumber> numbers;
  std::vector<std::string> warnings;  // what could not be used, and why
  std::vector<LevelLatency> latencies;
  std::map<std::string, std::string> facts;  // measured, but no number of the profile: in its notes
};

// `cluster` describes the machine; what was measured takes the place of its own numbers.
[[nodiscard]] std::optional<BenchProfile> profile_of_samples(const SamplesFile& file,
                                                             const ClusterSpec& cluster,
                                                             Diagnostics& problems);
// The fits with their residuals and held-out errors.
[[nodiscard]] std::string bench_profile_text(const BenchProfile& profile,
                                             const TextOptions& options);

// The file of a cluster made of measurements, with the device by name where it is a shipped one,
// unchanged; a problem where no reader would take it.
[[nodiscard]] std::optional<std::string> readable_profile(const ClusterSpec& c,
                                                          Diagnostics& problems);

}  // namespace meshplan
