#include "validate/subset.hpp"

#include <algorithm>
#include <set>
#include <tuple>

#include "comm/collectives.hpp"

namespace meshplan {
namespace {

// Nodes that these ranks sit on where the planned cluster's devices are taken in order.
std::int64_t planned_nodes(const std::vector<std::int64_t>& ranks, const ClusterSpec& c) {
  std::set<std::int64_t> nodes;
  for (const std::int64_t rank : ranks) nodes.insert(rank / c.gpus_per_node);
  return static_cast<std::int64_t>(nodes.size());
}

bool same_placement(GroupShape a, const GroupShape& b) {
  a.stride = b.stride;
  // Zero stands for "the same as within".
  GroupShape other = b;
  for (GroupShape* g : {&a, &other}) {
    for (std::size_t l = 0; l < g->num_levels; ++l) {
      if (g->fewest[l] == 0) g->fewest[l] = g->within[l];
    }
  }
  return a == other;
}

struct Candidate {
  RankGroup group;
  GroupShape shape;  // on the planned cluster
  std::int64_t nodes = 1;
};

// A group of the machine's first ranks as the planned cluster would place it; nothing where the
// machine's nodes are cut in another way, so that the two are not the same thing.
std::optional<Candidate> candidate(std::int64_t size, std::int64_t stride, const ClusterSpec& c,
                                   const Machine& m) {
  std::vector<std::int64_t> ranks;
  for (std::int64_t i = 0; i < size; ++i) ranks.push_back(i * stride);
  Candidate found{{size, stride, 0, true}, shape_of(ranks, c), 1};
  found.nodes = nodes_of(found.group, m);
  if (found.nodes != planned_nodes(ranks, c)) return std::nullopt;
  return found;
}

// Nearest to the planned group: as many members per node, then more of them, then as far apart.
std::optional<Candidate> largest(const PlannedOperation& p, const RankGroup& wanted,
                                 const ClusterSpec& c, const Machine& m) {
  const auto ranks = std::min(static_cast<std::int64_t>(m.ranks.size()), num_gpus(c));
  const std::int64_t nodes = planned_nodes(p.ranks, c);
  const double per_node = static_cast<double>(wanted.size) / static_cast<double>(nodes);
  std::optional<Candidate> best;
  std::tuple<bool, std::int64_t, std::int64_t> best_score;
  for (std::int64_t stride = std::min(wanted.stride, ranks / 2); stride >= 1; --stride) {
    for (std::int64_t size = std::min(wanted.size, ranks / stride); size >= 2; size /= 2) {
      const std::optional<Candidate> here = candidate(size, stride, c, m);
      if (!here || (here->nodes > 1) != (nodes > 1)) continue;
      const bool as_dense =
          nodes == 1 || static_cast<double>(size) / static_cast<double>(here->nodes) == per_node;
      const std::tuple score{as_dense, size, stride};
      if (best && score <= best_score) continue;
      best = here;
      best_score = score;
    }
  }
  return best;
}

std::string ranks_text(std::int64_t n) { return std::to_string(n) + " ranks"; }

Subset subset_of_collective(const PlannedOperation& p, CollectiveOperation op, const ClusterSpec& c,
                            const Machine& m) {
  Subset s;
  if (m.time_sliced) {
    s.reason = "the ranks share a device: their times are of time slices";
    return s;
  }
  const auto ranks = static_cast<std::int64_t>(m.ranks.size());
  if (ranks < 2) {
    s.reason = "one rank has nobody to talk to";
    return s;
  }
  const bool in_pairs = op.group.size != p.group->size;
  const std::optional<Candidate> found = largest(p, op.group, c, m);
  if (!found) {
    const bool crosses = planned_nodes(p.ranks, c) > 1;
    s.reason = crosses && m.nodes == 1 ? "it crosses nodes, and there is one node here"
                                       : "no group of these ranks is placed like it";
    return s;
  }
  op.group = found->group;
  s.operation = op;
  s.group = found->shape;
  // Pairs of a ring stand for the ring itself, inside of one block of devices.
  const bool faithful =
      in_pairs ? found->shape.level == p.group->level : same_placement(found->shape, *p.group);
  s.fidelity = faithful ? Fidelity::kMeasured : Fidelity::kExtrapolated;
  s.predicted =
      faithful ? p.predicted : collective_time(c, op.collective, op.bytes, found->shape).total;
  if (!faithful) {
    const bool smaller = found->group.size < p.group->size;
    s.reason = smaller ? ranks_text(found->group.size) + " instead of " + ranks_text(p.group->size)
                       : "its ranks are nearer to each other here";
  }
  return s;
}

}  // namespace

Subset subset_for(const PlannedOperation& p, const ClusterSpec& c, const Machine& m) {
  Subset s;
  if (!p.operation) {
    s.reason = p.why_not;
    return s;
  }
  if (const auto* collective = std::get_if<CollectiveOperation>(&*p.operation)) {
    return subset_of_collective(p, *collective, c, m);
  }
  s.fidelity = Fidelity::kMeasured;
  s.operation = p.operation;
  s.predicted = p.predicted;
  return s;
}

}  // namespace meshplan
