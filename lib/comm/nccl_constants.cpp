#include "comm/nccl_constants.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace meshplan {
namespace {

// Order of Architecture. NVLS shares: HGX H100 gets 8 channels of 40 GB/s, at most 60 each, of
// 450 GB/s; HGX B200 8 of 80, at most 90 each, of 900. Hosts: Intel, but AMD for Ampere (DGX A100)
// and CDNA 3. Sockets: Skylake, Rome, Sapphire Rapids, Emerald Rapids; trees as NCCL finds them on
// four PCIe devices. CDNA 3: RCCL's own table (tuning_model_5) holds weights for its choice, not
// rates, so Hopper's limits stand in, without NVLS and with so many channels (32 of the 32 to 56
// that RCCL opens on MI300X) that they do not bind.
constexpr std::array kArchitectures{
    ArchitectureConstants{.channels = 12,
                          .channel_speed = 48,
                          .doubles_any_channel = true,
                          .ll_one_node = 39,
                          .ring_ll128 = {20, 20, 20},
                          .tree_ll128 = {20, 20, 20},
                          .tree = {26.5, 18.5, 10},
                          .nvls_tree = {},
                          .nvls_efficiency = 0,
                          .nvls_channel = 0,
                          .nvls_total = 0,
                          .tree_share = 0.8,
                          .network_overhead_us = 1,
                          .ll_two_nodes = 39,
                          .ll_more_nodes = 20.4,
                          .pcie_socket_ring = 10,
                          .pcie_socket_tree = 10,
                          .plateau = 1.9},
    ArchitectureConstants{.channels = 12,
                          .channel_speed = 48,
                          .doubles_any_channel = true,
                          .ll_one_node = 87.7,
                          .ring_ll128 = {20, 20, 20},
                          .tree_ll128 = {20, 20, 20},
                          .tree = {24, 23.6, 17.8},
                          .nvls_tree = {},
                          .nvls_efficiency = 0,
                          .nvls_channel = 0,
                          .nvls_total = 0,
                          .tree_share = 0.8,
                          .network_overhead_us = 2,
                          .ll_two_nodes = 22.5,
                          .ll_more_nodes = 19,
                          .pcie_socket_ring = 15,
                          .pcie_socket_tree = 15,
                          .plateau = 1.4},
    ArchitectureConstants{.channels = 12,
                          .channel_speed = 48,
                          .doubles_any_channel = false,
                          .ll_one_node = 141,
                          .ring_ll128 = {36.7, 36.7, 36.7},
                          .tree_ll128 = {36.7, 36.7, 29},
                          .tree = {38.7, 41.4, 36},
                          .nvls_tree = {0, 57.7, 45.5},
                          .nvls_efficiency = 0.85,
                          .nvls_channel = 60.0 / 450,
                          .nvls_total = 320.0 / 450,
                          .tree_share = 0.8,
                          .network_overhead_us = 1,
                          .ll_two_nodes = 39,
                          .ll_more_nodes = 20.4,
                          .pcie_socket_ring = 22,
                          .pcie_socket_tree = 40,
                          .plateau = 1.4},
    ArchitectureConstants{.channels = 16,
                          .channel_speed = 96,
                          .doubles_any_channel = false,
                          .ll_one_node = 282,
                          .ring_ll128 = {73.4, 34.6, 73.4},
                          .tree_ll128 = {55.6, 31.67, 20},
                          .tree = {70, 42.8, 24},
                          .nvls_tree = {0, 96, 43.8},
                          .nvls_efficiency = 0.74,
                          .nvls_channel = 90.0 / 900,
                          .nvls_total = 640.0 / 900,
                          .tree_share = 640.0 / 900,
                          .network_overhead_us = 1,
                          .ll_two_nodes = 39,
                          .ll_more_nodes = 20.4,
                          .pcie_socket_ring = 40,
                          .pcie_socket_tree = 40,
                          .plateau = 1.4},
    ArchitectureConstants{.channels = 32,
                          .channel_speed = 48,
                          .doubles_any_channel = true,
                          .ll_one_node = 141,
                          .ring_ll128 = {36.7, 36.7, 36.7},
                          .tree_ll128 = {36.7, 36.7, 29},
                          .tree = {38.7, 41.4, 36},
                          .nvls_tree = {},
                          .nvls_efficiency = 0,
                          .nvls_channel = 0,
                          .nvls_total = 0,
                          .tree_share = 0.7,
                          .network_overhead_us = 2,
                          .ll_two_nodes = 22.5,
                          .ll_more_nodes = 19,
                          .pcie_socket_ring = 15,
                          .pcie_socket_tree = 15,
                          .plateau = 1.4},
};

// NCCL tells Volta, Ampere, Hopper and Blackwell apart by compute capability and counts Ada, 8.9,
// as Ampere (graph/tuning.cc, compCapIndex); RCCL's model of MI300 serves CDNA 4 too.
constexpr std::size_t row_of(Architecture a) {
  switch (a) {
    case Architecture::kVolta:
      return 0;
    case Architecture::kAmpere:
    case Architecture::kAda:
      return 1;
    case Architecture::kHopper:
      return 2;
    case Architecture::kBlackwell:
      return 3;
    case Architecture::kCdna3:
    case Architecture::kCdna4:
      return 4;
  }
  return 1;
}

// Microseconds by protocol: LL, LL128, Simple.
using ByProtocol = std::array<double, 3>;

struct HopLatencies {
  ByProtocol ring, tree, nvls, nvls_tree, pat;
};

constexpr HopLatencies kNvlinkHops{
    {0.6, 1.9, 3.4}, {0.6, 1.25, 4.0}, {0, 0, 25}, {0, 0, 25}, {0, 0, 4}};
constexpr HopLatencies kPcieHops{{1.0, 2.5, 5.7}, {1.0, 1.9, 4.0}, {}, {}, {0, 0, 4}};
constexpr HopLatencies kNetworkHops{
    {2.7, 4.0, 14}, {5.0, 8.5, 14}, {0, 0, 18}, {0, 0, 20.9}, {0, 0, 14}};

constexpr ByProtocol kRingBase{6.6, 14, 8.4};
constexpr ByProtocol kTreeBase{6.8, 14, 8.4};
constexpr double kPatBase = 8;

const HopLatencies& hops_of(LinkKind kind) {
  if (is_network(kind)) return kNetworkHops;
  return kind == LinkKind::kPcie ? kPcieHops : kNvlinkHops;
}

const ByProtocol& row_of(const HopLatencies& hops, Algorithm a) {
  switch (a) {
    case Algorithm::kTree:
      return hops.tree;
    case Algorithm::kNvls:
      return hops.nvls;
    case Algorithm::kNvlsTree:
      return hops.nvls_tree;
    case Algorithm::kPat:
      return hops.pat;
    case Algorithm::kMeasured:
    case Algorithm::kRing:
    case Algorithm::kPairwise:
    case Algorithm::kHierarchical:
      return hops.ring;
  }
  return hops.ring;
}

// Shares of a tree's bandwidth at sizes from 64 bytes, doubling.
constexpr std::size_t kCorrections = 23;
using Corrections = std::array<double, kCorrections>;
constexpr std::array<Corrections, 3> kTreeCorrection{
    Corrections{1.0, 1.0, 1.0, 1.0, .9, .8, .7, .7, .7, .7, .6, .5,
                .4,  .4,  .5,  .6,  .7, .8, .9, 1,  1,  1,  1},
    Corrections{1.0, 1.0, 1.0, 1.0, 1.0, .9, .8, .8, .8, .7, .6, .6,
                .6,  .6,  .6,  .6,  .8,  .9, .9, .9, .9, 1,  1},
    Corrections{.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
                .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9}};

constexpr double size_of_step(std::size_t k) {
  return 64.0 * static_cast<double>(std::uint64_t{1} << k);
}

// least[p][k]: least corrected size of any step from k on; uncorrected beyond the last.
constexpr auto kLeastFrom = [] {
  std::array<std::array<double, kCorrections + 1>, 3> least{};
  for (std::size_t p = 0; p < least.size(); ++p) {
    least[p][kCorrections] = size_of_step(kCorrections);
    for (std::size_t k = kCorrections; k-- > 0;) {
      least[p][k] = std::min(least[p][k + 1], size_of_step(k) / kTreeCorrection[p][k]);
    }
  }
  return least;
}();

}  // namespace

