#include "logged_run.hpp"

#include "cost/step.hpp"
#include "strategy_flag.hpp"

namespace meshplan {
namespace {

// The log and what is said of the run may both state it: they must agree.
void check_same(const TrainingLog& log, std::int64_t in_log, std::int64_t stated,
                const std::string& what, Diagnostics& problems) {
  if (in_log == 0 || in_log == stated) return;
  problems.push_back(error_at({log.file},
                              "is of a run with " + what + " " + std::to_string(in_log) +
                                  ", and the strategy's is " + std::to_string(stated),
                              "give the strategy that ran"));
}

}  // namespace

std::optional<LogFile> read_log(const std::string& file, Diagnostics& problems) {
  std::optional<std::string> text = take(read_text_file(file), file, problems);
  if (!text) return std::nullopt;
  std::optional<TrainingLog> log = take(parse_training_log(*text, file), file, problems);
  if (!log) return std::nullopt;
  return LogFile{*std::move(text), *std::move(log)};
}

std::optional<LoggedRun> completed_run(LogFile log, const ModelSpec& m, const Strategy& given,
                                       const ClusterSpec& cluster, const std::string& what,
                                       Diagnostics& problems) {
  if (Diagnostics broken = validate(with_derived_dp(given, num_gpus(cluster)), m, cluster);
      has_errors(broken)) {
    for (Diagnostic& d : broken) d.where.file = what;
    append(problems, broken);
    return std::nullopt;
  }
  LoggedRun run{std::move(log.text), std::move(log.log), m, complete(given, m, cluster), cluster};
  const Strategy& s = run.strategy;
  check_same(run.log, run.log.global_batch, s.global_batch, "a global batch of", problems);
  check_same(run.log, run.log.gpus, num_gpus(s), "a world size of", problems);
  check_same(run.log, run.log.tp, s.tp, "a tensor-parallel size of", problems);
  check_same(run.log, run.log.pp, s.pp, "a pipeline-parallel size of", problems);
  check_same(run.log, run.log.cp, s.cp, "a context-parallel size of", problems);
  return run;
}

std::optional<LoggedRun> run_of_flags(LogFile log, const WorkloadFlags& flags,
                                      const std::string& strategy, WorkloadInputs in,
                                      Diagnostics& problems) {
  const bool stated = strategy.find("global_batch") != std::string::npos;
  if (in.global_batch == 0 && !stated) in.global_batch = log.log.global_batch;
  if (log.log.gpus > 0 && in.gpus == 0 && log.log.gpus <= num_gpus(*in.cluster)) {
    in.cluster = with_gpus(*in.cluster, log.log.gpus);
    in.gpus = log.log.gpus;
  }
  const std::optional<Strategy> given = read_strategy(strategy, flags, in, problems);
  if (!given) return std::nullopt;
  const std::string what = log.log.file + ": strategy";
  return completed_run(std::move(log), *in.model, *given, cluster_for(*given, in), what, problems);
}

}  // namespace meshplan
