#include <algorithm>
#include <memory>

#include "base/text.hpp"
#include "compare/comparison.hpp"
#include "compare/kineto.hpp"
#include "compare/nsys.hpp"
#include "console.hpp"
#include "cost/step.hpp"
#include "io/write.hpp"
#include "launch/import_account.hpp"
#include "launch/log_arguments.hpp"
#include "learnt_profile.hpp"
#include "like_runs.hpp"
#include "log.hpp"
#include "logged_run.hpp"
#include "profile_output.hpp"
#include "read_run.hpp"
#include "report/comparison.hpp"
#include "report/comparison_html.hpp"
#include "report/detail.hpp"

namespace meshplan {
namespace {

struct CompareFlags {
  CommonFlags common;
  WorkloadFlags workload;
  OpenFlags open;  // of scripts and printed arguments
  std::vector<std::string> logs, traces, strategies, scripts;
  std::string memory, update_profile, html;
};

// What a run is known from.
struct KnownRun {
  LoggedRun run;
  std::string read_from;
  std::vector<std::string> notes;
};

void check_flags(const CompareFlags& flags, Diagnostics& problems) {
  if (flags.logs.empty() && flags.traces.empty()) {
    problems.push_back(
        error("--log and --trace are missing", "give the log of a training run, or its traces"));
  }
  if (flags.logs.size() > 1 && (!flags.traces.empty() || !flags.memory.empty())) {
    problems.push_back(error("--trace and --memory are of one run, and there are several logs",
                             "give the log of the run that was traced"));
  }
  if (flags.logs.empty() && flags.strategies.empty() && flags.scripts.empty()) {
    problems.push_back(
        error("nothing says what was traced", "give --log, --script, or --model and --strategy"));
  }
  if (flags.workload.cluster.empty()) {
    problems.push_back(
        error("--cluster is missing", "'meshplan list clusters' shows the shipped clusters"));
  }
  const std::size_t given = flags.strategies.size();
  if (given > 0 && !flags.scripts.empty()) {
    problems.push_back(
        error("--strategy and --script both say what the run did", "leave one of them out"));
  }
  if (given > 1 && given != flags.logs.size()) {
    problems.push_back(error("there are " + std::to_string(flags.logs.size()) + " logs and " +
                                 std::to_string(given) + " strategies",
                             "give one --strategy for all logs, or one per --log in their order"));
  }
  if (given > 0 && flags.workload.model.empty()) {
    problems.push_back(
        error("--model is missing", "--strategy says how the work is split, not of which model"));
  }
  const auto only_with = [&](bool is_given, const std::string& flag, bool with_strategy) {
    if (!is_given || with_strategy == (given > 0)) return;
    problems.push_back(with_strategy ? error(flag + " needs --strategy",
                                             "else the log or the script says what ran")
                                     : error(flag + " is for logs and scripts that say what ran",
                                             "--strategy says it here"));
  };
  only_with(!flags.workload.global_batch.empty(), "--global-batch", true);
  only_with(!flags.workload.framework.empty(), "--framework", true);
  only_with(!flags.open.release.empty(), "--release", false);
  only_with(flags.open.lenient, "--lenient", false);
}

// A run that files or a log describe, on the cluster.
std::optional<KnownRun> run_of_files(const CompareFlags& flags, LogFile log, LoadedRun loaded,
                                     const std::string& source, std::string read_from,
                                     Diagnostics& problems) {
  ImportedRun& imported = loaded.run();
  if (!flags.workload.model.empty() && imported.target == Target::kMegatron) {
    const auto model =
        take(load_model(flags.workload.model, DataFolders::standard()), "--model", problems);
    if (model) imported.model = *model;
    read_from += "; the model by --model";
  }
  append(problems, validate(imported, source));
  std::optional<ClusterSpec> cluster =
      take(load_cluster(flags.workload.cluster, DataFolders::standard()), "--cluster", problems);
  if (!imported.knows_model) {
    problems.push_back(error_at({source}, "does not say which model is trained", "give --model"));
  }
  if (has_errors(problems)) return std::nullopt;
  const std::int64_t world = imported.world_size > 0 ? imported.world_size : log.log.gpus;
  if (world == 0) {
    problems.push_back(
        error_at({source}, "does not say how many GPUs the run has", "give --gpus N"));
    return std::nullopt;
  }
  resize(*cluster, world, problems);
  if (has_errors(problems)) return std::nullopt;
  const Strategy s = with_world(imported, world);
  std::optional<LoggedRun> run =
      completed_run(std::move(log), imported.model, s, *cluster, source, problems);
  if (!run) return std::nullopt;
  KnownRun known{*std::move(run), std::move(read_from), imported.notes};
  for (const std::string& text : left_out_texts(imported)) {
    known.notes.push_back("not modelled: " + text);
  }
  for (const std::string& text : assumed_texts(imported)) known.notes.push_back("assumed: " + text);
  return known;
}

// Flags that say the model to a reader that does not take it from its files.
OpenFlags open_flags(const CompareFlags& flags, bool knows_model) {
  OpenFlags open = flags.open;
  open.gpus = flags.workload.gpus;
  open.seq_len = flags.workload.seq_len;
  if (!knows_model) open.model = flags.workload.model;
  return open;
}

std::optional<KnownRun> run_of_log(const CompareFlags& flags, LogFile log, Diagnostics& problems) {
  const std::string file = log.log.file;
  const Result<std::optional<PrintedArguments>> read = printed_arguments(log.text, file);
  if (!read) {
    append(problems, read.errors());
    return std::nullopt;
  }
  const std::optional<PrintedArguments>& printed = *read;
  if (!printed) {
    problems.push_back(error_at({file}, "the log does not print the run's arguments",
                                "give --script FILE, or --model and --strategy"));
    return std::nullopt;
  }
  OpenFlags open = open_flags(flags, printed->target == Target::kMegatron);
  if (open.gpus.empty() && printed->gpus > 0) open.gpus = std::to_string(printed->gpus);
  if (open.gpus.empty() && log.log.gpus > 0) open.gpus = std::to_string(log.log.gpus);
  std::optional<LoadedRun> loaded =
      read_run_texts(printed->files, printed->target, open, file, problems);
  if (!loaded) return std::nullopt;
  std::optional<KnownRun> known =
      run_of_files(flags, std::move(log), *std::move(loaded), file,
                   "from the arguments that " + printed->program + " prints in the log, line " +
                       std::to_string(printed->line),
                   problems);
  if (known && !printed->unknown.empty()) {
    known->notes.push_back("switches that are not known, and left out: " +
                           join_words(printed->unknown));
  }
  return known;
}

// Of a run without a log: what its traces say.
LogFile no_log(const std::vector<DeviceTrace>& traces) {
  LogFile none;
  none.log.file = traces.front().file;
  none.log.gpus = traces.front().world;
  return none;
}

std::optional<KnownRun> read_known(const CompareFlags& flags, std::optional<LogFile> log,
                                   std::size_t i, Diagnostics& problems) {
  if (!log) return std::nullopt;
  if (!flags.strategies.empty()) {
    const WorkloadInputs in = read_workload(flags.workload, problems);
    if (has_errors(problems)) return std::nullopt;
    const std::string& strategy = flags.strategies[flags.strategies.size() == 1 ? 0 : i];
    std::optional<LoggedRun> run =
        run_of_flags(*std::move(log), flags.workload, strategy, in, problems);
    if (!run) return std::nullopt;
    return KnownRun{*std::move(run), "from --model and --strategy", {}};
  }
  if (flags.scripts.empty()) return run_of_log(flags, *std::move(log), problems);
  // A script of Megatron-LM describes its model; others may not.
  Diagnostics first;
  std::optional<LoadedRun> loaded =
      read_run(flags.scripts, std::nullopt, open_flags(flags, true), first);
  if (!loaded && !flags.workload.model.empty()) {
    loaded = read_run(flags.scripts, std::nullopt, open_flags(flags, false), problems);
  } else {
    append(problems, first);
  }
  if (!loaded) return std::nullopt;
  return run_of_files(flags, *std::move(log), *std::move(loaded), flags.scripts.front(),
                      "from " + join_words(flags.scripts), problems);
}

// What the log says of the step, into `result`.
void add_log(const LoggedRun& run, ComparedRun& result, std::vector<MeasuredTerm>& measured,
             Diagnostics& problems) {
  const Strategy& s = run.strategy;
  result.framework = std::string(name_of(run.log.kind));
  result.steps =
      take(steady_steps(run.log, s.global_batch, s.seq_len, num_gpus(s)), run.log.file, problems);
  const std::vector<MeasuredTerm> timed = terms_of(parse_log_timers(run.text));
  if (timed.empty()) {
    result.notes.emplace_back(
        "the log has no timers: Megatron-LM prints them with --timing-log-level 2, DeepSpeed with "
        "\"wall_clock_breakdown\": true");
  }
  measured.insert(measured.end(), timed.begin(), timed.end());
  if (result.steps && result.steps->outliers > 0) {
    measured.push_back(
        {StepTerm::kStalls, {result.steps->stalls, result.steps->stalls}, "outliers"});
  }
}

std::optional<ComparedRun> compared(KnownRun known, const std::vector<DeviceTrace>& traces,
                                    Diagnostics& problems) {
  const LoggedRun& run = known.run;
  PlanCost predicted = cost_of(run.model, run.cluster, run.strategy);
  add_like_runs(run.model, run.cluster, predicted);
  ComparedRun result{.file = run.log.file,
                     .framework = {},
                     .read_from = std::move(known.read_from),
                     .model = run.model,
                     .cluster = run.cluster,
                     .predicted = std::move(predicted),
                     .steps = {},
                     .allocated = run.log.max_allocated,
                     .reserved = run.log.max_reserved,
                     .terms = {},
                     .trace = {},
                     .memory = {},
                     .losses = {},
                     .notes = std::move(known.notes)};
  std::vector<MeasuredTerm> measured;
  if (!traces.empty()) {
    result.trace = compared_traces(traces, run.model, run.cluster, result.predicted);
    result.losses = losses_of(*result.trace, run.model, run.cluster, result.predicted);
    measured = result.trace->terms;
  }
  if (!run.log.reports.empty()) add_log(run, result, measured, problems);
  if (!(result.measured_step().si() > 0)) {
    problems.push_back(error_at({result.file}, "takes no time: no step can be compared"));
  }
  if (has_errors(problems)) return std::nullopt;
  result.terms = compared_terms(result.predicted, measured);
  // Traces tell causes, the timers of a log where time is lost.
  if (!result.trace || result.trace->classes.empty()) {
    result.losses =
        log_losses_of(measured, result.measured_step(), run.model, run.cluster, result.predicted);
  }
  return result;
}

// A snapshot may be larger than any text that is read, and gzipped.
std::optional<MemoryMeasure> read_memory(const std::string& file, Diagnostics& problems) {
  constexpr std::size_t kLargest = std::size_t{1} << 30;
  std::optional<ByteStream> stream = take(ByteStream::open(file), file, problems);
  if (!stream) return std::nullopt;
  std::string bytes;
  for (std::string_view block = stream->next(); !block.empty(); block = stream->next()) {
    bytes += block;
    if (bytes.size() <= kLargest) continue;
    problems.push_back(error_at({file}, "larger than 1 GiB",
                                "give a snapshot of fewer events: "
                                "_record_memory_history(max_entries=...)"));
    return std::nullopt;
  }
  if (!stream->problem().empty()) log_warning(file + ": " + stream->problem());
  return take(parse_memory(bytes, file), file, problems);
}

std::vector<DeviceTrace> read_traces(const CompareFlags& flags, Diagnostics& problems) {
  std::vector<DeviceTrace> all;
  for (const std::string& file : flags.traces) {
    std::optional<std::vector<DeviceTrace>> traces;
    if (is_sqlite(file)) {
      traces = take(read_nsys(file), file, problems);
    } else if (auto bytes = take(ByteStream::open(file), file, problems)) {
      traces = take(read_chrome_trace(*std::move(bytes), file), file, problems);
    }
    if (!traces) continue;
    for (DeviceTrace& trace : *traces) {
      for (const std::string& note : trace.notes) log_warning(file + ": " + note);
      all.push_back(std::move(trace));
    }
  }
  return all;
}

// Writes the profile; its parameters, learnt or not.
std::vector<CalibrationParameter> update_profile(const CompareFlags& flags,
                                                 const std::vector<ComparedRun>& runs,
                                                 Diagnostics& problems) {
  // The profile keeps the cluster's whole size, whatever the runs had of it.
  const std::optional<ClusterSpec> whole =
      take(load_cluster(flags.workload.cluster, DataFolders::standard()), "--cluster", problems);
  if (!whole) return {};
  std::optional<LearntProfile> learnt = learnt_profile(runs, *whole, problems);
  if (!learnt) return {};
  const std::optional<std::string> text = readable_profile(learnt->cluster, problems);
  if (text) take(write_file_atomically(flags.update_profile, *text), "--update-profile", problems);
  if (!has_errors(problems)) log_info("wrote " + flags.update_profile);
  return std::move(learnt->parameters);
}

void write_html(const std::string& path, const std::vector<ComparedRun>& runs,
                Diagnostics& problems) {
  std::vector<std::optional<StepTimeline>> timelines;
  for (const ComparedRun& run : runs) {
    timelines.push_back(timeline_of(run.model, run.cluster, run.predicted.strategy));
  }
  take(write_file_atomically(path, comparison_html(runs, timelines)), "--html", problems);
  if (!has_errors(problems)) log_info("wrote " + path);
}

int compare(const CompareFlags& flags) {
  set_up_logging(flags.common);
  Diagnostics problems;
  check_flags(flags, problems);
  if (has_errors(problems)) return report_errors(problems, flags.common);
  const std::vector<DeviceTrace> traces = read_traces(flags, problems);
  std::optional<MemoryMeasure> memory;
  if (!flags.memory.empty()) memory = read_memory(flags.memory, problems);
  if (has_errors(problems)) return report_errors(problems, flags.common);
  std::vector<ComparedRun> runs;
  for (std::size_t i = 0; i < std::max<std::size_t>(flags.logs.size(), 1); ++i) {
    std::optional<LogFile> log =
        flags.logs.empty() ? no_log(traces) : read_log(flags.logs[i], problems);
    std::optional<KnownRun> known = read_known(flags, std::move(log), i, problems);
    if (!known || has_errors(problems)) continue;
    std::optional<ComparedRun> run = compared(*std::move(known), traces, problems);
    if (!run) continue;
    if (memory) run->memory = memory;
    runs.push_back(*std::move(run));
  }
  std::vector<CalibrationParameter> learnt;
  if (!has_errors(problems) && !flags.update_profile.empty()) {
    learnt = update_profile(flags, runs, problems);
  }
  if (!has_errors(problems) && !flags.html.empty()) write_html(flags.html, runs, problems);
  if (has_errors(problems)) return report_errors(problems, flags.common);
  if (flags.common.json) return write_result(comparison_document(kTool, runs, learnt), kExitOk);
  return write_result(comparison_text(runs, learnt, console_options()), kExitOk);
}

}  // namespace

void add_compare_command(CommandLine& program) {
  const auto flags = std::make_shared<CompareFlags>();
  Subcommand command = program.add_command(
      "compare", "Measured runs beside their predictions, term by term",
      "meshplan compare --log train.log --trace rank0.json.gz --cluster dgx-h100");
  command.add_repeated(
      "--log", flags->logs, "FILE",
      "A log of Megatron-LM, Megatron-Bridge, DeepSpeed, torchtitan or NeMo (repeatable)");
  command.add_repeated("--trace", flags->traces, "FILE",
                       "A trace of PyTorch's profiler, plain or gzipped, one file per rank "
                       "(repeatable); an SQLite export of Nsight Systems; or a trace of "
                       "'meshplan report'");
  command.add_value("--memory", flags->memory, "FILE",
                    "What a rank says of its memory: a snapshot of torch.cuda.memory, what "
                    "memory_stats() or memory_summary() return, or an out-of-memory message");
  command.add_value("--cluster", flags->workload.cluster, "NAME|FILE",
                    "Cluster: a shipped name or a cluster file (required)");
  command.add_values("--script", flags->scripts, "FILE",
                     "The files that started the run, where the log does not print its arguments");
  command.add_repeated("--strategy", flags->strategies, "KEYS|FILE",
                       "What the run did, with --model, where neither the log nor a script says "
                       "it; one for all logs, or one per log");
  command.add_value("--model", flags->workload.model, "NAME|FILE",
                    "The model, where the log does not describe it");
  command.add_value("--gpus", flags->workload.gpus, "N",
                    "GPUs of the run, where neither log nor script says it");
  command.add_value("--update-profile", flags->update_profile, "FILE",
                    "Write the cluster file here with what the runs teach of its rates, as "
                    "calibrate does");
  command.add_value("--html", flags->html, "FILE",
                    "Write charts: the measured step above the predicted one, and the differences; "
                    "one HTML file that opens offline");
  command.add_value("--global-batch", flags->workload.global_batch, "N",
                    "Sequences per step, with --strategy");
  command.add_value("--seq-len", flags->workload.seq_len, "N",
                    "Tokens per sequence, with --strategy and for DeepSpeed's files");
  command.add_value("--framework", flags->workload.framework, "NAME",
                    "Preset of overlaps, data types and kernels, with --strategy");
  command.add_value("--release", flags->open.release, "NAME|DATE",
                    "Release of Megatron-LM that ran; default: the newest");
  command.add_switch("--lenient", flags->open.lenient,
                     "Go on where an option of a script is not known");
  command.add_common(flags->common);
  command.set_action([flags] { return compare(*flags); });
}

}  // namespace meshplan
