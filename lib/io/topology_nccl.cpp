#include <algorithm>
#include <array>
#include <map>

#include "base/quantity.hpp"
#include "io/topology.hpp"
#include "io/xml_tree.hpp"

namespace meshplan {
namespace {

struct KnownDevice {
  std::string_view pci_id, name;
};
// The PCI ID repository's names of the devices that ship.
constexpr auto kDevices = std::to_array<KnownDevice>({{"0x1db5", "v100-sxm2-32gb"},
                                                      {"0x20b0", "a100-sxm-40gb"},
                                                      {"0x20b2", "a100-sxm-80gb"},
                                                      {"0x2330", "h100-sxm-80gb"},
                                                      {"0x2331", "h100-pcie-80gb"},
                                                      {"0x2335", "h200-sxm-141gb"},
                                                      {"0x2901", "b200-180gb"},
                                                      {"0x2941", "gb200"},
                                                      {"0x3182", "b300-270gb"},
                                                      {"0x31c2", "gb300"},
                                                      {"0x74a1", "mi300x"},
                                                      {"0x74b5", "mi300x"},  // in a virtual machine
                                                      {"0x74a5", "mi325x"},
                                                      {"0x75a0", "mi350x"},
                                                      {"0x75a3", "mi355x"}});

// From the root to an element: two elements are as near as their paths share steps.
using Path = std::vector<std::size_t>;

struct Gpu {
  std::string bus_id, pci_id;
  Path path;
  double pcie = 0;                              // bytes/s
  std::map<std::string, std::int64_t> peers{};  // bus id -> links
  std::int64_t switch_links = 0;
  bool xgmi = false;  // its links are AMD's
};

struct Card {
  NodeNic nic;
  Path path;
};

struct Node {
  std::vector<Gpu> gpus;
  std::vector<Card> cards;
  Diagnostics problems;
};

std::int64_t whole(const std::string& text, std::int64_t fallback) {
  const Result<std::int64_t> value = parse_integer(text);
  return value.ok() ? *value : fallback;
}

// NCCL's GB/s of one PCI device (src/graph/topo.cc): width x rate / 80, rates of 60, 120, 240 and
// 480 for 8, 16, 32 and 64 GT/s a lane.
double pcie_rate(const XmlElement& pci) {
  static constexpr std::array<std::pair<std::string_view, double>, 6> kSpeeds{
      {{"2.5 GT/s", 15}, {"5 GT/s", 30}, {"5.0 GT/s", 30}, {"8", 60}, {"16", 120}, {"32", 240}}};
  const std::string speed = pci.attribute("link_speed");
  double rate = speed.starts_with("64") ? 480 : 60;
  for (const auto& [name, value] : kSpeeds) {
    if (speed.starts_with(name)) rate = value;
  }
  const auto width =
      static_cast<double>(std::clamp<std::int64_t>(whole(pci.attribute("link_width"), 16), 1, 32));
  return speed.empty() ? 0 : width * rate / 80 * 1e9;
}

void add_links(const XmlElement& gpu, Gpu& target) {
  for (const XmlElement& link : gpu.children) {
    const bool xgmi = link.name == "xgmi";  // RCCL's
    if (link.name != "nvlink" && !xgmi) continue;
    target.xgmi = target.xgmi || xgmi;
    const std::int64_t count = std::clamp<std::int64_t>(whole(link.attribute("count"), 1), 0, 64);
    // PCI class of the far end: 0x0680.. is an NVSwitch, 0x03.. a device.
    if (!xgmi && link.attribute("tclass").starts_with("0x0680")) {
      target.switch_links += count;
    } else {
      target.peers[link.attribute("target")] += count;
    }
  }
}

void walk(const XmlElement& e, const XmlElement* pci, const Path& path, Node& node) {
  if (e.name == "gpu" && pci != nullptr) {
    Gpu& gpu = node.gpus.emplace_back();
    gpu.bus_id = pci->attribute("busid");
    gpu.pci_id = pci->attribute("device");
    gpu.path = path;
    gpu.pcie = pcie_rate(*pci);
    add_links(e, gpu);
  }
  if (e.name == "net") {
    // Mbit/s; what NCCL cannot find out it writes as -1 and counts as 10 Gbit/s.
    const std::int64_t speed = whole(e.attribute("speed"), 0);
    const double rate = (speed > 0 ? static_cast<double>(speed) : 10'000) * 1e6 / 8;
    Card& card = node.cards.emplace_back();
    card.nic.name = e.attribute("name");
    card.nic.bandwidth = BytesPerSecond{rate};
    card.path = path;
  }
  const XmlElement* inner = e.name == "pci" ? &e : pci;
  for (std::size_t i = 0; i < e.children.size(); ++i) {
    Path below = path;
    below.push_back(i);
    walk(e.children[i], inner, below, node);
  }
}

std::size_t shared_steps(const Path& a, const Path& b) {
  const auto [at, unused] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<std::size_t>(at - a.begin());
}

void mark_nearest(Node& node) {
  for (const Gpu& gpu : node.gpus) {
    std::size_t most = 0;
    for (const Card& card : node.cards) most = std::max(most, shared_steps(gpu.path, card.path));
    for (Card& card : node.cards) {
      if (shared_steps(gpu.path, card.path) == most) card.nic.nearest = true;
    }
  }
}

Result<NodeTopology> topology_of(Node& node, const std::string& file) {
  NodeTopology result;
  result.gpus = static_cast<std::int64_t>(node.gpus.size());
  const bool switched = std::all_of(node.gpus.begin(), node.gpus.end(),
                                    [](const Gpu& gpu) { return gpu.switch_links > 0; });
  result.switched = switched;
  result.xgmi =
      std::any_of(node.gpus.begin(), node.gpus.end(), [](const Gpu& gpu) { return gpu.xgmi; });
  double pcie = 1e300;
  for (std::size_t i = 0; i < node.gpus.size(); ++i) {
    const Gpu& gpu = node.gpus[i];
    if (gpu.pci_id != node.gpus.front().pci_id) {
      return error_at(
          {file},
          "the node holds different devices: " + node.gpus.front().pci_id + " and " + gpu.pci_id,
          "a cluster has one kind of device");
    }
    std::vector<std::int64_t> links(node.gpus.size(), 0);
    for (std::size_t j = 0; j < node.gpus.size(); ++j) {
      const auto peer = gpu.peers.find(node.gpus[j].bus_id);
      if (j != i && switched) links[j] = gpu.switch_links;
      if (j != i && !switched && peer != gpu.peers.end()) links[j] = peer->second;
    }
    result.nvlinks.push_back(std::move(links));
    pcie = std::min(pcie, gpu.pcie);
  }
  result.pcie = BytesPerSecond{pcie};
  for (const KnownDevice& known : kDevices) {
    if (node.gpus.front().pci_id == known.pci_id) result.device = std::string(known.name);
  }
  mark_nearest(node);
  for (const Card& card : node.cards) result.nics.push_back(card.nic);
  return result;
}

}  // namespace

Result<NodeTopology> parse_nccl_topology(std::string_view text, const std::string& file) {
  const Result<XmlElement> root = parse_xml(text, file);
  if (!root) return root.errors();
  if (root->name != "system") {
    return error_at({file, root->line, 1}, "the root is <" + root->name + ">, not <system>",
                    "give what NCCL writes to NCCL_TOPO_DUMP_FILE");
  }
  Node node;
  walk(*root, nullptr, {}, node);
  constexpr std::size_t kMostGpus = 1024;
  if (node.gpus.empty() || node.gpus.size() > kMostGpus) {
    return error_at({file},
                    "there are " + std::to_string(node.gpus.size()) + " devices in this file",
                    "give what NCCL writes to NCCL_TOPO_DUMP_FILE on a node with all its devices");
  }
  return topology_of(node, file);
}

}  // namespace meshplan
