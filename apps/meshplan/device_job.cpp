#include "device_job.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

#include "base/quantity.hpp"
#include "console.hpp"
#include "inputs.hpp"
#include "log.hpp"

namespace meshplan {
namespace {

std::atomic<int> g_signal{0};  // the only thing that a signal may touch

void remember_signal(int number) { g_signal = number; }

const char* environment(const char* name) { return std::getenv(name); }

void listen_for_signals() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    action.sa_handler = remember_signal;
    sigaction(number, &action, nullptr);
  }
}

// A thread may be stuck in a driver or in MPI: nothing that waits for it may run any more.
[[noreturn]] void end_now(int exit_code) {
  std::fflush(nullptr);
  std::_Exit(exit_code);
}

std::optional<SessionOptions> read_options(const DeviceFlags& flags, Diagnostics& problems) {
  SessionOptions options;
  if (flags.backend != "auto") {
    constexpr std::array kChoices{std::string_view("nccl"), std::string_view("mpi"),
                                  std::string_view("auto")};
    const std::string_view name = read_choice(
        flags.backend, "--backend", kChoices, [](std::string_view n) { return n; }, problems);
    options.backend = from_name<BackendKind>(name);
  }
  const std::optional<Seconds> timeout = take(parse_time(flags.timeout), "--timeout", problems);
  if (timeout) options.timeout = *timeout;
  if (timeout && (*timeout < Seconds{1} || *timeout > Seconds{3600})) {
    problems.push_back(error_at({"--timeout"}, "must be from 1 s to 1 h"));
  }
  if (has_errors(problems)) return std::nullopt;
  options.version = MESHPLAN_VERSION;
  options.interrupted = wants_end;
  return options;
}

int follow(Session& session, const CommonFlags& common) {
  const Result<bool> followed = session.follow();
  if (followed) return kExitOk;
  // Rank 0 says what happened; with -v every rank does.
  if (common.verbose) {
    log_error("rank " + std::to_string(session.job().rank) + ": " +
              followed.errors().front().message);
  }
  end_now(kExitDevice);
}

}  // namespace

void add_device_flags(Subcommand& command, DeviceFlags& flags) {
  command.add_value("--backend", flags.backend, "NAME",
                    "auto: NCCL where a GPU is found, else MPI; nccl; mpi");
  command.add_value("--timeout", flags.timeout, "TIME",
                    "How long the ranks may take to meet, and each step after that");
}

bool wants_end() { return g_signal != 0; }

bool is_first_rank() {
  const Result<Job> job = find_job(environment);
  return !job || job->rank == 0;
}

void show_measuring(const CommonFlags& flags, double share, const std::string& text) {
  if (flags.quiet || isatty(STDERR_FILENO) != 1) return;
  constexpr std::size_t kBar = 20;
  const std::string done = bar(share, kBar);
  const std::string line =
      "\r\x1b[K[" + done + std::string(kBar - std::min(kBar, done.size()), ' ') + "] " + text;
  std::fwrite(line.data(), 1, line.size(), stderr);
}

int report_device_errors(const Diagnostics& all, const CommonFlags& flags) {
  static_cast<void>(report_errors(all, flags));
  return kExitDevice;
}

// FNV-1a of 64 bits.
std::string fingerprint(std::string_view text) {
  if (text.empty()) return {};
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  std::array<char, 20> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(hash));
  return digits.data();
}

int run_on_devices(const DeviceFlags& flags, const CommonFlags& common, const std::string& settings,
                   const std::string& profile, const Lead& lead) {
  Diagnostics problems;
  std::optional<SessionOptions> options = read_options(flags, problems);
  if (!options) return is_first_rank() ? report_errors(problems, common) : kExitBadInput;
  options->settings = settings;
  options->profile = profile;
  listen_for_signals();
  Result<std::unique_ptr<Session>> opened = Session::open(*options, environment);
  if (!opened) {
    const bool prints = is_first_rank();
    if (prints) end_now(report_device_errors(opened.errors(), common));
    log_error("rank " + std::string(environment("RANK") != nullptr ? environment("RANK") : "?") +
              ": " + opened.errors().front().message);
    end_now(kExitDevice);
  }
  Session& session = **opened;
  if (!session.leads()) return follow(session, common);
  const int exit_code = lead(session.backend());
  if (!session.backend().alive()) end_now(exit_code == kExitOk ? kExitDevice : exit_code);
  session.close();
  return exit_code;
}

}  // namespace meshplan
