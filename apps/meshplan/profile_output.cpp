#include "profile_output.hpp"

#include "io/profile_yaml.hpp"
#include "report/bench.hpp"

namespace meshplan {

std::string profile_text(const ClusterSpec& c) {
  const Result<DeviceSpec> shipped = load_device(c.device.name, DataFolders::standard());
  const bool same = shipped.ok() && *shipped == c.device;
  return cluster_yaml(c, same ? DeviceForm::kName : DeviceForm::kInline);
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
