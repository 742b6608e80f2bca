#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "base/quantity.hpp"
#include "console.hpp"
#include "device_job.hpp"
#include "inputs.hpp"
#include "io/write.hpp"
#include "probe/agenda.hpp"
#include "report/bench.hpp"

namespace meshplan {
namespace {

struct BenchFlags {
  CommonFlags common;
  DeviceFlags device;
  std::string samples, budget = "120 s", largest = "1 GiB", repetitions = "20";
  std::vector<std::string> only;
  bool resume = false, dry_run = false;
};

struct BenchPlan {
  AgendaOptions agenda;
  BenchOptions run;
  SamplesFile before;
};

Seconds now() {
  return Seconds{
      std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count()};
}

std::optional<SamplesFile> read_before(const BenchFlags& flags, Diagnostics& problems) {
  if (!flags.resume) return SamplesFile{};
  if (flags.samples.empty()) {
    problems.push_back(error("--resume needs the file to continue", "give --samples FILE"));
    return std::nullopt;
  }
  std::error_code failure;
  if (!std::filesystem::exists(flags.samples, failure)) return SamplesFile{};
  const std::optional<std::string> text =
      take(read_text_file(flags.samples), flags.samples, problems);
  if (!text) return std::nullopt;
  return take(parse_samples(*text, flags.samples), flags.samples, problems);
}

BenchPlan read_plan(const BenchFlags& flags, Diagnostics& problems) {
  BenchPlan plan;
  plan.run.clock = now;
  plan.run.interrupted = wants_end;
  plan.run.measure.time_limit = Seconds{0.3};
  if (const auto budget = take(parse_time(flags.budget), "--budget", problems)) {
    plan.run.budget = *budget;
  }
  if (const auto largest = take(parse_bytes(flags.largest), "--largest", problems)) {
    plan.agenda.largest = *largest;
  }
  constexpr std::int64_t kMostRepetitions = 100'000;
  plan.run.measure.repetitions =
      read_count(flags.repetitions, "--repetitions", kMostRepetitions, problems);
  for (const std::string& name : flags.only) {
    plan.agenda.kinds.insert(read_name<OperationKind>(name, "--only", problems));
  }
  if (auto before = read_before(flags, problems)) plan.before = std::move(*before);
  return plan;
}

// One line that is written over and over; nothing unless a person watches.
void show_progress(const BenchFlags& flags, const BenchProgress& p) {
  if (flags.common.quiet || isatty(STDERR_FILENO) != 1) return;
  constexpr std::size_t kBar = 20;
  const double share =
      static_cast<double>(p.done) / static_cast<double>(std::max<std::size_t>(1, p.total));
  const std::string done = bar(share, kBar);
  const std::string text = "\r\x1b[K[" + done + std::string(kBar - done.size(), ' ') + "] " +
                           std::to_string(p.done) + "/" + std::to_string(p.total) + ", " +
                           fixed(p.left.si(), 0) + " s left: " + describe(*p.next).substr(0, 60);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

// What the shell expects of a program that Ctrl-C ended.
int end_by_signal(int otherwise) {
  if (!wants_end()) return otherwise;
  std::fflush(nullptr);
  std::signal(SIGINT, SIG_DFL);
  std::raise(SIGINT);
  return otherwise;
}

int report_outcome(const BenchFlags& flags, const BenchOutcome& outcome) {
  const bool kept = !flags.samples.empty() && !outcome.file.samples.empty();
  const std::string file = kept ? flags.samples : std::string();
  if (outcome.end == BenchEnd::kFailed) {
    const int code = report_device_errors(outcome.problems, flags.common);
    if (kept) {
      spdlog::info("{} samples are kept in {}; --resume continues", outcome.file.samples.size(),
                   flags.samples);
    }
    return code;
  }
  const bool wrong = wrong_results(outcome) > 0;
  const std::string text = flags.common.json ? bench_document(kTool, outcome, file)
                                             : bench_text(outcome, console_options());
  const int code = write_result(text, wrong ? kExitDevice : kExitOk);
  if (outcome.end == BenchEnd::kInterrupted) {
    if (kept) spdlog::info("interrupted; --resume continues with {}", flags.samples);
    return end_by_signal(kExitDevice);
  }
  return code;
}

int lead(const BenchFlags& flags, const BenchPlan& plan, Backend& backend) {
  const std::vector<Operation> all = agenda(backend.machine(), plan.agenda);
  if (flags.dry_run) {
    return write_result(agenda_text(backend.machine(), all, console_options()), kExitOk);
  }
  if (all.empty()) {
    return report_errors({error("there is nothing to measure with one rank and no GPU",
                                "start more ranks, for example mpirun -n 2 meshplan bench")},
                         flags.common);
  }
  if (!plan.before.samples.empty()) {
    if (const auto reason = why_not_resume(plan.before.machine, backend.machine())) {
      return report_errors({error_at({flags.samples}, "cannot be continued here: " + *reason,
                                     "leave --resume out, or name another file")},
                           flags.common);
    }
  }
  BenchEvents events;
  events.progress = [&flags](const BenchProgress& p) { show_progress(flags, p); };
  events.keep = [&flags](const SamplesFile& f) -> Result<bool> {
    if (flags.samples.empty()) return true;
    const Result<Written> written = write_file_atomically(flags.samples, samples_text(f));
    if (!written) return written.errors();
    return true;
  };
  const BenchOutcome outcome = run_bench(backend, all, plan.before, plan.run, events);
  clear_progress_bar(flags.common);
  return report_outcome(flags, outcome);
}

int bench(const BenchFlags& flags) {
  set_up_logging(flags.common);
  Diagnostics problems;
  const BenchPlan plan = read_plan(flags, problems);
  if (has_errors(problems)) {
    return is_first_rank() ? report_errors(problems, flags.common) : kExitBadInput;
  }
  return run_on_devices(flags.device, flags.common, "bench --timeout " + flags.device.timeout,
                        [&](Backend& backend) { return lead(flags, plan, backend); });
}

void add_bench_flags(CLI::App& command, BenchFlags& flags) {
  command
      .add_option("--samples", flags.samples,
                  "Keep the raw measurements here, as JSON lines, from the first one on")
      ->type_name("FILE");
  command.add_flag("--resume", flags.resume, "Continue what --samples already holds");
  command.add_option("--budget", flags.budget, "Stop measuring after this time")->type_name("TIME");
  command.add_option("--largest", flags.largest, "Largest message")->type_name("SIZE");
  command
      .add_option("--repetitions", flags.repetitions,
                  "Times that are taken of each operation, where it is quick enough")
      ->type_name("N");
  command.add_option("--only", flags.only, "Measure these alone: " + choices_text<OperationKind>())
      ->delimiter(',')
      ->type_name("KINDS");
  command.add_flag("--dry-run", flags.dry_run, "Say what would be measured, and measure nothing");
}

}  // namespace

void add_bench_command(CLI::App& app, Action& action) {
  const auto flags = std::make_shared<BenchFlags>();
  CLI::App* command =
      add_command(app, "bench", "Measure this machine or cluster",
                  "mpirun -n 2 meshplan bench --backend mpi --samples samples.jsonl");
  add_bench_flags(*command, *flags);
  add_device_flags(*command, flags->device);
  add_common_flags(*command, flags->common);
  command->callback([flags, &action] { action = [flags] { return bench(*flags); }; });
}

}  // namespace meshplan
