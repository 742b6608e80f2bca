#pragma once
// How the devices of one node are connected, as `nvidia-smi topo -m` prints it or as NCCL dumps it
// (NCCL_TOPO_DUMP_FILE), and the cluster of such nodes.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "spec/cluster.hpp"

namespace meshplan {

// A network card.
struct NodeNic {
  std::string name;
  BytesPerSecond bandwidth{};  // one direction; 0: not stated
  // A device has no card that is nearer: NCCL sends this device's traffic through it.
  bool nearest = false;

  bool operator==(const NodeNic&) const = default;
};

struct NodeTopology {
  std::int64_t gpus = 0;
  // NVLinks between two devices; through switches: the links that each device has into them.
  std::vector<std::vector<std::int64_t>> nvlinks;
  bool switched = false;  // through NVSwitches
  bool xgmi = false;      // the links are AMD's Infinity Fabric, all devices each with all
  std::vector<NodeNic> nics;
  BytesPerSecond pcie;                // of one device, one direction; 0: not stated
  std::optional<std::string> device;  // the shipped device that the file names by its PCI id

  bool operator==(const NodeTopology&) const = default;
};

// `nvidia-smi topo -m`, tabs or blanks between the cells.
[[nodiscard]] Result<NodeTopology> parse_smi_topology(std::string_view text,
                                                      const std::string& file);
// NCCL's XML of one node.
[[nodiscard]] Result<NodeTopology> parse_nccl_topology(std::string_view text,
                                                       const std::string& file);

// What the files do not say.
struct TopologyChoices {
  std::string name;
  DeviceSpec device;
  std::int64_t nodes = 1;
  BytesPerSecond port;  // of one network card; 0: as the file says
  LinkKind network = LinkKind::kInfiniband;
  std::string source;  // how the cluster's `source` begins
};

// Levels: NVLink or Infinity Fabric where it joins the devices of a node (or equal neighbouring
// parts of it), PCIe where it does not, and the network if there are several nodes. Nominal NVLink
// rates per link and direction: 25 GB/s, Blackwell 50 GB/s (NVIDIA's datasheets); Infinity Fabric
// 64 GB/s, CDNA 4 76.8 GB/s (AMD's datasheets of the MI300X and MI350X platforms). Fails on several
// nodes without a network card or its speed, and on NVLinks that join devices into parts of unequal
// size.
[[nodiscard]] Result<ClusterSpec> cluster_of(const NodeTopology& node,
                                             const TopologyChoices& choices);

}  // namespace meshplan
