#pragma once
// Training logs with what they ran: model, strategy and a cluster of the run's size.
#include <optional>
#include <string>

#include "inputs.hpp"
#include "io/training_log.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

struct LoggedRun {
  std::string text;  // of the log
  TrainingLog log;
  ModelSpec model;
  Strategy strategy;    // complete
  ClusterSpec cluster;  // of the run's size
};

// The log's text and what is read of it.
struct LogFile {
  std::string text;
  TrainingLog log;
};
[[nodiscard]] std::optional<LogFile> read_log(const std::string& file, Diagnostics& problems);

// The run of a log by a strategy that the flags state; what they leave open (batch, GPUs) is taken
// from the log. Both must agree.
[[nodiscard]] std::optional<LoggedRun> run_of_flags(LogFile log, const WorkloadFlags& flags,
                                                    const std::string& strategy, WorkloadInputs in,
                                                    Diagnostics& problems);

// The same of a strategy that is known; its dp may be 0, as derived from the cluster.
// `what`: whose it is, for messages.
[[nodiscard]] std::optional<LoggedRun> completed_run(LogFile log, const ModelSpec& m,
                                                     const Strategy& given,
                                                     const ClusterSpec& cluster,
                                                     const std::string& what,
                                                     Diagnostics& problems);

}  // namespace meshplan