const ArchitectureConstants& constants_of(Architecture a) { return kArchitectures[row_of(a)]; }

Seconds reference_latency(LinkKind kind) {
  if (is_network(kind)) return microseconds(8);
  return microseconds(kind == LinkKind::kPcie ? 5.7 : 3);
}

// What a hop adds of a link's latency, in NCCL's order of protocols. [F-COMM-22] On EFA what fits
// nccl-tests' all-reduce of 32 MB to 8 GB on 2 to 32 nodes of p5.48xlarge beside a latency of 25
// us, that of a few bytes.
constexpr std::array kCrossings{1.0, 1.0, 2.0};
constexpr std::array kEfaCrossings{1.0, 4.0, 8.0};

Seconds hop_time(const LinkLevel& level, Algorithm a, Protocol p) {
  const double hop = row_of(hops_of(level.kind), a)[static_cast<std::size_t>(p)];
  const Seconds reference = reference_latency(level.kind);
  const Seconds excess = level.latency - reference;
  if (excess <= Seconds{0}) return microseconds(hop) * (level.latency / reference);
  const auto& crossings = level.kind == LinkKind::kEfa ? kEfaCrossings : kCrossings;
  return microseconds(hop) + excess * crossings[static_cast<std::size_t>(p)];
}

Seconds base_time(Algorithm a, Protocol p) {
  const auto i = static_cast<std::size_t>(p);
  switch (a) {
    case Algorithm::kTree:
      return microseconds(kTreeBase[i]);
    case Algorithm::kPat:
      return microseconds(kPatBase);
    case Algorithm::kNvls:
    case Algorithm::kNvlsTree:
      return Seconds{0};
    case Algorithm::kMeasured:
    case Algorithm::kRing:
    case Algorithm::kPairwise:
    case Algorithm::kHierarchical:
      return microseconds(kRingBase[i]);
  }
  return Seconds{0};
}

