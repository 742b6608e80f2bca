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

std::vector<std::int64_t> first_members(const RankGroup& g) {
  const std::int64_t run = g.run > 0 ? g.run : g.size;
  std::vector<std::int64_t> ranks;
  for (std::int64_t i = 0; i < g.size; ++i) ranks.push_back(i / run * g.jump + i % run * g.stride);
  return ranks;
}

struct Candidate {
  RankGroup group;
  GroupShape shape;  // on the planned cluster
  std::int64_t nodes = 1;
};

// Of the planned group's kind, among the machine's ranks.
class Candidates {
 public:
  Candidates(const PlannedOperation& p, const RankGroup& wanted, const ClusterSpec& c,
             const Machine& m)
      : wanted_(wanted),
        c_(c),
        m_(m),
        ranks_(std::min(static_cast<std::int64_t>(m.ranks.size()), num_gpus(c))),
        nodes_(planned_nodes(p.ranks, c)) {}

  // Nearest to the planned group: as many members per node, then more of them, then in runs as
  // planned, then as far apart. The planned one itself where there is room for it.
  std::optional<Candidate> best() {
    consider(wanted_);
    if (best_) return best_;
    if (wanted_.run > 0) consider_runs();
    consider_even();
    return best_;
  }

 private:
  const RankGroup& wanted_;
  const ClusterSpec& c_;
  const Machine& m_;
  std::int64_t ranks_, nodes_;
  std::optional<Candidate> best_;
  std::tuple<bool, std::int64_t, bool, std::int64_t> best_score_;

  // Fewer runs of fewer members, nearer to each other.
  void consider_runs() {
    for (std::int64_t run = wanted_.run; run >= 2; run /= 2) {
      for (std::int64_t runs = wanted_.size / wanted_.run; runs >= 2; runs /= 2) {
        const std::int64_t span = run * wanted_.stride;
        for (std::int64_t jump = wanted_.jump; jump > span; jump /= 2) {
          consider({.size = run * runs, .stride = wanted_.stride, .run = run, .jump = jump});
        }
      }
    }
  }

  void consider_even() {
    for (std::int64_t stride = std::min(wanted_.stride, ranks_ / 2); stride >= 1; --stride) {
      for (std::int64_t size = std::min(wanted_.size, ranks_ / stride); size >= 2; size /= 2) {
        consider({.size = size, .stride = stride});
      }
    }
  }

  // Left out: groups for which there is no room, those that do not cross nodes as the planned one
  // does, and those of nodes that are cut in another way than the planned cluster's, so that the
  // two are not the same thing.
  void consider(const RankGroup& g) {
    if (malformed(g) || period_of(g) > ranks_) return;
    const auto score = [&](bool as_dense) {
      return std::tuple{as_dense, g.size, (g.run > 0) == (wanted_.run > 0), g.stride};
    };
    if (best_ && score(true) <= best_score_) return;  // spares the look at every rank
    const std::vector<std::int64_t> ranks = first_members(g);
    const std::int64_t planned = planned_nodes(ranks, c_);
    if ((planned > 1) != (nodes_ > 1) || nodes_of(g, m_) != planned) return;
    const double per_node = static_cast<double>(wanted_.size) / static_cast<double>(nodes_);
    const bool as_dense =
        nodes_ == 1 || static_cast<double>(g.size) / static_cast<double>(planned) == per_node;
    if (best_ && score(as_dense) <= best_score_) return;
    best_ = Candidate{g, shape_of(ranks, c_), planned};
    best_score_ = score(as_dense);
  }
};

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
  const std::optional<Candidate> found = Candidates(p, op.group, c, m).best();
  if (!found) {
    const bool crosses = planned_nodes(p.ranks, c) > 1;
    s.reason = crosses && m.nodes == 1 ? "it crosses nodes, and there is one node here"
                                       : "no group of these ranks is placed like it";
    return s;
  }
  op.group = found->group;
  s.operation = op;
  s.group = found->shape;
  const bool alike = same_placement(found->shape, *p.group);
  s.fidelity = alike && !p.approximate ? Fidelity::kMeasured : Fidelity::kExtrapolated;
  if (s.fidelity == Fidelity::kMeasured) {
    s.predicted = p.predicted;
    return s;
  }
  s.predicted = collective_time(c, op.collective, op.bytes, found->shape, op.bidirectional).total;
  const bool smaller = found->group.size < p.group->size;
  s.reason = smaller ? ranks_text(found->group.size) + " instead of " + ranks_text(p.group->size)
             : alike ? "evenly spaced ranks instead of those that zero_group cuts out"
                     : "its ranks are nearer to each other here";
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
