#include <algorithm>
#include <limits>

#include "comm/algorithms.hpp"

namespace meshplan {
namespace {

// All-to-all inside a node reaches 0.597 of B200's NVLink rate where an all-reduce reaches 0.742
// (SimuMax, measured B200 profile).
constexpr double kAllToAllShare = 0.597 / 0.742;

// RCCL loses 4 % of the network's rate per further node (Primus, measured on MI300X).
constexpr double kRcclLossPerNode = 0.04;

BytesPerSecond pair_rate(const Route& r, BytesPerSecond rate, Protocol p) {
  return p == Protocol::kLl ? std::min(rate * 0.5, low_latency_limit(r)) : rate;
}

// Bytes that a rank hands to level `l` on its way to the members beyond the level's inner blocks:
// a network card carries all that leaves the node, a link inside the node only what it joins.
double bytes_through(const Route& r, std::size_t l, double bytes) {
  const double reached = r.is_inside(l) ? static_cast<double>(r.shape->within[l]) : r.ranks;
  return bytes * std::max(0.0, reached - fewest_below(*r.shape, l)) / r.ranks;
}

// Halves of a node exchange w^2 / 4 parts over the link between the sockets.
BytesPerSecond inside_rate(const Route& r, std::size_t l) {
  const auto within = static_cast<double>(r.shape->within[l]);
  const double peers = within - 1;
  const BytesPerSecond rate = device_rate(r, l, peers) * kAllToAllShare;
  const BytesPerSecond socket = socket_share(r, l, r.limits->pcie_socket_ring);
  return std::min(rate, socket * (4 * peers / (within * within)));
}

BytesPerSecond network_rate(const Route& r, std::size_t l) {
  const BytesPerSecond rate = device_rate(r, l, 1);
  const bool rccl = is_amd(r.cluster->device.architecture);
  return rccl ? rate / (1 + kRcclLossPerNode * (r.nodes - 1)) : rate;
}

// Slowest level; inside a node and between nodes run at the same time.
Seconds exchange_time(const Route& r, double bytes, double forwarded, Protocol p) {
  Seconds slowest{0};
  for (std::size_t l = 0; l < r.shape->num_levels; ++l) {
    if (hops(*r.shape, l) <= 0) continue;
    const double extra = r.is_inside(l) ? forwarded : 0;
    const BytesPerSecond rate = r.is_inside(l) ? inside_rate(r, l) : network_rate(r, l);
    const double through = bytes_through(r, l, bytes) + extra;
    slowest = std::max(slowest, Seconds{through / pair_rate(r, rate, p).si()});
  }
  return slowest;
}

// [F-COMM-22] On EFA: 7 us for each member of another node, and its links carry 0.88 of their rate.
// nccl-tests on p5.48xlarge, 2 to 32 nodes (crazyguitar, aws-gpu-communication-benchmark): the time
// of 32 MB to all grows from 0.7 to 1.7 ms, by 0.1 ms a node, as of members that post their parts
// one by one and never by rails; all-to-all of 2 GB gets 0.78 to 0.86 of the rate, all-reduce of 8
// GB 0.8 to 0.89.
Seconds post_time(const Route& r) {
  constexpr double kEfaPost = 7;
  return microseconds(r.efa ? kEfaPost : r.limits->network_overhead_us);
}

Seconds network_hop(const Route& r, Protocol p) {
  return hop_time(r.level(r.shape->level), Algorithm::kTree, p);
}

Seconds inside_hops(const Route& r, double peers, Protocol p) {
  if (peers <= 0 || r.node_levels == 0) return Seconds{0};
  const std::size_t l = std::min(r.shape->level, r.node_levels - 1);
  return hop_time(r.level(l), Algorithm::kRing, p) * peers;
}

}  // namespace

// [F-COMM-15] All-to-all, pair by pair: t = base + (w - 1) hops inside the node + (n - w) posts to
// the network and its latency + the slowest level's bytes over its rate. A rank sends (n - w) / n
// of its buffer through its network card and (w - 1) / n of it over the node's links; w members of
// the node. Latencies as the ring's (tuning.cc has no model of send and receive).
std::optional<AlgorithmTime> pairwise_time(const Route& r, Bytes bytes, Protocol p) {
  if (p == Protocol::kLl128) return std::nullopt;
  Seconds latency = base_time(Algorithm::kRing, p) + inside_hops(r, r.per_node - 1, p);
  if (r.nodes > 1) {
    latency += network_hop(r, p) + post_time(r) * (r.ranks - r.fewest);
  }
  return AlgorithmTime{latency, exchange_time(r, bytes.si(), 0, p)};
}

// [F-COMM-16] All-to-all by rails: a card posts one message per other node instead of one per other
// rank, after one more exchange inside the node, which carries (w - 1) / w of what leaves it.
// NCCL 2.12 and later (PXN), on NVSwitch.
std::optional<AlgorithmTime> hierarchical_time(const Route& r, Bytes bytes, Protocol p) {
  if (p == Protocol::kLl128 || r.nodes <= 1 || r.fewest < 2) return std::nullopt;
  if (!r.switched || r.efa) return std::nullopt;
  const double leaving = bytes.si() * (r.ranks - r.fewest) / r.ranks;
  const Seconds latency = base_time(Algorithm::kRing, p) + inside_hops(r, 2 * (r.per_node - 1), p) +
                          network_hop(r, p) + post_time(r) * (r.nodes - 1);
  const double forwarded = leaving * (r.per_node - 1) / r.per_node;
  return AlgorithmTime{latency, exchange_time(r, bytes.si(), forwarded, p)};
}

// [F-COMM-17] Send and receive: t = base + one hop of the farthest level + S over the rate of one
// device on the slowest level that members cross; in a mesh, of one link.
std::optional<AlgorithmTime> send_recv_time(const Route& r, Bytes bytes, Protocol p) {
  if (p == Protocol::kLl128) return std::nullopt;
  BytesPerSecond rate{std::numeric_limits<double>::infinity()};
  for (std::size_t l = 0; l < r.shape->num_levels; ++l) {
    if (hops(*r.shape, l) <= 0) continue;
    rate = std::min({rate, device_rate(r, l, 1), socket_share(r, l, r.limits->pcie_socket_ring)});
  }
  const Seconds hop = r.nodes > 1 ? network_hop(r, p) : inside_hops(r, 1, p);
  return AlgorithmTime{base_time(Algorithm::kRing, p) + hop,
                       Seconds{bytes.si() / pair_rate(r, rate, p).si()}};
}

}  // namespace meshplan
