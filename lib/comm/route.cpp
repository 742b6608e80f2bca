#include "comm/route.hpp"

#include <algorithm>
#include <limits>

namespace meshplan {
namespace {

constexpr BytesPerSecond kUnlimited{std::numeric_limits<double>::infinity()};

double block_span(const Route& r, std::size_t l) {
  const std::int64_t span = r.level(l).span;
  const std::int64_t node = std::max<std::int64_t>(r.cluster->gpus_per_node, 2);
  const std::int64_t members = std::max<std::int64_t>(r.shape->within[l], 2);
  return static_cast<double>(std::max(members, span > 0 ? span : node));
}

// [F-COMM-4] Ring bandwidth that level `l` allows. Inside a node every member sends to the next:
// the device's rate, and w / (w - 1) of it where the ring leaves the node, since one of the w
// members then sends elsewhere. Between blocks: the uplinks of the members of one block, in the
// emptiest one (NCCL gives each member's network card a channel), over the oversubscription.
BytesPerSecond ring_rate(const Route& r, std::size_t l, double socket_rate, double share) {
  const GroupShape& g = *r.shape;
  const double uplinks = fewest_below(g, l);
  if (!r.is_inside(l)) return device_rate(r, l, 1) * uplinks;
  const auto within = static_cast<double>(g.within[l]);
  const auto fewest = static_cast<double>(g.fewest[l] > 0 ? g.fewest[l] : g.within[l]);
  BytesPerSecond rate = device_rate(r, l, std::max(1.0, fewest - 1)) * uplinks * share;
  if (g.blocks[l] > 1) rate *= within / (within - 1);
  return std::min(rate, socket_share(r, l, socket_rate));
}

// Channels to the network: one per card, more where one channel cannot carry a card's rate; NCCL
// splits fast channels in two where there are few (search.cc, ncclTopoDupChannels).
double network_channels(const Route& r) {
  const LinkLevel& card = r.level(r.node_levels);
  const double rate =
      card.bandwidth.si() / card.oversubscription * link_efficiency(card.kind) / 1e9;
  const double speed = r.limits->channel_speed;
  const double channels = r.fewest * std::max(1.0, rate / speed);
  const bool splits = rate >= 25 && (r.limits->doubles_any_channel || r.fewest <= 4);
  return splits ? 2 * channels : channels;
}

}  // namespace

double parts_below(const GroupShape& g, std::size_t l) {
  return static_cast<double>(l == 0 ? g.size : g.blocks[l - 1]);
}

double fewest_below(const GroupShape& g, std::size_t l) {
  if (l == 0) return 1;
  return static_cast<double>(g.fewest[l - 1] > 0 ? g.fewest[l - 1] : g.within[l - 1]);
}

double within_below(const GroupShape& g, std::size_t l) {
  return static_cast<double>(l == 0 ? 1 : g.within[l - 1]);
}

double hops(const GroupShape& g, std::size_t l) {
  return parts_below(g, l) - static_cast<double>(g.blocks[l]);
}

// [F-COMM-5] nominal rate * efficiency / oversubscription; in a full mesh (xGMI, NVLink without a
// switch) peers / (devices - 1) of it, each peer having its own link.
BytesPerSecond device_rate(const Route& r, std::size_t l, double peers) {
  const LinkLevel& level = r.level(l);
  const BytesPerSecond rate =
      level.bandwidth * (link_efficiency(level.kind) / level.oversubscription);
  return is_mesh(level.kind) ? rate * (peers / (block_span(r, l) - 1)) : rate;
}

BytesPerSecond low_latency_limit(const Route& r) {
  const ArchitectureConstants& limits = *r.limits;
  return gigabytes_per_second(
      ByNodes{limits.ll_one_node, limits.ll_two_nodes, limits.ll_more_nodes}.at(r.nodes));
}

BytesPerSecond socket_share(const Route& r, std::size_t l, double socket_rate) {
  if (r.level(l).kind != LinkKind::kPcie) return kUnlimited;
  const auto within = static_cast<double>(r.shape->within[l]);
  const double span = block_span(r, l);
  const double extent = (within - 1) * static_cast<double>(r.shape->stride) + 1;
  if (extent <= span / 2) return kUnlimited;
  return gigabytes_per_second(socket_rate) * (within / span);
}

Route route_of(const ClusterSpec& c, const GroupShape& g) {
  Route r;
  r.cluster = &c;
  r.shape = &g;
  r.limits = &constants_of(c.device.architecture);
  while (r.node_levels < g.num_levels && !is_network(c.levels[r.node_levels].kind)) ++r.node_levels;
  r.ranks = static_cast<double>(g.size);
  r.nodes = parts_below(g, r.node_levels);
  r.per_node = within_below(g, r.node_levels);
  r.fewest = fewest_below(g, r.node_levels);
  r.inside = r.inside_tree = r.network = kUnlimited;
  for (std::size_t l = 0; l < g.num_levels; ++l) {
    if (hops(g, l) <= 0) continue;
    const LinkLevel& level = c.levels[l];
    if (!r.is_inside(l)) {
      r.ethernet = r.ethernet || level.kind == LinkKind::kEthernet;
      r.efa = r.efa || level.kind == LinkKind::kEfa;
      r.network = std::min(r.network, ring_rate(r, l, 0, 1));
      continue;
    }
    r.pcie = r.pcie || level.kind == LinkKind::kPcie;
    r.switched = r.switched && level.kind == LinkKind::kNvswitch;
    // Inside one node a tree may get less of a switch than a ring (fewer, faster channels).
    const bool lone_switch = level.kind == LinkKind::kNvswitch && r.nodes <= 1;
    const double share = lone_switch ? r.limits->tree_share / link_efficiency(level.kind) : 1;
    r.inside = std::min(r.inside, ring_rate(r, l, r.limits->pcie_socket_ring, 1));
    r.inside_tree = std::min(r.inside_tree, ring_rate(r, l, r.limits->pcie_socket_tree, share));
  }
  r.channels = r.nodes > 1 ? network_channels(r) : r.limits->channels;
  return r;
}

}  // namespace meshplan
