#pragma once
// Measured profiles on their way out: the file, and what the fits are worth.
#include <optional>
#include <string>
#include <vector>

#include "calibrate/collectives.hpp"
#include "console.hpp"
#include "inputs.hpp"
#include "report/profile.hpp"

namespace meshplan {

struct NcclLogs {
  std::vector<CollectiveSample> samples;
  Provenance provenance;
};

// All runs of all files, rows with wrong results left out with a warning. `operation`: of logs that
// do not name it, else empty.
[[nodiscard]] std::optional<NcclLogs> read_nccl_logs(const std::vector<std::string>& files,
                                                     const std::string& operation,
                                                     Diagnostics& problems);

// The cluster's file; the device by name where it is a shipped one, unchanged.
[[nodiscard]] std::string profile_text(const ClusterSpec& c);

}  // namespace meshplan
