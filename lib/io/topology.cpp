#include "io/topology.hpp"

#include <algorithm>
#include <set>

#include "base/text.hpp"

namespace meshplan {
namespace {

// Latencies per hop as in the shipped profiles of the same kinds of links: estimates.
constexpr Seconds kNvlinkLatency{3e-6}, kXgmiLatency{4e-6}, kPcieLatency{5.7e-6},
    kNetworkLatency{8e-6}, kEthernetLatency{25e-6};

// Of one link, one direction.
BytesPerSecond link_rate(const NodeTopology& node, Architecture a) {
  if (node.xgmi) return BytesPerSecond{a == Architecture::kCdna4 ? 76.8e9 : 64e9};
  return BytesPerSecond{a == Architecture::kBlackwell ? 50e9 : 25e9};
}

const char* links_of(const NodeTopology& node) { return node.xgmi ? "Infinity Fabric" : "NVLink"; }

// Devices that NVLinks connect, directly or not: the parts, in the order of their first device.
std::vector<std::vector<std::int64_t>> parts_of(const NodeTopology& node) {
  std::vector<std::vector<std::int64_t>> parts;
  std::set<std::int64_t> seen;
  for (std::int64_t first = 0; first < node.gpus; ++first) {
    if (!seen.insert(first).second) continue;
    std::vector<std::int64_t> part{first};
    for (std::size_t i = 0; i < part.size(); ++i) {
      for (std::int64_t other = 0; other < node.gpus; ++other) {
        const auto row = static_cast<std::size_t>(part[i]),
                   column = static_cast<std::size_t>(other);
        if (node.nvlinks[row][column] > 0 && seen.insert(other).second) part.push_back(other);
      }
    }
    std::sort(part.begin(), part.end());
    parts.push_back(std::move(part));
  }
  return parts;
}

// Devices per NVLink part; 1: there are no NVLinks. Parts must be equal runs of neighbours, since a
// level's blocks are.
Result<std::int64_t> part_size(const NodeTopology& node) {
  const auto parts = parts_of(node);
  const auto size = static_cast<std::int64_t>(parts.front().size());
  for (const auto& part : parts) {
    if (static_cast<std::int64_t>(part.size()) != size || part.back() - part.front() + 1 != size) {
      return error(std::string(links_of(node)) +
                       " joins the devices of this node into parts that are unequal or mixed",
                   "levels need equal parts of neighbouring devices: write the cluster by hand");
    }
  }
  return size;
}

// Links of the device that has fewest.
std::int64_t links_per_device(const NodeTopology& node) {
  std::int64_t fewest = 0;
  for (std::size_t i = 0; i < node.nvlinks.size(); ++i) {
    std::int64_t links = 0;
    for (const std::int64_t count : node.nvlinks[i]) {
      links = node.switched ? std::max(links, count) : links + count;
    }
    fewest = i == 0 ? links : std::min(fewest, links);
  }
  return fewest;
}

// Bandwidth of the cards that carry the devices' traffic, per device.
Result<BytesPerSecond> network_rate(const NodeTopology& node, const TopologyChoices& choices) {
  double fastest = 0, sum = 0;
  const auto rate = [&](const NodeNic& nic) {
    return choices.port.si() > 0 ? choices.port.si() : nic.bandwidth.si();
  };
  for (const NodeNic& nic : node.nics) {
    if (nic.nearest) fastest = std::max(fastest, rate(nic));
  }
  // A slow card beside fast ones is for management.
  for (const NodeNic& nic : node.nics) {
    if (nic.nearest && rate(nic) >= fastest / 2) sum += rate(nic);
  }
  if (node.nics.empty()) {
    return error(
        "there is no network card in the file, but " + std::to_string(choices.nodes) + " nodes",
        "leave out --nodes, or write the network's level by hand");
  }
  if (sum <= 0) {
    return error("the file does not say how fast the network cards are",
                 "give the rate of one: --nic-bandwidth '400 Gbit/s'");
  }
  return BytesPerSecond{sum / static_cast<double>(node.gpus)};
}

std::string note(const NodeTopology& node, const TopologyChoices& choices, std::int64_t part) {
  std::string text = choices.source + ". Latencies: estimates, as in the shipped profiles.";
  if (part > 1) {
    text += " " + std::string(links_of(node)) + ": " + std::to_string(links_per_device(node)) +
            " links of " + human_bandwidth(link_rate(node, choices.device.architecture)) +
            (node.switched ? " into switches" : " to other devices") + " per device.";
  }
  if (part < node.gpus && node.pcie.si() <= 0) text += " PCIe: the device's host link.";
  return text;
}

}  // namespace

Result<ClusterSpec> cluster_of(const NodeTopology& node, const TopologyChoices& choices) {
  const Result<std::int64_t> part = part_size(node);
  if (!part) return part.errors();
  ClusterSpec c;
  c.name = choices.name;
  c.device = choices.device;
  c.nodes = choices.nodes;
  c.gpus_per_node = node.gpus;
  c.source = note(node, choices, *part);
  if (*part > 1) {
    c.levels.push_back({.name = node.xgmi ? "xgmi" : "nvlink",
                        .span = *part,
                        .bandwidth = link_rate(node, choices.device.architecture) *
                                     static_cast<double>(links_per_device(node)),
                        .latency = node.xgmi ? kXgmiLatency : kNvlinkLatency,
                        .kind = node.xgmi       ? LinkKind::kXgmi
                                : node.switched ? LinkKind::kNvswitch
                                                : LinkKind::kNvlink});
  }
  if (*part < node.gpus) {
    c.levels.push_back({.name = "pcie",
                        .span = node.gpus,
                        .bandwidth = node.pcie.si() > 0 ? node.pcie : choices.device.host_link,
                        .latency = kPcieLatency,
                        .kind = LinkKind::kPcie});
  }
  if (choices.nodes > 1) {
    const Result<BytesPerSecond> rate = network_rate(node, choices);
    if (!rate) return rate.errors();
    const bool ethernet = choices.network == LinkKind::kEthernet;
    c.levels.push_back({.name = "network",
                        .span = 0,
                        .bandwidth = *rate,
                        .latency = ethernet ? kEthernetLatency : kNetworkLatency,
                        .kind = choices.network});
  }
  if (c.levels.empty()) {
    return error("the node has one device and nothing connects it to others",
                 "give --nodes if there are several such nodes");
  }
  if (Diagnostics bad = validate(c); has_errors(bad)) return bad;
  return c;
}

}  // namespace meshplan
