#include "profile_output.hpp"

#include "base/text.hpp"
#include "io/profile_yaml.hpp"

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
  Table table({{"number", Align::kLeft},
               {"before"},
               {"after"},
               {"samples"},
               {"residual"},
               {"held out"},
               {"p90"}});
  for (const DeviceNumber& n : profile.numbers) {
    const bool held_out = n.errors.held_out_p90 > 0;
    table.add_row({n.key, n.before, n.after, std::to_string(n.errors.samples),
                   human_percent(n.errors.residual_median),
                   held_out ? human_percent(n.errors.held_out_median) : "-",
                   held_out ? human_percent(n.errors.held_out_p90) : "-"});
  }
  return text + (text.empty() ? "" : "\n") + table.text(options);
}

std::string comparison_text(std::span<const Comparison> rows, const TextOptions& options) {
  Table table({{"operation", Align::kLeft},
               {"ranks"},
               {"nodes"},
               {"size"},
               {"log"},
               {"profile"},
               {"ratio"},
               {"from", Align::kLeft}});
  for (const Comparison& row : rows) {
    table.add_row({std::string(name_of(row.sample.operation)), std::to_string(row.sample.ranks),
                   std::to_string(row.sample.nodes), human_bytes(row.sample.bytes),
                   human_time(row.sample.time), human_time(row.predicted),
                   fixed(row.predicted / row.sample.time, 2),
                   row.measured ? "measured curve" : "model"});
  }
  return table.text(options);
}

}  // namespace meshplan
