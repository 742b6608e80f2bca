#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>

#include "base/quantity.hpp"
#include "bench_profile.hpp"
#include "console.hpp"
#include "device_job.hpp"
#include "inputs.hpp"
#include "io/write.hpp"
#include "log.hpp"
#include "probe/agenda.hpp"
#include "report/bench.hpp"

namespace meshplan {
namespace {

struct BenchFlags {
  CommonFlags common;
  DeviceFlags device;
  ProfileFlags profile;
  std::string samples, budget = "120 s", largest = "1 GiB", repetitions = "20";
  std::string steady = "1 s";
  std::vector<std::string> only;
  bool resume = false, dry_run = false;
};

struct BenchPlan {
  AgendaOptions agenda;
  BenchOptions run;
  SamplesFile before;
  std::string samples;  // where raw measurements are kept; empty: nowhere
};

// Beside the profile where no other file is named: cluster.yaml, cluster.samples.jsonl.
std::string samples_file(const BenchFlags& flags) {
  if (!flags.samples.empty() || flags.profile.out.empty()) return flags.samples;
  std::filesystem::path beside = flags.profile.out;
  return beside.replace_extension(".samples.jsonl").string();
}

Seconds now() {
  return Seconds{
      std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count()};
}

std::optional<SamplesFile> read_before(const BenchFlags& flags, const std::string& file,
                                       Diagnostics& problems) {
  if (!flags.resume) return SamplesFile{};
  if (file.empty()) {
    problems.push_back(
        error("--resume needs the file to continue", "give --samples FILE or --out FILE"));
    return std::nullopt;
  }
  std::error_code failure;
  if (!std::filesystem::exists(file, failure)) return SamplesFile{};
  const std::optional<std::string> text = take(read_text_file(file), file, problems);
  if (!text) return std::nullopt;
  return take(parse_samples(*text, file), file, problems);
}

void check_profile_flags(const ProfileFlags& flags, Diagnostics& problems) {
  if (!flags.cluster.empty() && !makes_profile(flags)) {
    problems.push_back(error("--cluster describes the profile's machine, and no profile is made",
                             "give --out FILE, --device-out FOLDER or --compare FILE"));
  }
  if (!flags.operation.empty() && flags.compare.empty()) {
    problems.push_back(error("--operation is for logs of --compare, and none is given"));
  }
}

BenchPlan read_plan(const BenchFlags& flags, Diagnostics& problems) {
  BenchPlan plan;
  plan.run.clock = now;
  plan.run.interrupted = wants_end;
  plan.run.measure.time_limit = Seconds{0.3};
  if (const auto budget = take(parse_time(flags.budget), "--budget", problems)) {
    plan.run.budget = *budget;
  }
  if (const auto steady = take(parse_time(flags.steady), "--steady", problems)) {
    if (*steady > Seconds{0}) plan.run.measure.steady = SteadyLimits{*steady, *steady * 2};
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
  check_profile_flags(flags.profile, problems);
  plan.samples = samples_file(flags);
  if (auto before = read_before(flags, plan.samples, problems)) plan.before = std::move(*before);
  return plan;
}

void show_progress(const BenchFlags& flags, const BenchProgress& p) {
  const double share =
      static_cast<double>(p.done) / static_cast<double>(std::max<std::size_t>(1, p.total));
  show_measuring(flags.common, share,
                 std::to_string(p.done) + "/" + std::to_string(p.total) + ", " +
                     fixed(p.left.si(), 0) + " s left: " + describe(*p.next).substr(0, 60));
}

// What the shell expects of a program that Ctrl-C ended.
int end_by_signal(int otherwise) {
  if (!wants_end()) return otherwise;
  std::fflush(nullptr);
  std::signal(SIGINT, SIG_DFL);
  std::raise(SIGINT);
  return otherwise;
}

// Where a run stopped early, what it kept.
void say_kept(const BenchOutcome& outcome, const std::string& kept, const char* why) {
  if (kept.empty()) return;
  log_info(why + std::to_string(outcome.file.samples.size()) + " samples are kept in " + kept +
           "; --resume continues");
}

// The error goes first: a launcher may end this process any moment now.
int report_failure(const BenchFlags& flags, const std::optional<ProfileInputs>& inputs,
                   const BenchOutcome& outcome, const std::string& kept) {
  const int code = report_device_errors(outcome.problems, flags.common);
  say_kept(outcome, kept, "");
  if (!inputs || kept.empty()) return code;
  Diagnostics unfit;
  const auto profile = make_profile(flags.profile, *inputs, outcome.file, kept, unfit);
  if (profile && !profile->file.empty()) {
    log_info(profile->file + " holds what they determine");
  }
  return code;
}

int report_outcome(const BenchFlags& flags, const BenchPlan& plan,
                   const std::optional<ProfileInputs>& inputs, const BenchOutcome& outcome) {
  const std::string kept = outcome.file.samples.empty() ? std::string() : plan.samples;
  if (outcome.end == BenchEnd::kFailed) return report_failure(flags, inputs, outcome, kept);
  Diagnostics unfit;
  std::optional<BenchProfileReport> profile;
  if (inputs) profile = make_profile(flags.profile, *inputs, outcome.file, kept, unfit);
  std::string text;
  if (flags.common.json) {
    text = bench_document(kTool, outcome, kept, profile ? &*profile : nullptr);
  } else {
    text = bench_text(outcome, console_options());
    if (profile) text += profile_report_text(*profile, console_options());
  }
  const bool wrong = wrong_results(outcome) > 0;
  const int code = write_result(text, wrong ? kExitDevice : kExitOk);
  // The result stands on standard output already: these go beside it.
  std::fputs(to_text(unfit).c_str(), stderr);
  if (outcome.end == BenchEnd::kOutOfTime) say_kept(outcome, kept, "");
  if (outcome.end == BenchEnd::kInterrupted) {
    say_kept(outcome, kept, "interrupted; ");
    return end_by_signal(kExitDevice);
  }
  return unfit.empty() || code != kExitOk ? code : kExitBadInput;
}

// Samples reach the disk one by one, the profile every few seconds: whatever ends this process,
// both are there.
class Keeper {
 public:
  Keeper(const BenchFlags& flags, const BenchPlan& plan, const std::optional<ProfileInputs>& inputs)
      : flags_(flags), plan_(plan), inputs_(inputs) {}

  Result<bool> keep(const SamplesFile& file) {
    if (plan_.samples.empty()) return true;
    const Result<Written> written = write_file_atomically(plan_.samples, samples_text(file));
    if (!written) return written.errors();
    const Seconds moment = now();
    if (!inputs_ || flags_.profile.out.empty() || moment - last_ < kPause) return true;
    last_ = moment;
    Diagnostics too_few;  // for a profile, so far
    static_cast<void>(make_profile(flags_.profile, *inputs_, file, plan_.samples, too_few));
    return true;
  }

 private:
  static constexpr Seconds kPause{5};
  const BenchFlags& flags_;
  const BenchPlan& plan_;
  const std::optional<ProfileInputs>& inputs_;
  Seconds last_ = now();
};

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
      return report_errors({error_at({plan.samples}, "cannot be continued here: " + *reason,
                                     "leave --resume out, or name another file")},
                           flags.common);
    }
  }
  Diagnostics problems;
  const auto inputs = read_profile_inputs(flags.profile, backend.machine(), problems);
  if (has_errors(problems)) return report_errors(problems, flags.common);
  BenchEvents events;
  events.progress = [&flags](const BenchProgress& p) { show_progress(flags, p); };
  Keeper keeper(flags, plan, inputs);
  events.keep = [&keeper](const SamplesFile& f) { return keeper.keep(f); };
  const BenchOutcome outcome = run_bench(backend, all, plan.before, plan.run, events);
  clear_progress_bar(flags.common);
  return report_outcome(flags, plan, inputs, outcome);
}

