#include "study_flags.hpp"

#include <algorithm>
#include <cmath>

#include "base/quantity.hpp"
#include "inputs.hpp"

namespace meshplan {
namespace {

constexpr std::size_t kMostListed = 64;

bool is_positive(double value, double most) { return value > 0 && value <= most; }

void check_time(const std::optional<Seconds>& t, const std::string& flag, bool may_be_zero,
                Diagnostics& problems) {
  constexpr double kMostSeconds = 1e7;
  if (!t || is_positive(t->si(), kMostSeconds) || (may_be_zero && t->si() == 0)) return;
  problems.push_back(error_at(
      {flag},
      std::string("must be ") + (may_be_zero ? "from zero" : "above zero") + " to 10,000,000 s"));
}

double read_rate(const std::string& text, Diagnostics& problems) {
  constexpr double kLeastFailures = 1e-12, kMostFailures = 3600;  // one a second
  const std::optional<double> rate = take(parse_real(text), "--failure-rate", problems);
  if (!rate || (*rate >= kLeastFailures && *rate <= kMostFailures)) return rate.value_or(1);
  problems.push_back(error_at({"--failure-rate"}, "must be 1e-12 to 3600 failures per GPU and hour",
                              "one failure a year of a GPU is 1.14e-4"));
  return 1;
}

// What checkpoints cost and restarts take, once there are failures.
void read_costs(const StudyFlags& flags, FailureModel& f, Diagnostics& problems) {
  if (flags.checkpoint_time.empty() == flags.checkpoint_bandwidth.empty()) {
    problems.push_back(error(flags.checkpoint_time.empty()
                                 ? "--failure-rate needs --checkpoint-time or "
                                   "--checkpoint-bandwidth"
                                 : "--checkpoint-time and --checkpoint-bandwidth say the same",
                             "give one of them"));
  }
  if (!flags.checkpoint_time.empty()) {
    f.checkpoint_time = take(parse_time(flags.checkpoint_time), "--checkpoint-time", problems);
    check_time(f.checkpoint_time, "--checkpoint-time", false, problems);
  }
  if (!flags.checkpoint_bandwidth.empty()) {
    f.checkpoint_bandwidth =
        take(parse_bandwidth(flags.checkpoint_bandwidth), "--checkpoint-bandwidth", problems);
    if (f.checkpoint_bandwidth && f.checkpoint_bandwidth->si() < 1) {
      problems.push_back(error_at({"--checkpoint-bandwidth"}, "must be at least 1 B/s"));
    }
  }
  if (flags.restart_time.empty()) {
    problems.push_back(
        error("--failure-rate needs --restart-time", "for example --restart-time \"10 min\""));
    return;
  }
  const std::optional<Seconds> restart =
      take(parse_time(flags.restart_time), "--restart-time", problems);
  check_time(restart, "--restart-time", true, problems);
  f.restart_time = restart.value_or(Seconds{});
}

std::int64_t read_size(std::string_view text, Diagnostics& problems) {
  if (text.empty()) {
    problems.push_back(error_at({"--gpus"}, "a size is missing", "write 256..4096 or 256,512"));
    return 0;
  }
  return read_count(std::string(text), "--gpus", kMostGpus, problems);
}

// One item of a list: a number, or a range of doublings that ends at its end.
void add_sizes(std::string_view item, std::vector<std::int64_t>& sizes, Diagnostics& problems) {
  const std::size_t dots = item.find("..");
  const std::int64_t first = read_size(item.substr(0, dots), problems);
  if (dots == std::string_view::npos) {
    if (first > 0) sizes.push_back(first);
    return;
  }
  const std::int64_t last = read_size(item.substr(dots + 2), problems);
  if (first == 0 || last == 0) return;
  if (first > last) {
    problems.push_back(error_at({"--gpus"}, "the range " + std::string(item) + " is empty",
                                "write the smaller number first"));
    return;
  }
  for (std::int64_t n = first; n < last; n *= 2) sizes.push_back(n);
  sizes.push_back(last);
}

}  // namespace

void add_study_flags(Subcommand& command, StudyFlags& flags) {
  command.add_switch("--pareto", flags.pareto,
                     "Also the plans that no other beats in time, memory left, GPUs and price");
  command.add_switch("--sensitivity", flags.sensitivity,
                     "Also how 20 % more or less of each bandwidth, latency, memory, FLOP/s and of "
                     "the batch changes time and choice");
  command.add_switch("--fallback", flags.fallback,
                     "Also the best plans with 1, 2, 4, ... nodes fewer, and whether the "
                     "checkpoint reshards to them");
  command.add_value("--failure-rate", flags.failure_rate, "N",
                    "Failures per GPU and hour: adds the throughput that they leave and the best "
                    "checkpoint interval");
  command.add_value("--checkpoint-time", flags.checkpoint_time, "TIME",
                    "How long training stands still for a checkpoint, for example \"30 s\"");
  command.add_value("--checkpoint-bandwidth", flags.checkpoint_bandwidth, "RATE",
                    "Instead: of the whole job to storage, for example \"100 GB/s\"");
  command.add_value("--restart-time", flags.restart_time, "TIME",
                    "From a failure until training goes on, for example \"10 min\"");
}

StudyRequest read_studies(const StudyFlags& flags, Diagnostics& problems) {
  StudyRequest wanted;
  wanted.pareto = flags.pareto;
  wanted.sensitivity = flags.sensitivity;
  wanted.fallback = flags.fallback;
  if (!flags.failure_rate.empty()) {
    FailureModel f;
    f.failures_per_gpu_hour = read_rate(flags.failure_rate, problems);
    read_costs(flags, f, problems);
    wanted.failures = f;
  } else if (!flags.checkpoint_time.empty() || !flags.checkpoint_bandwidth.empty() ||
             !flags.restart_time.empty()) {
    problems.push_back(error("--failure-rate is missing",
                             "checkpoints and restarts cost nothing where nothing fails"));
  }
  return wanted;
}

bool is_sizes(const std::string& gpus) {
  return gpus.find("..") != std::string::npos || gpus.find(',') != std::string::npos;
}

std::vector<std::int64_t> read_sizes(const std::string& gpus, Diagnostics& problems) {
  std::vector<std::int64_t> sizes;
  if (!is_sizes(gpus)) return sizes;
  std::string_view rest = gpus;
  for (bool more = true; more;) {
    const std::size_t comma = rest.find(',');
    more = comma != std::string_view::npos;
    add_sizes(rest.substr(0, comma), sizes, problems);
    if (more) rest.remove_prefix(comma + 1);
  }
  for (std::size_t i = 1; i < sizes.size(); ++i) {
    if (sizes[i] > sizes[i - 1]) continue;
    problems.push_back(error_at({"--gpus"}, "sizes must increase"));
    break;
  }
  if (sizes.size() > kMostListed) {
    problems.push_back(error_at({"--gpus"}, "more than 64 sizes"));
  }
  return sizes;
}

}  // namespace meshplan
