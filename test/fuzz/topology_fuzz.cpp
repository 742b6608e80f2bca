// Any text as what nvidia-smi topo -m prints and as NCCL's XML; what parses becomes clusters.
#include "fuzz/fuzz.hpp"
#include "io/load.hpp"
#include "io/topology.hpp"

namespace meshplan::fuzz {
namespace {

const DeviceSpec& device() {
  static const DeviceSpec d = *load_device("h100-sxm-80gb", DataFolders({MESHPLAN_SOURCE_DIR}));
  return d;
}

void check(const Result<NodeTopology>& node) {
  require_value_or_errors(node);
  if (!node.ok()) return;
  require(node->gpus >= 1);
  TopologyChoices choices;
  choices.name = "fuzz";
  choices.device = device();
  for (const std::int64_t nodes : {1, 4}) {
    choices.nodes = nodes;
    choices.port = nodes == 1 ? BytesPerSecond{} : BytesPerSecond{50e9};
    const Result<ClusterSpec> cluster = cluster_of(*node, choices);
    require_value_or_errors(cluster);
    if (cluster.ok()) static_cast<void>(validate(*cluster));
  }
}

}  // namespace
}  // namespace meshplan::fuzz

MESHPLAN_FUZZ_TARGET(topology) {
  using namespace meshplan;
  const std::string_view text = fuzz::as_text(data, size);
  fuzz::check(parse_smi_topology(text, "topo.txt"));
  fuzz::check(parse_nccl_topology(text, "topo.xml"));
  return 0;
}
