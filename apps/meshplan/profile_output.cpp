#include "profile_output.hpp"

#include "io/profile_yaml.hpp"
#include "report/bench.hpp"

namespace meshplan {

std::string profile_text(const ClusterSpec& c) {
  const Result<DeviceSpec> shipped = load_device(c.device.name, DataFolders::standard());
  const bool same = shipped.ok() && *shipped == c.device;
  return cluster_yaml(c, same ? DeviceForm::kName : DeviceForm::kInline);
}

std::optional<std::string> readable_profile(const ClusterSpec& c, Diagnostics& problems) {
  for (Diagnostic d : validate(c)) {
    d.message = "no profile can be made of this: " + d.message;
    problems.push_back(std::move(d));
  }
  if (has_errors(problems)) return std::nullopt;
  std::string text = profile_text(c);
  const Result<ClusterSpec> back = parse_cluster(text, "the profile", DataFolders::standard());
  if (back.ok()) return text;
  append(problems, back.errors());
  problems.push_back(error("the profile of these measurements could not be read back",
                           "give fewer measurements at once"));
  return std::nullopt;
}

std::string bench_profile_text(const BenchProfile& profile, const TextOptions& options) {
  std::string text;
  if (!profile.fits.empty()) text += fits_text(profile.fits, options);
  if (profile.numbers.empty()) return text;
  std::vector<BenchProfileReport::Number> numbers;
  for (const DeviceNumber& n : profile.numbers) {
    numbers.push_back({n.key, n.before, n.after, n.errors});
  }
  return text + (text.empty() ? "" : "\n") + numbers_text(numbers, options);
}

}  // namespace meshplan
