#include <algorithm>
#include <cmath>

#include "comm/algorithms.hpp"

namespace meshplan {
namespace {

// Host time to post a network operation; Simple posts three (NCCL: netOverhead).
Seconds network_overhead(const Route& r, Protocol p) {
  return microseconds(r.limits->network_overhead_us * (p == Protocol::kSimple ? 3 : 1));
}

// [F-COMM-6] Latencies of a chain through all members: sum over levels of hops * hop time, where a
// level has as many hops as parts it joins. With several nodes no step inside one is shorter than
// posting a network operation; with one member per node nothing hides the network's latency, and
// the tree's constant applies. NCCL 2.28.9 tuning.cc, ncclTopoTuneModel.
Seconds chain_latency(const Route& r, Protocol p) {
  Seconds sum{0};
  for (std::size_t l = 0; l < r.shape->num_levels; ++l) {
    const double n = hops(*r.shape, l);
    if (n <= 0) continue;
    const bool exposed = !r.is_inside(l) && r.per_node == 1;
    Seconds hop = hop_time(r.level(l), exposed ? Algorithm::kTree : Algorithm::kRing, p);
    if (r.is_inside(l) && r.nodes > 1) hop = std::max(hop, network_overhead(r, p));
    sum += hop * n;
  }
  return sum;
}

// [F-COMM-7] Share of the ring's bandwidth that a protocol carries: LL half (every 8 bytes hold 4
// of data and 4 of flag), LL128 0.92 (120 of 128); both also up to a limit. tuning.cc.
BytesPerSecond ring_rate(const Route& r, BytesPerSecond bus, Protocol p) {
  switch (p) {
    case Protocol::kLl:
      return std::min(bus * 0.5, low_latency_limit(r));
    case Protocol::kLl128:
      return std::min(bus * 0.92,
                      gigabytes_per_second(r.channels * r.limits->ring_ll128.at(r.nodes)));
    case Protocol::kSimple:
      return bus;
  }
  return bus;
}

// Levels of a tree between nodes, split over the network levels by how many parts each joins.
double depth(const GroupShape& g, std::size_t l) {
  return std::log2(parts_below(g, l) / static_cast<double>(g.blocks[l]));
}

// [F-COMM-8] Tree: t = base + 2 * ((w - 1) chain hops inside a node + log2(nodes) hops between
// nodes); tuning.cc.
Seconds tree_latency(const Route& r, Protocol p) {
  const GroupShape& g = *r.shape;
  Seconds sum{0};
  for (std::size_t l = 0; l < g.num_levels; ++l) {
    if (hops(g, l) <= 0) continue;
    const auto within = static_cast<double>(g.within[l]);
    const double n =
        r.is_inside(l) ? r.per_node / within_below(g, l) - r.per_node / within : depth(g, l);
    sum += hop_time(r.level(l), Algorithm::kTree, p) * n;
  }
  return base_time(Algorithm::kTree, p) + sum * 2.0;
}

// [F-COMM-9] A tree's bandwidth: 0.92 of the ring's up to a limit per channel; LL 1 / 3.8 of that;
// LL128 7/9 in one node and 120/128 in several; 0.85 where a node has one tree branch per card.
// Data crosses every link up and down: half of it is algorithm bandwidth. tuning.cc.
BytesPerSecond tree_rate(const Route& r, Protocol p) {
  const auto limit = [&](const ByNodes& per_channel) {
    return gigabytes_per_second(r.channels * per_channel.at(r.nodes));
  };
  const BytesPerSecond bus = std::min(r.inside_tree, r.network);
  BytesPerSecond rate = std::min(bus * 0.92, limit(r.limits->tree));
  if (p == Protocol::kLl) rate = std::min(rate / 3.8, low_latency_limit(r));
  if (p == Protocol::kLl128) {
    rate = std::min(rate * (r.nodes > 1 ? 120.0 / 128.0 : 7.0 / 9.0), limit(r.limits->tree_ll128));
  }
  if (r.nodes > 1 && r.per_node > 1) rate *= 0.85;
  return rate * 0.5;
}

}  // namespace

bool has_protocol(const Route& r, Protocol p) {
  return p != Protocol::kLl128 || (!r.pcie && !r.ethernet);
}

// [F-COMM-10] Ring: t = base + passes * chain latency + S * f / B. All-reduce: 2 passes,
// f = 2 (n - 1) / n; all-gather and reduce-scatter: 1 pass, f = (n - 1) / n; broadcast: f = 1.
// tuning.cc; f as nccl-tests doc/PERFORMANCE.md. The latency of a multi-node all-reduce with 64
// bytes or more per channel and rank is 1.4 times as long (1.9 before Ampere).
std::optional<AlgorithmTime> ring_time(const Route& r, Collective op, Bytes bytes, Protocol p) {
  if (!has_protocol(r, p)) return std::nullopt;
  const bool all_reduce = op == Collective::kAllReduce;
  const double passes = all_reduce ? 2 : 1;
  const double share = op == Collective::kBroadcast ? 1 : passes * (r.ranks - 1) / r.ranks;
  Seconds latency = base_time(Algorithm::kRing, p) + chain_latency(r, p) * passes;
  const bool busy = bytes.si() >= 64 * r.channels * r.ranks;
  if (all_reduce && p == Protocol::kSimple && r.nodes > 1 && busy) latency *= r.limits->plateau;
  const BytesPerSecond rate = ring_rate(r, std::min(r.inside, r.network), p);
  return AlgorithmTime{latency, Seconds{bytes.si() * share / rate.si()}};
}

std::optional<AlgorithmTime> tree_time(const Route& r, Bytes bytes, Protocol p) {
  if (!has_protocol(r, p)) return std::nullopt;
  const double corrected = tree_corrected_bytes(bytes.si(), p);
  return AlgorithmTime{tree_latency(r, p), Seconds{corrected / tree_rate(r, p).si()}};
}

// [F-COMM-11] Parallel aggregated trees: t = 8 us + log2(n) * hop / 3.5 + 2.8 us * n
// + S / (0.75 B). tuning.cc; NCCL uses them only where no node has two members, RCCL (2.2x) not at
// all.
std::optional<AlgorithmTime> pat_time(const Route& r, Bytes bytes) {
  const bool rccl = is_amd(r.cluster->device.architecture);
  if (r.nodes <= 1 || r.per_node > 1 || rccl) return std::nullopt;
  Seconds sum{0};
  for (std::size_t l = r.node_levels; l < r.shape->num_levels; ++l) {
    if (hops(*r.shape, l) <= 0) continue;
    sum += hop_time(r.level(l), Algorithm::kTree, Protocol::kSimple) * depth(*r.shape, l);
  }
  const Seconds latency =
      base_time(Algorithm::kPat, Protocol::kSimple) + sum / 3.5 + microseconds(2.8) * r.ranks;
  return AlgorithmTime{latency, Seconds{bytes.si() / (r.network.si() * 0.75)}};
}

}  // namespace meshplan
