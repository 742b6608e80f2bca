#pragma once
// What bench and validate share: this process as a rank of a measuring job.
#include <functional>
#include <string>

#include "command.hpp"
#include "probe/session.hpp"

namespace meshplan {

struct DeviceFlags {
  std::string backend = "auto";
  std::string timeout = "20 s";
};
void add_device_flags(Subcommand& command, DeviceFlags& flags);

// What rank 0 does with the machine; returns the exit code.
using Lead = std::function<int(Backend&)>;

// Joins the job that mpirun, srun or torchrun started, or measures alone. Rank 0 leads and is the
// only one that prints; the others follow. `settings` must be the same on every rank. Returns the
// exit code, kExitDevice after a failure of a device or of another rank; then this process ends
// without leaving anything behind, whatever a driver does.
// `profile` is a fingerprint() of the files that the job works with, empty on ranks that cannot
// read them; ranks that can must agree.
int run_on_devices(const DeviceFlags& flags, const CommonFlags& common, const std::string& settings,
                   const std::string& profile, const Lead& lead);

// A short text that differs where texts differ; empty for an empty text.
[[nodiscard]] std::string fingerprint(std::string_view text);

// True on the rank that prints. Before the job has met: from the environment alone.
[[nodiscard]] bool is_first_rank();

// True once the user asked for an end (Ctrl-C, or a launcher's SIGTERM).
[[nodiscard]] bool wants_end();

// One line that is written over and over; nothing unless a person watches. `share` is from 0 to 1.
void show_measuring(const CommonFlags& flags, double share, const std::string& text);

// Like report_errors, for a device or a communication that failed.
[[nodiscard]] int report_device_errors(const Diagnostics& all, const CommonFlags& flags);

}  // namespace meshplan
