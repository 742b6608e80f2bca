#include "bench_profile.hpp"

#include <filesystem>
#include <thread>
#include <unistd.h>

#include "base/printable.hpp"
#include "calibrate/machine.hpp"
#include "device_job.hpp"
#include "io/profile_yaml.hpp"
#include "io/write.hpp"
#include "log.hpp"

namespace meshplan {
namespace {

DeviceSpec processors_of(const Machine& m) {
  const auto per_node = static_cast<double>(std::max<std::int64_t>(1, m.ranks_per_node));
  const double cores = std::max(1U, std::thread::hardware_concurrency()) / per_node;
  const double pages = static_cast<double>(std::max(1L, sysconf(_SC_PHYS_PAGES)));
  const double bytes = pages * static_cast<double>(sysconf(_SC_PAGESIZE)) / per_node;
  return processor_device(cores, Bytes{static_cast<std::int64_t>(bytes)});
}

// The shipped cluster of this device with nodes like the machine's. Of several, the one whose
// network is described in most levels: a maker's own servers come before instances that a provider
// rents out.
std::optional<ClusterSpec> shipped_cluster(const std::string& device, const Machine& m) {
  const DataFolders data = DataFolders::standard();
  std::optional<ClusterSpec> found;
  for (const std::string& name : data.names(kClusterFolder)) {
    const Result<ClusterSpec> c = load_cluster(name, data);
    if (!c || c->device.name != device || c->nodes < m.nodes) continue;
    const bool alike =
        m.nodes > 1 ? c->gpus_per_node == m.ranks_per_node : c->gpus_per_node >= m.ranks_per_node;
    if (alike && (!found || c->levels.size() > found->levels.size())) found = *c;
  }
  return found;
}

std::optional<ProfileInputs> found_machine(const Machine& m, Diagnostics& problems) {
  ProfileInputs in;
  if (!m.accelerator) {
    in.cluster = cluster_of(m, processors_of(m));
    in.described = false;
    return in;
  }
  const std::string& driver_name = m.ranks.front().device;
  const std::string device(shipped_device(driver_name));
  if (device.empty()) {
    problems.push_back(error("no shipped device is what the driver calls '" + driver_name + "'",
                             "describe the machine with --cluster NAME|FILE"));
    return std::nullopt;
  }
  if (std::optional<ClusterSpec> shipped = shipped_cluster(device, m)) {
    log_info("what is not measured is taken from cluster '" + shipped->name +
             "'; --cluster names another");
    in.cluster = std::move(*shipped);
    return in;
  }
  const auto spec = take(load_device(device, DataFolders::standard()), "--cluster", problems);
  if (!spec) return std::nullopt;
  in.cluster = cluster_of(m, *spec);
  in.described = false;
  return in;
}

std::optional<ProfileInputs> described_machine(const std::string& cluster, const Machine& m,
                                               Diagnostics& problems) {
  std::optional<ClusterSpec> c =
      take(load_cluster(cluster, DataFolders::standard()), "--cluster", problems);
  if (!c) return std::nullopt;
  const bool fits = c->nodes >= m.nodes && c->gpus_per_node >= m.ranks_per_node &&
                    (m.nodes == 1 || c->gpus_per_node == m.ranks_per_node);
  if (fits) return ProfileInputs{std::move(*c), true, {}};
  problems.push_back(
      error_at({"--cluster"}, "cluster '" + c->name + "' has " + std::to_string(c->nodes) +
                                  " nodes of " + std::to_string(c->gpus_per_node) +
                                  " devices, this job " + std::to_string(m.nodes) + " of " +
                                  std::to_string(m.ranks_per_node) + " ranks"));
  return std::nullopt;
}

std::vector<BenchProfileReport::Number> numbers_of(const BenchProfile& profile) {
  std::vector<BenchProfileReport::Number> all;
  for (const DeviceNumber& n : profile.numbers) {
    all.push_back({n.key, n.before, n.after, n.errors});
  }
  return all;
}

// FOLDER/NAME.yaml: the device with what was measured of it, as hardware-profiles/devices has them.
std::optional<std::string> write_device(const std::string& folder, const BenchProfile& profile,
                                        Diagnostics& problems) {
  const DeviceSpec device = with_provenance(profile.cluster.device, *profile.cluster.measured);
  if (profile.numbers.empty()) {
    problems.push_back(
        error("--device-out has no device to write: nothing was measured of '" + device.name + "'",
              "measure products and memory-bound kernels too"));
    return std::nullopt;
  }
  if (printable_text(device.name) != device.name || device.name.find('/') != std::string::npos) {
    problems.push_back(error("--device-out: no file can be called '" + device.name + ".yaml'",
                             "give the device another name"));
    return std::nullopt;
  }
  const std::string file = (std::filesystem::path(folder) / (device.name + ".yaml")).string();
  const std::string text = device_yaml(
      device, profile.cluster.measured->gpu + ", measured; what was not is as it was before.");
  if (!take(parse_device(text, "the device"), "--device-out", problems)) {
    problems.push_back(error("the device could not be read back, so it is not written"));
    return std::nullopt;
  }
  if (!take(write_file_atomically(file, text), "--device-out", problems)) return std::nullopt;
  return file;
}

}  // namespace

std::string profile_fingerprint(const ProfileFlags& flags) {
  if (flags.cluster.empty()) return {};
  const Result<ClusterSpec> c = load_cluster(flags.cluster, DataFolders::standard());
  return c.ok() ? fingerprint(cluster_yaml(*c, DeviceForm::kInline)) : std::string();
}

std::optional<ProfileInputs> read_profile_inputs(const ProfileFlags& flags, const Machine& machine,
                                                 Diagnostics& problems) {
  if (!makes_profile(flags)) return std::nullopt;
  if (machine.time_sliced) {
    log_warning("no profile is made: several ranks share one device, so the times are no rates");
    return std::nullopt;
  }
  std::optional<ProfileInputs> in = flags.cluster.empty()
                                        ? found_machine(machine, problems)
                                        : described_machine(flags.cluster, machine, problems);
  if (flags.compare.empty()) return in;
  std::optional<NcclLogs> logs = read_nccl_logs(flags.compare, flags.operation, problems);
  if (in && logs) in->logs = std::move(*logs);
  return in;
}

std::optional<BenchProfileReport> make_profile(const ProfileFlags& flags,
                                               const ProfileInputs& inputs, const SamplesFile& file,
                                               const std::string& samples_file,
                                               Diagnostics& problems) {
  std::optional<BenchProfile> profile = profile_of_samples(file, inputs.cluster, problems);
  if (!profile) return std::nullopt;
  ClusterSpec& c = profile->cluster;
  if (!inputs.described) {
    MeasuredLevels levels = with_measured_levels(std::move(c), profile->fits, profile->latencies);
    c = std::move(levels.cluster);
    profile->warnings.insert(profile->warnings.end(), levels.warnings.begin(),
                             levels.warnings.end());
  }
  if (!samples_file.empty()) c.measured->notes["samples"] = samples_file;
  BenchProfileReport report;
  report.fits = profile->fits;
  report.numbers = numbers_of(*profile);
  report.warnings = std::move(profile->warnings);
  report.facts = std::move(profile->facts);
  if (!inputs.logs.samples.empty()) {
    const auto rows = take(compare(inputs.logs.samples, c), "--compare", problems);
    if (!rows) return std::nullopt;
    for (const Comparison& row : *rows) {
      report.compared.push_back({row.sample.operation, row.sample.ranks, row.sample.nodes,
                                 row.sample.bytes, row.sample.time, row.predicted, row.measured});
    }
  }
  if (!flags.out.empty()) {
    const std::optional<std::string> text = readable_profile(c, problems);
    if (!text || !take(write_file_atomically(flags.out, *text), "--out", problems)) {
      return std::nullopt;
    }
    report.file = flags.out;
  }
  if (!flags.device_folder.empty()) {
    report.device_file = write_device(flags.device_folder, *profile, problems).value_or("");
  }
  return report;
}

std::string profile_report_text(const BenchProfileReport& report, const TextOptions& options) {
  std::string text;
  for (const std::string& warning : report.warnings) {
    text += paragraph("note: ", warning, options);
  }
  if (!report.fits.empty()) text += '\n' + fits_text(report.fits, options);
  if (!report.numbers.empty()) text += '\n' + numbers_text(report.numbers, options);
  for (const auto& [what, value] : report.facts) {
    text += paragraph("beside the profile: ", what + " " + value, options);
  }
  if (!report.compared.empty()) text += '\n' + comparison_text(report.compared, options);
  if (!report.file.empty()) {
    text += '\n' + paragraph("", "Profile: " + report.file + "; use it with --cluster.", options);
  }
  if (!report.device_file.empty()) {
    text += paragraph("", "Device: " + report.device_file, options);
  }
  return text;
}

void add_profile_flags(Subcommand& command, ProfileFlags& flags) {
  command.add_value("--out", flags.out, "FILE",
                    "Write the hardware profile here: what was measured in place of what --cluster "
                    "says; the raw samples beside it, unless --samples names another file");
  command.add_value("--device-out", flags.device_folder, "FOLDER",
                    "Write the device with what was measured of it into this folder, as NAME.yaml");
  command.add_value(
      "--cluster", flags.cluster, "NAME|FILE",
      "The machine as a shipped or own cluster file; default: found from the devices");
  command.add_repeated("--compare", flags.compare, "FILE",
                       "Check the profile against a log or -J file of nccl-tests (repeatable)");
  command.add_value("--operation", flags.operation, "NAME",
                    "What logs of --compare measured that do not say it");
}

}  // namespace meshplan
