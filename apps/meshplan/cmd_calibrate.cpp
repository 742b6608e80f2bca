#include <cmath>
#include <memory>
#include <set>

#include "calibrate/posterior.hpp"
#include "calibrate/profile_parameters.hpp"
#include "console.hpp"
#include "cost/step.hpp"
#include "fitted_profile.hpp"
#include "inputs.hpp"
#include "io/write.hpp"
#include "log.hpp"
#include "logged_run.hpp"
#include "profile_output.hpp"
#include "report/calibration.hpp"

namespace meshplan {
namespace {

struct CalibrateFlags {
  CommonFlags common;
  WorkloadFlags workload;
  std::vector<std::string> logs, strategies;
  std::string out;
};

// One log with the strategy that it ran, and its step.
struct Run : LoggedRun {
  StepTime step;
};

std::optional<Run> read_run(const CalibrateFlags& flags, const std::string& file,
                            const std::string& strategy, const WorkloadInputs& in,
                            Diagnostics& problems) {
  std::optional<LogFile> log = read_log(file, problems);
  if (!log) return std::nullopt;
  std::optional<LoggedRun> run =
      run_of_flags(*std::move(log), flags.workload, strategy, in, problems);
  if (!run) return std::nullopt;
  const Strategy& s = run->strategy;
  const std::optional<StepTime> step =
      take(steady_step_time(run->log, s.global_batch, s.seq_len, num_gpus(s)), file, problems);
  return Run{*std::move(run), step.value_or(StepTime{})};
}

std::vector<Run> read_runs(const CalibrateFlags& flags, const WorkloadInputs& in,
                           Diagnostics& problems) {
  std::vector<Run> runs;
  if (flags.logs.empty()) {
    problems.push_back(error("--log is missing", "give one or more logs of training runs"));
  }
  const std::size_t given = flags.strategies.size();
  if (given > 1 && given != flags.logs.size()) {
    problems.push_back(error("there are " + std::to_string(flags.logs.size()) + " logs and " +
                                 std::to_string(given) + " strategies",
                             "give one --strategy for all logs, or one per --log in their order"));
  }
  if (has_errors(problems)) return runs;
  for (std::size_t i = 0; i < flags.logs.size(); ++i) {
    const std::string strategy = given == 0 ? "" : flags.strategies[given == 1 ? 0 : i];
    std::optional<Run> run = read_run(flags, flags.logs[i], strategy, in, problems);
    if (run) runs.push_back(std::move(*run));
  }
  return runs;
}

Calibration summarised(const std::vector<Run>& runs, const ModelSpec& m,
                       const std::vector<ProfileParameter>& parameters, const ParameterFit& fit) {
  Calibration c;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Run& run = runs[i];
    const MemoryBreakdown memory = cost_of(m, run.cluster, run.strategy).memory();
    CalibrationRun row{.file = run.log.file,
                       .framework = std::string(name_of(run.log.kind)),
                       .strategy = run.strategy,
                       .measured = run.step.median,
                       .spread = run.step.spread,
                       .reports = run.step.reports,
                       .before = Seconds{fit.before[i]},
                       .after = Seconds{fit.after[i]},
                       .leave_one_out = {},
                       .allocated = run.log.max_allocated,
                       .allocated_predicted = memory.allocated(),
                       .reserved = run.log.max_reserved,
                       .reserved_predicted = memory.allocated() + memory.fragmentation};
    if (fit.leave_one_out) row.leave_one_out = fit.leave_one_out_errors[i];
    c.runs.push_back(std::move(row));
  }
  c.parameters = fitted_parameters(parameters, fit);
  c.error_before = fit.error_before;
  c.error_after = fit.error_after;
  c.leave_one_out = fit.leave_one_out;
  return c;
}

// What the numbers of the profile are fitted to, and how good they are.
std::string basis_of(const Calibration& result, const ModelSpec& m) {
  std::string basis = "fitted by meshplan calibrate on " + today() + " to " +
                      std::to_string(result.runs.size()) +
                      (result.runs.size() == 1 ? " run of " : " runs of ") + m.name;
  std::set<std::string> frameworks;
  for (const CalibrationRun& run : result.runs) frameworks.insert(run.framework);
  basis += " (" + join_words(std::vector<std::string>(frameworks.begin(), frameworks.end())) + ")";
  return basis + (result.leave_one_out
                      ? ", leave-one-out error " + human_percent(*result.leave_one_out)
                      : ", one run: nothing to judge it by");
}

int write_calibration(const CalibrateFlags& flags, const Calibration& result,
                      const WorkloadInputs& in, const ClusterSpec& fitted) {
  if (!flags.out.empty()) {
    Diagnostics problems;
    const std::optional<std::string> text = readable_profile(fitted, problems);
    if (text) take(write_file_atomically(flags.out, *text), flags.out, problems);
    if (has_errors(problems)) return report_errors(problems, flags.common);
    log_info("wrote " + flags.out);
  }
  if (flags.common.json) {
    return write_result(calibration_document(kTool, result, *in.model, fitted), kExitOk);
  }
  return write_result(calibration_text(result, console_options()), kExitOk);
}

int calibrate(const CalibrateFlags& flags) {
  set_up_logging(flags.common);
  Diagnostics problems;
  const WorkloadInputs in = read_workload(flags.workload, problems);
  if (has_errors(problems)) return report_errors(problems, flags.common);
  const std::vector<Run> runs = read_runs(flags, in, problems);
  if (has_errors(problems)) return report_errors(problems, flags.common);

  std::vector<Precision> used;
  std::vector<Observation> observations;
  for (const Run& run : runs) {
    used.push_back(run.strategy.precision);
    // The median of n steps scatters less than one step does.
    const double noise = run.step.spread / std::sqrt(static_cast<double>(run.step.reports));
    observations.push_back({run.log.file, run.step.median.si(), noise});
  }
  const std::vector<ProfileParameter> parameters = profile_parameters(*in.cluster, used);
  std::vector<Parameter> plain;
  for (const ProfileParameter& p : parameters) plain.push_back(p.parameter);
  const Predictor predict = [&](std::span<const double> values) {
    std::vector<double> times;
    for (const Run& run : runs) {
      const ClusterSpec c = with_parameters(run.cluster, parameters, values);
      times.push_back(cost_of(*in.model, c, run.strategy).step_time.si());
    }
    return times;
  };
  const std::optional<Posterior> posterior =
      take(update_parameters(plain, observations, predict), "calibrate", problems);
  if (!posterior) return report_errors(problems, flags.common);
  const ParameterFit& fit = posterior->fit;
  const Calibration result = summarised(runs, *in.model, parameters, fit);
  // The profile keeps the cluster's whole size, whatever --gpus says of the runs.
  const std::optional<ClusterSpec> whole =
      take(load_cluster(flags.workload.cluster, DataFolders::standard()), "--cluster", problems);
  if (!whole) return report_errors(problems, flags.common);
  ClusterSpec fitted = documented(with_fitted(*whole, parameters, fit), result.parameters,
                                  basis_of(result, *in.model), "training logs");
  fitted.seen_runs = posterior->seen;
  return write_calibration(flags, result, in, fitted);
}

}  // namespace

void add_calibrate_command(CommandLine& program) {
  const auto flags = std::make_shared<CalibrateFlags>();
  Subcommand command = program.add_command(
      "calibrate", "Fit a profile to the logs of past training runs",
      "meshplan calibrate --model llama-2-7b --cluster dgx-a100-80gb --seq-len 4096 \\\n"
      "      --log run1.log --strategy tp=2,micro_batch=1 \\\n"
      "      --log run2.log --strategy tp=4,pp=2,micro_batch=1 --out fitted.yaml");
  add_workload_flags(command, flags->workload);
  command.add_repeated("--log", flags->logs, "FILE",
                       "A log of Megatron-LM, Megatron-Bridge, DeepSpeed, torchtitan or NeMo "
                       "(required, repeatable)");
  command.add_repeated(
      "--strategy", flags->strategies, "KEYS|FILE",
      "What the run did: key=value,... or a file of these keys; one for all logs, or "
      "one per log in their order (required)");
  command.add_value("--out", flags->out, "FILE", "Write the fitted cluster file here");
  command.add_common(flags->common);
  command.set_action([flags] { return calibrate(*flags); });
}

}  // namespace meshplan
