// Any text as a cluster file; the devices it may name are the shipped ones. What is sound is
// written and reads back to the same cluster.
#include "fuzz/fuzz.hpp"
#include "io/load.hpp"
#include "io/profile_yaml.hpp"
#include "spec/cluster.hpp"

MESHPLAN_FUZZ_TARGET(cluster) {
  using namespace meshplan;
  const std::string_view text = fuzz::as_text(data, size);
  // A path would make it open files.
  if (text.find('/') != std::string_view::npos) return 0;
  const DataFolders shipped({MESHPLAN_SOURCE_DIR});
  const Result<ClusterSpec> cluster = parse_cluster(text, "fuzz.yaml", shipped);
  fuzz::require_value_or_errors(cluster);
  if (!cluster.ok() || has_errors(validate(*cluster))) return 0;
  const std::string written = cluster_yaml(*cluster, DeviceForm::kInline);
  const Result<ClusterSpec> again = parse_cluster(written, "written.yaml", shipped);
  fuzz::require(again.ok());
  // Measured points are rounded when they are written: once is enough.
  fuzz::require(cluster_yaml(*again, DeviceForm::kInline) == written);
  return 0;
}
