#pragma once
// Clusters for the tests of lib/comm, their nominal rates from the vendors' datasheets.
#include "layout/groups.hpp"
#include "spec/cluster.hpp"
#include "spec/strategy.hpp"

namespace meshplan::comm_test {

struct Fabric {
  Architecture architecture = Architecture::kHopper;
  LinkKind inside = LinkKind::kNvswitch;
  double inside_rate = 450;  // GB/s
  double network_rate = 50;
  LinkKind network = LinkKind::kInfiniband;
};

inline constexpr Fabric kA100{Architecture::kAmpere, LinkKind::kNvswitch, 300, 25};
inline constexpr Fabric kH100{Architecture::kHopper, LinkKind::kNvswitch, 450, 50};
inline constexpr Fabric kB200{Architecture::kBlackwell, LinkKind::kNvswitch, 900, 50};
inline constexpr Fabric kPcie4{Architecture::kAmpere, LinkKind::kPcie, 32, 25};
inline constexpr Fabric kPcie5{Architecture::kHopper, LinkKind::kPcie, 64, 50};
inline constexpr Fabric kMi300{Architecture::kCdna3, LinkKind::kXgmi, 448, 50, LinkKind::kRoce};

inline Seconds microseconds_of(double t) { return Seconds{t * 1e-6}; }

// Nodes of `gpus` devices under one network, with the latencies that NCCL's constants stand for.
inline ClusterSpec cluster(const Fabric& f, std::int64_t gpus = 8, std::int64_t nodes = 64) {
  ClusterSpec c;
  c.name = "test";
  c.device.architecture = f.architecture;
  c.nodes = nodes;
  c.gpus_per_node = gpus;
  const double hop = f.inside == LinkKind::kPcie ? 5.7 : 3;
  c.levels = {
      {"node", gpus, BytesPerSecond{f.inside_rate * 1e9}, microseconds_of(hop), f.inside, 1},
      {"network", 0, BytesPerSecond{f.network_rate * 1e9}, microseconds_of(8), f.network, 1}};
  return c;
}

// `members` ranks, `stride` apart, from rank 0 on.
inline GroupShape group(const ClusterSpec& c, std::int64_t members, std::int64_t stride = 1) {
  Strategy s;
  s.tp = stride;
  s.etp = stride;
  s.dp = members;
  return group_shape(s, c, Group::kDp);
}

}  // namespace meshplan::comm_test
