#pragma once
// What NCCL's tuning model assumes of each generation of devices and of each kind of link.
// Source unless stated otherwise: NCCL 2.28.9, src/graph/tuning.cc (latencies, limits per channel),
// src/graph/search.cc and topo.h (channels and speeds), read as facts; bandwidths of links are
// never taken from there but from the cluster, of which NCCL's channels use the shares below.
#include "base/units.hpp"
#include "comm/collectives.hpp"
#include "spec/cluster.hpp"

namespace meshplan {

constexpr Seconds microseconds(double t) { return Seconds{t * 1e-6}; }
constexpr BytesPerSecond gigabytes_per_second(double r) { return BytesPerSecond{r * 1e9}; }

// Limits that depend on whether a group has one node, two, or more.
struct ByNodes {
  double one = 0, two = 0, more = 0;
  [[nodiscard]] constexpr double at(double nodes) const {
    return nodes <= 1 ? one : nodes <= 2 ? two : more;
  }
};

struct ArchitectureConstants {
  double channels;           // of a ring inside one NVLink domain
  double channel_speed;      // most that the search gives one channel to the network, GB/s
  bool doubles_any_channel;  // channels of 25 GB/s or more are split in two however many there are
  double ll_one_node;        // low-latency protocol, all channels, GB/s
  ByNodes ring_ll128;        // per channel, GB/s
  ByNodes tree_ll128;
  ByNodes tree;
  ByNodes nvls_tree;                   // 0: no NVLS
  double nvls_efficiency;              // 0: no NVLS
  double nvls_channel;                 // of the link rate, what one NVLS channel can carry
  double nvls_total;                   // of the link rate, all NVLS channels together
  double tree_share;                   // of the link rate, a tree inside one NVSwitch domain
  double network_overhead_us;          // host time to post one network operation
  double ll_two_nodes, ll_more_nodes;  // GB/s, by the host processor of that generation's servers
  double pcie_socket_ring, pcie_socket_tree;  // GB/s between the processor sockets
  double plateau;  // latency of a busy multi-node ring over that of an idle one
};

[[nodiscard]] const ArchitectureConstants& constants_of(Architecture a);

// A hop's latency in NCCL's model by algorithm (kRing, kTree, kPat, kNvls, kNvlsTree).
// [F-COMM-1] hop = h * min(1, L / L0) + k * max(0, L - L0): h NCCL's constant for the kind of link,
// L the level's latency, L0 the latency that h stands for, k = 2 for the Simple protocol, which
// crosses once more to flush, else 1. At L = L0 this is NCCL 2.28.9 tuning.cc (hwLatencies); the
// part above adds as its latencyInter does.
[[nodiscard]] Seconds hop_time(const LinkLevel& level, Algorithm a, Protocol p);

// Level latency at which NCCL's constants hold: 3 us for NVLink, NVSwitch and xGMI, 5.7 us for
// PCIe, 8 us for every network.
[[nodiscard]] Seconds reference_latency(LinkKind kind);

// Time before the first hop.
[[nodiscard]] Seconds base_time(Algorithm a, Protocol p);

// Share of a link's nominal rate that a ring of large messages gets.
[[nodiscard]] double link_efficiency(LinkKind kind);

[[nodiscard]] constexpr bool is_network(LinkKind kind) {
  return kind == LinkKind::kInfiniband || kind == LinkKind::kRoce || kind == LinkKind::kEfa ||
         kind == LinkKind::kEthernet;
}

// Every pair of devices has its own link, so a group uses only the links between its members.
[[nodiscard]] constexpr bool is_mesh(LinkKind kind) {
  return kind == LinkKind::kNvlink || kind == LinkKind::kXgmi;
}

// [F-COMM-2] Bytes that take as long at full bandwidth as `bytes` at a tree's corrected bandwidth:
// NCCL's correction by power of two of the size (treeCorrectionFactor), where a larger message that
// is faster sets the time (so that the time never falls as the size grows).
[[nodiscard]] double tree_corrected_bytes(double bytes, Protocol p);

}  // namespace meshplan
