// Any text as a cluster file; the devices it may name are the shipped ones.
#include "fuzz/fuzz.hpp"
#include "io/load.hpp"
#include "spec/cluster.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace meshplan;
  const DataFolders shipped({MESHPLAN_SOURCE_DIR});
  const Result<ClusterSpec> cluster =
      parse_cluster(fuzz::as_text(data, size), "fuzz.yaml", shipped);
  fuzz::require_value_or_errors(cluster);
  if (cluster.ok()) static_cast<void>(validate(*cluster));
  return 0;
}
