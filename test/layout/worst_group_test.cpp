// group_shape against a count over the members of every group.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "layout/groups.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

constexpr std::array kGroups{Group::kTp,   Group::kCp,        Group::kTpCp,        Group::kDp,
                             Group::kDpCp, Group::kZeroShard, Group::kZeroReplica, Group::kEp,
                             Group::kEtp,  Group::kExpertDp,  Group::kPp};

ClusterSpec cluster(std::int64_t node, std::int64_t rail) {
  ClusterSpec c;
  c.gpus_per_node = node;
  c.nodes = 4096;
  c.levels = {{"node", node, BytesPerSecond{450e9}, Seconds{3e-6}, LinkKind::kNvswitch, 1},
              {"rail", rail, BytesPerSecond{50e9}, Seconds{8e-6}, LinkKind::kInfiniband, 1},
              {"spine", 0, BytesPerSecond{50e9}, Seconds{8e-6}, LinkKind::kInfiniband, 2}};
  return c;
}

// Members per block, by block number.
std::map<std::int64_t, std::int64_t> occupancy(const std::vector<std::int64_t>& ranks,
                                               std::int64_t span) {
  std::map<std::int64_t, std::int64_t> count;
  for (const std::int64_t r : ranks) ++count[r / span];
  return count;
}

GroupShape counted(const std::vector<std::int64_t>& ranks, const ClusterSpec& c) {
  GroupShape g;
  g.size = static_cast<std::int64_t>(ranks.size());
  g.stride = ranks.size() > 1 ? ranks[1] - ranks[0] : 1;
  g.num_levels = 3;
  for (std::size_t l = 0; l < 3; ++l) {
    const auto blocks = occupancy(ranks, l == 2 ? 1 << 30 : c.levels[l].span);
    g.blocks[l] = static_cast<std::int64_t>(blocks.size());
    g.fewest[l] = g.size;
    for (const auto& [block, members] : blocks) {
      g.within[l] = std::max(g.within[l], members);
      g.fewest[l] = std::min(g.fewest[l], members);
    }
  }
  while (g.blocks[g.level] > 1) ++g.level;
  return g;
}

// What a ring through the group can carry: the card or share of the spine of each member in the
// emptiest block; inside a node the switch.
double ring_rate(const GroupShape& g) {
  double rate = 450;
  if (g.blocks[0] > 1) rate = 50.0 * static_cast<double>(g.fewest[0]);
  if (g.blocks[0] > 1 && g.blocks[0] == g.blocks[1]) rate = 1e9;  // no hop over the rail
  if (g.size > g.blocks[0]) rate = std::min(rate, 450.0);
  if (g.blocks[1] > 1) rate = std::min(rate, 25.0 * static_cast<double>(g.fewest[1]));
  return rate;
}

Strategy strategy(std::array<std::int64_t, 7> v) {
  Strategy s;
  s.tp = v[0];
  s.cp = v[1];
  s.dp = v[2];
  s.pp = v[3];
  s.ep = v[4];
  s.etp = v[5];
  s.zero_group = v[6];
  return s;
}

TEST_CASE("[F-LAY-2] no group is slower than the worst one and some group has its shape") {
  // tp, cp, dp, pp, ep, etp, zero_group
  const auto sizes = GENERATE(values<std::array<std::int64_t, 7>>({
      {8, 1, 8, 4, 1, 8, 0},
      {4, 2, 16, 2, 8, 1, 8},
      {6, 1, 4, 2, 2, 3, 2},
      {3, 3, 5, 2, 5, 3, 5},
      {1, 3, 4, 3, 2, 1, 2},
      {2, 5, 3, 7, 3, 2, 3},
      {1, 1, 100, 1, 4, 1, 20},
      {12, 1, 6, 1, 6, 2, 3},
      {1, 6, 4, 1, 8, 1, 4},
      // Repeated after some nodes or rails, which their digits cut.
      {3, 1, 64, 2, 8, 1, 0},
      {3, 1, 128, 1, 2, 3, 64},
      {6, 2, 48, 2, 4, 1, 24},
      {1, 3, 96, 3, 16, 1, 32},
      {5, 1, 32, 6, 1, 1, 16},
  }));
  const auto [node, rail] =
      GENERATE(table<std::int64_t, std::int64_t>({{8, 32}, {8, 64}, {4, 12}, {6, 24}}));
  const Strategy s = strategy(sizes);
  const ClusterSpec c = cluster(node, rail);
  for (const Group kind : kGroups) {
    INFO("group " << static_cast<int>(kind) << ", tp " << s.tp << ", nodes of " << node);
    const GroupShape worst = group_shape(s, c, kind);
    bool found = false;
    for (std::int64_t rank = 0; rank < num_gpus(s); ++rank) {
      const GroupShape shape = counted(group_members(s, kind, rank), c);
      found = found || shape == worst;
      REQUIRE(ring_rate(shape) >= ring_rate(worst));
      REQUIRE(shape.size == worst.size);
    }
    CHECK(found);
  }
}

TEST_CASE("[F-LAY-1] the groups of a kind split the ranks") {
  const Strategy s = strategy({6, 1, 4, 2, 2, 3, 2});
  for (const Group kind : kGroups) {
    std::multiset<std::int64_t> seen;
    for (std::int64_t rank = 0; rank < num_gpus(s); ++rank) {
      const auto members = group_members(s, kind, rank);
      REQUIRE(std::is_sorted(members.begin(), members.end()));
      REQUIRE(std::count(members.begin(), members.end(), rank) == 1);
      for (const std::int64_t member : members) {
        REQUIRE(group_members(s, kind, member) == members);
      }
      if (members.front() == rank) seen.insert(members.begin(), members.end());
    }
    CHECK(seen.size() == static_cast<std::size_t>(num_gpus(s)));
  }
}

}  // namespace
}  // namespace meshplan
