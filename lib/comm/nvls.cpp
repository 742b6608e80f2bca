#include <algorithm>
#include <cmath>

#include "comm/algorithms.hpp"

namespace meshplan {
namespace {

bool has_nvls(const Route& r) {
  return r.limits->nvls_efficiency > 0 && r.switched && r.fewest >= 2;
}

// Nominal rate of the slowest switch level that joins members of a node, and its latency.
const LinkLevel& switch_level(const Route& r) {
  std::size_t slowest = 0;
  for (std::size_t l = 0; l < r.node_levels; ++l) {
    if (hops(*r.shape, l) > 0) slowest = l;
  }
  return r.level(slowest);
}

// [F-COMM-12] NVLS bus bandwidth inside a node: each of the w members has one channel, of at most a
// share of its link rate; the switch reduces and multicasts with an efficiency (0.85 Hopper, 0.74
// Blackwell), its own part (w - 1) / w staying at home; an all-reduce does both directions at once,
// a gather or scatter moves (w - 1) / w. tuning.cc (nvlsEfficiency), search.cc.
BytesPerSecond nvls_rate(const Route& r, bool all_reduce) {
  const BytesPerSecond link = switch_level(r).bandwidth;
  const BytesPerSecond channels = link * (r.fewest * r.limits->nvls_channel);
  const double remote = (r.fewest - 1) / r.fewest;
  const BytesPerSecond inside = std::min(channels, link * r.limits->nvls_total) *
                                (r.limits->nvls_efficiency * remote * (all_reduce ? 2 : remote));
  return std::min(inside, channels);
}

double all_reduce_share(const Route& r) { return 2 * (r.ranks - 1) / r.ranks; }

}  // namespace

// [F-COMM-13] NVLS: t = 25 us + S * f / B, f = 2 (n - 1) / n for all-reduce, 1 for the others.
// tuning.cc.
std::optional<AlgorithmTime> nvls_time(const Route& r, Collective op, Bytes bytes) {
  if (r.nodes > 1 || !has_nvls(r)) return std::nullopt;
  const bool all_reduce = op == Collective::kAllReduce;
  const double share = all_reduce ? all_reduce_share(r) : 1;
  const Seconds latency = hop_time(switch_level(r), Algorithm::kNvls, Protocol::kSimple);
  return AlgorithmTime{latency, Seconds{bytes.si() * share / nvls_rate(r, all_reduce).si()}};
}

// [F-COMM-14] NVLS tree: t = 25 us + 2 log2(nodes) * hop + S * f / B; B the least of NVLS inside
// nodes, the network (twice it for two nodes, where each sends one half only), and a limit per
// channel. tuning.cc.
std::optional<AlgorithmTime> nvls_tree_time(const Route& r, Bytes bytes) {
  if (r.nodes <= 1 || !has_nvls(r)) return std::nullopt;
  const GroupShape& g = *r.shape;
  Seconds sum{0};
  for (std::size_t l = r.node_levels; l < g.num_levels; ++l) {
    if (hops(g, l) <= 0) continue;
    const double depth = std::log2(parts_below(g, l) / static_cast<double>(g.blocks[l]));
    sum += hop_time(r.level(l), Algorithm::kNvlsTree, Protocol::kSimple) * depth;
  }
  const Seconds latency =
      hop_time(switch_level(r), Algorithm::kNvls, Protocol::kSimple) + sum * 2.0;
  const BytesPerSecond network = r.network * (r.nodes <= 2 ? 2.0 : 1.0);
  const BytesPerSecond limit = gigabytes_per_second(r.channels * r.limits->nvls_tree.at(r.nodes));
  const BytesPerSecond rate = std::min({nvls_rate(r, true), network, limit});
  return AlgorithmTime{latency, Seconds{bytes.si() * all_reduce_share(r) / rate.si()}};
}

}  // namespace meshplan
