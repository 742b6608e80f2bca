#include "profile_output.hpp"

#include <algorithm>

#include "io/profile_yaml.hpp"
#include "report/bench.hpp"

namespace meshplan {

namespace {

// What a device is called may come from outside: only a shipped name is looked up, never a path.
bool is_shipped(const DeviceSpec& d) {
  const DataFolders data = DataFolders::standard();
  const std::vector<std::string> names = data.names(kDeviceFolder);
  if (std::find(names.begin(), names.end(), d.name) == names.end()) return false;
  const Result<DeviceSpec> shipped = load_device(d.name, data);
  return shipped.ok() && *shipped == d;
}

}  // namespace

std::optional<std::string> readable_profile(const ClusterSpec& c, Diagnostics& problems) {
  for (Diagnostic d : validate(c)) {
    d.message = "no profile can be made of this: " + d.message;
    problems.push_back(std::move(d));
  }
  if (has_errors(problems)) return std::nullopt;
  std::string text =
      cluster_yaml(c, is_shipped(c.device) ? DeviceForm::kName : DeviceForm::kInline);
  const Result<ClusterSpec> back = parse_cluster(text, "the profile", DataFolders::standard());
  if (back.ok()) return text;
  append(problems, back.errors());
  problems.push_back(error("the profile could not be read back, so it is not written",
                           "give fewer measurements at once, or shorter names"));
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
