#include <array>
#include <cmath>
#include <memory>

#include "base/quantity.hpp"
#include "console.hpp"
#include "cost/step.hpp"
#include "device_job.hpp"
#include "inputs.hpp"
#include "io/plans_file.hpp"
#include "io/write.hpp"
#include "log.hpp"
#include "profile_output.hpp"
#include "report/validation.hpp"
#include "validate/profile.hpp"
#include "validate/validate.hpp"

namespace meshplan {
namespace {

constexpr std::int64_t kMostRepetitions = 100'000;

struct ValidateFlags {
  CommonFlags common;
  DeviceFlags device;
  std::string plans, top = "3", tolerance = "15%", budget = "120 s", repetitions = "20", profile;
  bool dry_run = false;
};

struct ValidateInputs {
  PlansFile file;
  ValidateRequest request;
};

// "15%", "15 %" or "0.15".
Result<double> parse_tolerance(std::string text) {
  const bool percent = text.ends_with('%');
  if (percent) text.pop_back();
  const Result<double> value = parse_real(text);
  if (!value) return value.errors();
  const double share = percent ? *value / 100 : *value;
  if (share >= 0 && share <= 10) return share;
  return error("must be from 0 % to 1000 %", "for example 15%");
}

// The first plans of the file, and which of them are not predicted as they were.
void read_plans(const ValidateFlags& flags, ValidateInputs& in, Diagnostics& problems) {
  const auto top = static_cast<std::size_t>(read_count(flags.top, "--top", kMostPlans, problems));
  if (flags.plans.empty()) {
    problems.push_back(error("--plans is missing", "write one with 'meshplan plan --out DIR'"));
    return;
  }
  std::optional<PlansFile> file = take(load_plans(flags.plans), flags.plans, problems);
  if (!file) return;
  in.file = std::move(*file);
  if (in.file.plans.empty()) {
    problems.push_back(error_at({flags.plans}, "no plan is in it: nothing fitted"));
  }
  for (std::size_t i = 0; i < std::min(top, in.file.plans.size()); ++i) {
    in.request.plans.push_back({in.file.plans[i].rank, in.file.plans[i].strategy});
  }
}

ValidateInputs read_inputs(const ValidateFlags& flags, Diagnostics& problems) {
  ValidateInputs in;
  read_plans(flags, in, problems);
  if (const auto share = take(parse_tolerance(flags.tolerance), "--tolerance", problems)) {
    in.request.tolerance = *share;
  }
  if (const auto budget = take(parse_time(flags.budget), "--budget", problems)) {
    in.request.budget = *budget;
  }
  in.request.measure.repetitions =
      read_count(flags.repetitions, "--repetitions", kMostRepetitions, problems);
  in.request.measure.steady = SteadyLimits{Seconds{0.5}, Seconds{1.0}};
  in.request.interrupted = wants_end;
  return in;
}

std::string four_digits(Seconds t) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", t.si());
  return text.data();
}

void warn_of_old_predictions(const PlansFile& file, std::size_t plans) {
  constexpr double kRounding = 1e-6;
  for (std::size_t i = 0; i < std::min(plans, file.plans.size()); ++i) {
    const SavedPlan& saved = file.plans[i];
    const Seconds now = cost_of(file.model, file.cluster, saved.strategy).step_time;
    if (std::abs(now / saved.step_time - 1) <= kRounding) continue;
    log_warning("plan " + std::to_string(saved.rank) + " was predicted by version " +
                file.tool_version + ", this one says " + four_digits(now) + " s instead of " +
                four_digits(saved.step_time) + " s");
  }
}

void show_progress(const ValidateFlags& flags, double share, const Operation& next) {
  constexpr std::size_t kText = 50;
  show_measuring(flags.common, share,
                 fixed(100 * share, 0) + " % " + describe(next).substr(0, kText));
}

Diagnostics write_profile(const ValidateFlags& flags, const ValidateInputs& in,
                          const Validation& v) {
  Diagnostics problems;
  const auto text = readable_profile(with_measurements(in.file.cluster, v), problems);
  if (text) take(write_file_atomically(flags.profile, *text), "--update-profile", problems);
  if (!has_errors(problems)) log_info("wrote " + flags.profile);
  return problems;
}

// What was measured is shown even if the machine failed on the way, or no profile can be made of
// it.
int show(const ValidateFlags& flags, const ValidateInputs& in, const Machine& machine,
         const Validation& v) {
  const bool failed = !v.failures.empty() || v.samples == 0;
  if (failed) {
    const std::string text = to_text(v.failures);
    std::fwrite(text.data(), 1, text.size(), stderr);
    if (v.samples == 0) log_error("nothing of these plans was measured here");
  }
  Diagnostics unwritten;
  if (!flags.profile.empty() && v.samples > 0) unwritten = write_profile(flags, in, v);
  int code = v.within_tolerance() ? kExitOk : kExitNoPlan;
  if (!unwritten.empty()) code = kExitBadInput;
  if (failed) code = kExitDevice;
  const ValidationTextOptions what{.every_operation = flags.common.verbose};
  code = write_result(flags.common.json
                          ? validation_document(kTool, in.file.model, in.file.cluster, machine, v)
                          : validation_text(in.file.model, machine, v, what, console_options()),
                      code);
  std::fputs(to_text(unwritten).c_str(), stderr);
  return code;
}

int lead(const ValidateFlags& flags, const ValidateInputs& in, Backend& backend) {
  if (flags.dry_run) {
    const Validation v = outline(in.file.model, in.file.cluster, in.request, backend);
    return write_result(validation_agenda_text(backend.machine(), v, console_options()), kExitOk);
  }
  warn_of_old_predictions(in.file, in.request.plans.size());
  const Validation v = validate_plans(
      in.file.model, in.file.cluster, in.request, backend,
      [&flags](double share, const Operation& next) { show_progress(flags, share, next); });
  clear_progress_bar(flags.common);
  return show(flags, in, backend.machine(), v);
}

int validate(const ValidateFlags& flags) {
  set_up_logging(flags.common);
  Diagnostics problems;
  // The other ranks follow, whatever the plans are.
  const bool first = is_first_rank();
  const ValidateInputs in = first ? read_inputs(flags, problems) : ValidateInputs{};
  if (has_errors(problems)) return report_errors(problems, flags.common);
  const Result<std::string> text = read_text_file(flags.plans);
  return run_on_devices(flags.device, flags.common, "validate",
                        text.ok() ? fingerprint(*text) : std::string(),
                        [&](Backend& backend) { return lead(flags, in, backend); });
}

void add_validate_flags(Subcommand& command, ValidateFlags& flags) {
  command.add_value("--plans", flags.plans, "FILE",
                    "The plans: plans.json of 'plan --out', or what --json printed (required)");
  command.add_value("--top", flags.top, "K", "Plans to validate, the best first (default 3)");
  command.add_value("--tolerance", flags.tolerance, "SHARE",
                    "Exit with 1 if a step time is off by more (default 15%)");
  command.add_value("--budget", flags.budget, "TIME", "Start no measurement after this time");
  command.add_value("--repetitions", flags.repetitions, "N",
                    "Times that are taken of each operation, where it is quick enough");
  command.add_value("--update-profile", flags.profile, "FILE",
                    "Write the cluster with what was measured to this file, for --cluster");
  command.add_switch("--dry-run", flags.dry_run, "Say what would be measured, and measure nothing");
}

}  // namespace

void add_validate_command(CommandLine& program) {
  const auto flags = std::make_shared<ValidateFlags>();
  Subcommand command =
      program.add_command("validate", "Measure what plans consist of, on the machine they are for",
                          "mpirun -n 8 meshplan validate --plans plans/plans.json --top 3");
  add_validate_flags(command, *flags);
  add_device_flags(command, flags->device);
  command.add_common(flags->common);
  command.set_action([flags] { return validate(*flags); });
}

}  // namespace meshplan
