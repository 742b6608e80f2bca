#pragma once
// A group on a cluster as the algorithms see it: nodes (NVLink or PCIe domains) joined by network
// levels, and what a ring through the group can carry.
#include "comm/nccl_constants.hpp"
#include "layout/groups.hpp"
#include "spec/cluster.hpp"

namespace meshplan {

struct Route {
  const ClusterSpec* cluster = nullptr;
  const GroupShape* shape = nullptr;
  const ArchitectureConstants* limits = nullptr;
  std::size_t node_levels = 0;  // levels below this one are inside a node
  double ranks = 1;
  double nodes = 1;
  double per_node = 1;   // members in the fullest node
  double fewest = 1;     // members in the emptiest node: they bring its network cards
  bool pcie = false;     // some members of a node reach each other over PCIe
  bool switched = true;  // members of a node reach each other over NVSwitch only
  bool ethernet = false;
  bool efa = false;            // some members reach each other over EFA
  BytesPerSecond inside;       // of a ring, as the levels inside nodes allow
  BytesPerSecond inside_tree;  // of a tree
  BytesPerSecond network;      // of either, as the network levels allow
  double channels = 1;         // parallel rings or trees

  [[nodiscard]] const LinkLevel& level(std::size_t l) const { return cluster->levels[l]; }
  [[nodiscard]] bool is_inside(std::size_t l) const { return l < node_levels; }
};

[[nodiscard]] Route route_of(const ClusterSpec& c, const GroupShape& g);

// Blocks of the level below `l` that the group touches: below the innermost, its members.
[[nodiscard]] double parts_below(const GroupShape& g, std::size_t l);
// Members in the emptiest block of the level below `l`.
[[nodiscard]] double fewest_below(const GroupShape& g, std::size_t l);
[[nodiscard]] double within_below(const GroupShape& g, std::size_t l);
// Hops at level `l` of a chain through all members.
[[nodiscard]] double hops(const GroupShape& g, std::size_t l);

// Rate at which one device reaches `peers` others at once over level `l`.
[[nodiscard]] BytesPerSecond device_rate(const Route& r, std::size_t l, double peers);

// Most that the low-latency protocol carries, all channels together.
[[nodiscard]] BytesPerSecond low_latency_limit(const Route& r);

// [F-COMM-3] Share of the link between processor sockets that a group of PCIe devices gets where
// it spans both halves of a node: the link over the sibling groups that do the same.
// Infinite where it does not, or over other links.
[[nodiscard]] BytesPerSecond socket_share(const Route& r, std::size_t l, double socket_rate);

}  // namespace meshplan
