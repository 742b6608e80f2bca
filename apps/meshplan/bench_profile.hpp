#pragma once
// From what bench measured to a hardware profile: bench --out and --compare.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "profile_output.hpp"
#include "report/bench.hpp"

namespace meshplan {

struct ProfileFlags {
  std::string out, device_folder, cluster, operation;
  std::vector<std::string> compare;
};
void add_profile_flags(Subcommand& command, ProfileFlags& flags);

[[nodiscard]] inline bool makes_profile(const ProfileFlags& flags) {
  return !flags.out.empty() || !flags.device_folder.empty() || !flags.compare.empty();
}

// What a profile is made of besides samples; read before anything is measured.
struct ProfileInputs {
  ClusterSpec cluster;    // the machine as --cluster describes it, or as it was found
  bool described = true;  // by --cluster or a shipped file; else its levels are measured too
  NcclLogs logs;          // of --compare
};

// Of the cluster that --cluster names, its device included; empty without one, or where this rank
// cannot read it.
[[nodiscard]] std::string profile_fingerprint(const ProfileFlags& flags);

// Nothing if no flag asks for a profile, or if the machine cannot have one.
[[nodiscard]] std::optional<ProfileInputs> read_profile_inputs(const ProfileFlags& flags,
                                                               const Machine& machine,
                                                               Diagnostics& problems);

// Fits `file`, writes --out and --device-out, compares with --compare. Nothing where the samples do
// not make a profile: `problems` says why.
[[nodiscard]] std::optional<BenchProfileReport> make_profile(const ProfileFlags& flags,
                                                             const ProfileInputs& inputs,
                                                             const SamplesFile& file,
                                                             const std::string& samples_file,
                                                             Diagnostics& problems);

// The fits, the comparison, and where the profile is.
[[nodiscard]] std::string profile_report_text(const BenchProfileReport& report,
                                              const TextOptions& options);

}  // namespace meshplan
