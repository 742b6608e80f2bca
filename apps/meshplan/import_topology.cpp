#include <filesystem>

#include "base/quantity.hpp"
#include "import.hpp"
#include "io/topology.hpp"
#include "profile_output.hpp"

namespace meshplan {
namespace {

constexpr std::int64_t kMostNodes = 1'000'000;

LinkKind network_kind(const std::string& text, Diagnostics& problems) {
  constexpr std::array kKinds{LinkKind::kInfiniband, LinkKind::kRoce, LinkKind::kEfa,
                              LinkKind::kEthernet};
  if (text.empty()) return LinkKind::kInfiniband;
  return read_choice(
      text, "--network", kKinds, [](LinkKind kind) { return name_of(kind); }, problems);
}

std::optional<DeviceSpec> device_of(const ImportFlags& flags, const NodeTopology& node,
                                    Diagnostics& problems) {
  const std::string name = flags.device.empty() ? node.device.value_or("") : flags.device;
  if (name.empty()) {
    problems.push_back(error("--device is missing",
                             "the file does not name the device: 'meshplan list devices' shows "
                             "the shipped ones"));
    return std::nullopt;
  }
  return take(load_device(name, DataFolders::standard()), "--device", problems);
}

int import_topology(const ImportFlags& flags, std::string_view what,
                    Result<NodeTopology> (*parse)(std::string_view, const std::string&)) {
  const std::string& file = flags.files.front();
  Diagnostics problems;
  const std::optional<std::string> text = take(read_text_file(file), file, problems);
  if (!text) return report_errors(problems, flags.common);
  const std::optional<NodeTopology> node = take(parse(*text, file), file, problems);
  if (!node) return report_errors(problems, flags.common);
  TopologyChoices choices;
  const std::string stem = std::filesystem::path(flags.out.empty() ? file : flags.out).stem();
  choices.name = stem.empty() ? "cluster" : stem;
  choices.source = std::string(what) + " of one node (" + file + ")";
  if (const auto device = device_of(flags, *node, problems)) choices.device = *device;
  choices.nodes =
      flags.nodes.empty() ? 1 : read_count(flags.nodes, "--nodes", kMostNodes, problems);
  choices.network = network_kind(flags.network, problems);
  if (!flags.nic_bandwidth.empty()) {
    const auto rate = take(parse_bandwidth(flags.nic_bandwidth), "--nic-bandwidth", problems);
    if (rate) choices.port = *rate;
  }
  if (has_errors(problems)) return report_errors(problems, flags.common);
  const std::optional<ClusterSpec> cluster = take(cluster_of(*node, choices), file, problems);
  if (!cluster) return report_errors(problems, flags.common);
  const std::optional<std::string> written = readable_profile(*cluster, problems);
  if (!written) return report_errors(problems, flags.common);
  return write_import(flags, *written, profile_document(kTool, *cluster));
}

}  // namespace

int import_smi_topology(const ImportFlags& flags) {
  return import_topology(flags, "nvidia-smi topo -m", parse_smi_topology);
}

int import_nccl_topology(const ImportFlags& flags) {
  return import_topology(flags, "NCCL's topology", parse_nccl_topology);
}

}  // namespace meshplan