int bench(const BenchFlags& flags) {
  set_up_logging(flags.common);
  Diagnostics problems;
  const BenchPlan plan = read_plan(flags, problems);
  if (has_errors(problems)) {
    return is_first_rank() ? report_errors(problems, flags.common) : kExitBadInput;
  }
  return run_on_devices(flags.device, flags.common, "bench --timeout " + flags.device.timeout,
                        profile_fingerprint(flags.profile),
                        [&](Backend& backend) { return lead(flags, plan, backend); });
}

void add_bench_flags(Subcommand& command, BenchFlags& flags) {
  add_profile_flags(command, flags.profile);
  command.add_value("--samples", flags.samples, "FILE",
                    "Keep the raw measurements here, as JSON lines, from the first one on");
  command.add_switch("--resume", flags.resume, "Continue what --samples (or --out) already holds");
  command.add_value("--budget", flags.budget, "TIME", "Stop measuring after this time");
  command.add_value("--largest", flags.largest, "SIZE", "Largest message");
  command.add_value("--repetitions", flags.repetitions, "N",
                    "Times that are taken of each operation, where it is quick enough");
  command.add_value(
      "--steady", flags.steady, "TIME",
      "Run large products and attention for so long, and twice as long where their rate "
      "has not settled, so that the power limit shows; 0 s: do not");
  command.add_comma_list("--only", flags.only, "KINDS",
                         "Measure these alone: " + choices_text<OperationKind>());
  command.add_switch("--dry-run", flags.dry_run, "Say what would be measured, and measure nothing");
}

}  // namespace

void add_bench_command(CommandLine& program) {
  const auto flags = std::make_shared<BenchFlags>();
  Subcommand command =
      program.add_command("bench", "Measure this machine or cluster and write its profile",
                          "mpirun -n 2 meshplan bench --backend mpi --out here.yaml");
  add_bench_flags(command, *flags);
  add_device_flags(command, flags->device);
  command.add_common(flags->common);
  command.set_action([flags] { return bench(*flags); });
}

}  // namespace meshplan
