
#include "calibrate/bench_samples.hpp"
#include "calibrate/device.hpp"
#include "import.hpp"
#include "kernel_model.hpp"
#include "log.hpp"
#include "probe/backend.hpp"
#include "probe/samples_file.hpp"
#include "profile_output.hpp"

namespace meshplan {

namespace {

// What there is to say of samples that are of few repetitions: "7 of 120 samples, of 5 or more".
std::optional<std::string> short_samples(const std::vector<Sample>& samples) {
  const std::int64_t usual = MeasureOptions{}.repetitions;
  std::int64_t few = 0, fewest = usual;
  for (const Sample& s : samples) {
    if (repetitions_of(s) >= usual) continue;
    ++few;
    fewest = std::min(fewest, repetitions_of(s));
  }
  if (few == 0) return std::nullopt;
  return std::to_string(few) + " of " + std::to_string(samples.size()) + " samples, of " +
         std::to_string(fewest) + " or more";
}

}  // namespace

std::optional<BenchProfile> profile_of_samples(const SamplesFile& file, const ClusterSpec& cluster,
                                               Diagnostics& problems) {
  BenchProfile result;
  result.cluster = cluster;
  const auto warn = [&result](const std::vector<std::string>& some) {
    result.warnings.insert(result.warnings.end(), some.begin(), some.end());
  };
  const std::optional<BenchCollectives> collectives =
      take(bench_collectives(file.samples, file.machine, cluster), "bench", problems);
  if (!collectives) return std::nullopt;
  warn(collectives->warnings);
  result.latencies = collectives->latencies;
  if (!collectives->samples.empty()) {
    const std::optional<CollectiveFits> fits =
        take(fit_collectives(collectives->samples, cluster), "bench", problems);
    if (!fits) return std::nullopt;
    warn(fits->warnings);
    result.fits = fits->fits;
    result.cluster = with_collectives(std::move(result.cluster), fits->fits);
  }
  DeviceFit device = fit_device(file.samples, file.machine, result.cluster.device, kernel_model());
  warn(device.warnings);
  result.cluster.device = std::move(device.device);
  result.numbers = std::move(device.numbers);
  if (result.fits.empty() && result.numbers.empty()) {
    problems.push_back(error("no sample determines anything of the profile",
                             "measure collectives, products or memory-bound kernels"));
    return std::nullopt;
  }
  result.facts = std::move(device.facts);
  result.cluster.measured = provenance_of(file.machine);
  if (auto few = short_samples(file.samples)) {
    result.facts["fewer than " + std::to_string(MeasureOptions{}.repetitions) + " repetitions"] =
        *few;
  }
  for (const auto& [what, value] : result.facts) result.cluster.measured->notes[what] = value;
  return result;
}

int import_bench_samples(const ImportFlags& flags) {
  const std::string& file = flags.files.front();
  Diagnostics problems;
  const std::optional<ClusterSpec> cluster =
      take(load_cluster(flags.cluster, DataFolders::standard()), "--cluster", problems);
  const std::optional<std::string> text = take(read_text_file(file), file, problems);
  if (!cluster || !text) return report_errors(problems, flags.common);
  const std::optional<SamplesFile> samples = take(parse_samples(*text, file), file, problems);
  if (!samples) return report_errors(problems, flags.common);
  const std::optional<BenchProfile> profile = profile_of_samples(*samples, *cluster, problems);
  if (!profile) return report_errors(problems, flags.common);
  for (const std::string& warning : profile->warnings) log_warning(warning);
  const std::optional<std::string> written = readable_profile(profile->cluster, problems);
  if (!written) return report_errors(problems, flags.common);
  if (!flags.out.empty() && !flags.common.quiet && !flags.common.json) {
    const int exit_code = write_result(bench_profile_text(*profile, console_options()), kExitOk);
    if (exit_code != kExitOk) return exit_code;
  }
  return write_import(flags, *written, profile_document(kTool, profile->cluster));
}

}  // namespace meshplan