// NVLink and NVSwitch: NCCL's rings on HGX A100, H100 and B200 carry 240 of 300, 360 of 450 and
// 720 of 900 GB/s. xGMI: 48 of 64 GB/s per link after coding (AMD, "Understanding RCCL bandwidth
// and xGMI performance on MI300X", 2025), of which rings reach some 0.93. PCIe: 24 of 32 and 48 of
// 64 GB/s (topo.h). InfiniBand and RoCE: 24 of 25 and 48 of 50 GB/s (speeds of the search).
// EFA: [F-COMM-22]. Ethernet with TCP: 1448 of 1538 bytes of a frame are payload.
double link_efficiency(LinkKind kind) {
  switch (kind) {
    case LinkKind::kNvswitch:
    case LinkKind::kNvlink:
      return 0.8;
    case LinkKind::kXgmi:
      return 0.7;
    case LinkKind::kPcie:
      return 0.75;
    case LinkKind::kInfiniband:
    case LinkKind::kRoce:
      return 0.96;
    case LinkKind::kEfa:
      return 0.88;
    case LinkKind::kEthernet:
      return 1448.0 / 1538.0;
  }
  return 1;
}

double tree_corrected_bytes(double bytes, Protocol p) {
  if (bytes < 64) return bytes;
  const auto units = static_cast<std::uint64_t>(bytes / 64);
  const auto k = static_cast<std::size_t>(std::bit_width(units) - 1);
  if (k >= kCorrections) return bytes;
  const auto row = static_cast<std::size_t>(p);
  return std::min(bytes / kTreeCorrection[row][k], kLeastFrom[row][k + 1]);
}

}  // namespace meshplan
