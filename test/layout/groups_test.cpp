#include "layout/groups.hpp"

#include <algorithm>
#include <utility>

#include "frameworks/target.hpp"
#include "spec/axes.hpp"
#include "spec/strategy_keys.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

using Ranks = std::vector<std::int64_t>;

ClusterSpec nodes_of(std::int64_t gpus, std::vector<std::int64_t> spans = {}) {
  ClusterSpec c;
  c.gpus_per_node = gpus;
  c.nodes = 1024;
  c.levels.push_back({"node", gpus, BytesPerSecond{450e9}, Seconds{3e-6}, LinkKind::kNvswitch, 1});
  for (const std::int64_t span : spans) {
    c.levels.push_back(
        {"rail", span, BytesPerSecond{50e9}, Seconds{8e-6}, LinkKind::kInfiniband, 1});
  }
  c.levels.push_back({"spine", 0, BytesPerSecond{50e9}, Seconds{8e-6}, LinkKind::kInfiniband, 1});
  return c;
}

Strategy split(std::int64_t tp, std::int64_t cp, std::int64_t dp, std::int64_t pp) {
  Strategy s;
  s.tp = tp;
  s.cp = cp;
  s.dp = dp;
  s.pp = pp;
  s.etp = tp;
  return s;
}

TEST_CASE("[F-LAY-1] groups are those of Megatron-Core's example of 16 devices") {
  // parallel_state.py, initialize_model_parallel: tensor 2, pipeline 4 on 16 devices.
  const Strategy s = split(2, 1, 2, 4);
  CHECK(group_members(s, Group::kTp, 0) == Ranks{0, 1});
  CHECK(group_members(s, Group::kTp, 15) == Ranks{14, 15});
  CHECK(group_members(s, Group::kPp, 11, 2) == Ranks{3, 7});
  CHECK(group_members(s, Group::kDp, 0) == Ranks{0, 2});
  CHECK(group_members(s, Group::kDp, 7) == Ranks{5, 7});
  CHECK(group_members(s, Group::kPp, 1) == Ranks{1, 5, 9, 13});
  CHECK(group_members(s, Group::kPp, 11) == Ranks{3, 7, 11, 15});
}

TEST_CASE("[F-LAY-1] context parallel ranks sit between tensor and data parallel ones") {
  const Strategy s = split(2, 2, 2, 2);
  CHECK(group_members(s, Group::kCp, 1) == Ranks{1, 3});
  CHECK(group_members(s, Group::kTpCp, 5) == Ranks{4, 5, 6, 7});
  CHECK(group_members(s, Group::kDp, 0) == Ranks{0, 4});
  CHECK(group_members(s, Group::kDpCp, 9) == Ranks{9, 11, 13, 15});
}

TEST_CASE("[F-LAY-5] members come in runs where other axes lie between them") {
  Strategy s = split(2, 2, 3, 4);
  // tp-cp-ep-dp-pp: cp and dp are neighbours, evenly spaced.
  CHECK(*member_pattern(s, Group::kDpCp) == MemberPattern{.size = 6, .stride = 2});
  s.order = kPipelineInsideOrder;
  CHECK(*member_pattern(s, Group::kDpCp) ==
        MemberPattern{.size = 6, .stride = 2, .run = 2, .jump = 16});
  CHECK(group_members(s, Group::kDpCp, 0) == Ranks{0, 2, 16, 18, 32, 34});
  CHECK(*member_pattern(s, Group::kDp) == MemberPattern{.size = 3, .stride = 16});
  CHECK(*member_pattern(s, Group::kTpCp) == MemberPattern{.size = 4, .stride = 1});
  CHECK(*member_pattern(s, Group::kEp) == MemberPattern{});
  // Stages are 4 apart. Four of them pair up evenly; their ends lie in blocks of 16.
  CHECK(*member_pattern(s, Group::kPpNeighbour) == MemberPattern{.size = 2, .stride = 4});
  CHECK(*member_pattern(s, Group::kEmbedding) ==
        MemberPattern{.size = 2, .stride = 12, .period = 16});
}

TEST_CASE("[F-LAY-1] experts reuse the ranks of tensor and data parallelism") {
  Strategy s = split(2, 1, 4, 2);
  s.ep = 4;
  s.etp = 1;
  CHECK(group_members(s, Group::kEp, 2) == Ranks{0, 1, 2, 3});
  CHECK(group_members(s, Group::kExpertDp, 1) == Ranks{1, 5});
  CHECK(group_members(s, Group::kEtp, 3) == Ranks{3});
  s.etp = 2;  // as dense tensor parallelism: experts on every second rank
  CHECK(group_members(s, Group::kEp, 2) == Ranks{0, 2, 4, 6});
  CHECK(group_members(s, Group::kEtp, 3) == Ranks{2, 3});
}

TEST_CASE("[F-LAY-1] the rank order decides which axis is inside") {
  Strategy s = split(2, 1, 2, 2);
  s.order = {Axis::kTp, Axis::kCp, Axis::kEp, Axis::kPp, Axis::kDp};
  CHECK(group_members(s, Group::kPp, 0) == Ranks{0, 2});
  CHECK(group_members(s, Group::kDp, 0) == Ranks{0, 4});
}

TEST_CASE("[F-LAY-1] a shard group is the innermost part of the ranks with equal parameters") {
  Strategy s = split(2, 2, 4, 1);
  s.zero_group = 4;
  CHECK(group_members(s, Group::kZeroShard, 0) == Ranks{0, 2, 4, 6});
  CHECK(group_members(s, Group::kZeroShard, 13) == Ranks{9, 11, 13, 15});
  CHECK(group_members(s, Group::kZeroReplica, 3) == Ranks{3, 11});
  s.zero_group = 0;  // all of them share one copy
  CHECK(group_members(s, Group::kZeroShard, 0) == group_members(s, Group::kDpCp, 0));
  CHECK(group_members(s, Group::kZeroReplica, 5) == Ranks{5});
}

TEST_CASE("[F-LAY-1] a shard group may cut context parallel groups") {
  Strategy s = split(1, 3, 2, 1);
  s.zero_group = 2;
  CHECK(group_members(s, Group::kZeroShard, 2) == Ranks{2, 3});
  CHECK(group_members(s, Group::kZeroShard, 5) == Ranks{4, 5});
  CHECK(group_members(s, Group::kZeroReplica, 3) == Ranks{1, 3, 5});
}

TEST_CASE("pipeline neighbours include the step from the last rank back to the first") {
  const Strategy s = split(2, 1, 1, 4);
  CHECK(group_members(s, Group::kPpNeighbour, 2) == Ranks{2, 4});
  CHECK(group_members(s, Group::kPpNeighbour, 7) == Ranks{1, 7});
}

TEST_CASE("only the first and the last stage share embeddings") {
  const Strategy s = split(2, 1, 1, 4);
  CHECK(group_members(s, Group::kEmbedding, 1) == Ranks{1, 7});
  CHECK(group_members(s, Group::kEmbedding, 6) == Ranks{0, 6});
  CHECK(group_members(s, Group::kEmbedding, 3).empty());
  CHECK(group_members(split(2, 1, 4, 1), Group::kEmbedding, 3) == Ranks{3});
}

TEST_CASE("[F-LAY-3] groups of a plan whose sizes divide the levels") {
  // 405 billion parameters on 1,024 nodes: tp 8 fills a node, cp 2, dp 64, pp 8.
  const ClusterSpec c = nodes_of(8, {256});
  const Strategy s = split(8, 2, 64, 8);

  const GroupShape tp = group_shape(s, c, Group::kTp);
  CHECK(tp.size == 8);
  CHECK(tp.stride == 1);
  CHECK(tp.level == 0);
  CHECK(tp.within[0] == 8);
  CHECK(tp.blocks[0] == 1);

  const GroupShape cp = group_shape(s, c, Group::kCp);  // ranks 0 and 8
  CHECK(cp.stride == 8);
  CHECK(cp.level == 1);
  CHECK(cp.within[0] == 1);
  CHECK(cp.within[1] == 2);
  CHECK(cp.blocks[0] == 2);

  const GroupShape dp_cp = group_shape(s, c, Group::kDpCp);  // 0, 8, ..., 1016
  CHECK(dp_cp.size == 128);
  CHECK(dp_cp.level == 2);
  CHECK(dp_cp.within[0] == 1);
  CHECK(dp_cp.within[1] == 32);
  CHECK(dp_cp.blocks[0] == 128);
  CHECK(dp_cp.blocks[1] == 4);
  CHECK(dp_cp.blocks[2] == 1);

  const GroupShape neighbours = group_shape(s, c, Group::kPpNeighbour);  // 1,024 ranks apart
  CHECK(neighbours.size == 2);
  CHECK(neighbours.stride == 1024);
  CHECK(neighbours.level == 2);
  CHECK(group_shape(s, c, Group::kEmbedding).stride == 7 * 1024);
}

TEST_CASE("[F-LAY-2] the worst group of six on nodes of eight has two members in one node") {
  // Groups 0-5, 6-11, 12-17 and 18-23: the first and last stay in one node, the others straddle.
  const GroupShape g = group_shape(split(6, 1, 4, 1), nodes_of(8), Group::kTp);
  CHECK(g.size == 6);
  CHECK(g.level == 1);
  CHECK(g.blocks[0] == 2);
  CHECK(g.within[0] == 4);
  CHECK(g.fewest[0] == 2);
}

TEST_CASE("a lone group of six on a node of eight stays inside it") {
  const GroupShape g = group_shape(split(6, 1, 1, 1), nodes_of(8), Group::kTp);
  CHECK(g.level == 0);
  CHECK(g.within[0] == 6);
}

TEST_CASE("three nodes and a part of one are whole numbers of blocks") {
  const GroupShape three = group_shape(split(1, 1, 24, 1), nodes_of(8), Group::kDp);
  CHECK(three.blocks[0] == 3);
  CHECK(three.fewest[0] == 8);
  // 12 devices: one node of eight and half of another; groups 0, 4, 8 and so on.
  const GroupShape part = group_shape(split(4, 1, 3, 1), nodes_of(8), Group::kDp);
  CHECK(part.blocks[0] == 2);
  CHECK(part.within[0] == 2);
  CHECK(part.fewest[0] == 1);
  CHECK(group_shape(split(4, 1, 3, 1), nodes_of(8), Group::kTp).level == 0);
}

TEST_CASE("[F-LAY-4] neighbouring stages share a node only if the whole pipeline does") {
  const ClusterSpec c = nodes_of(8);
  CHECK(group_shape(split(4, 1, 1, 2), c, Group::kPpNeighbour).level == 0);
  CHECK(group_shape(split(4, 1, 1, 4), c, Group::kPpNeighbour).level == 1);
  CHECK(group_shape(split(2, 1, 1, 4), c, Group::kEmbedding).level == 0);
  CHECK(group_shape(split(3, 1, 1, 4), c, Group::kEmbedding).level == 1);
  CHECK(group_shape(split(8, 1, 4, 1), c, Group::kPpNeighbour).size == 1);
}

TEST_CASE("a group of one sits inside every block") {
  const GroupShape g = group_shape(split(8, 1, 4, 1), nodes_of(8), Group::kCp);
  CHECK(g.size == 1);
  CHECK(g.level == 0);
  CHECK(g.within[1] == 1);
  CHECK(g.blocks[0] == 1);
}

// The rank along the pipeline that the layers' grid gives a device.
std::int64_t pipeline_rank(const Strategy& s, std::int64_t device) {
  const Ranks all = group_members(s, Group::kPp, device);
  return std::find(all.begin(), all.end(), device) - all.begin();
}

TEST_CASE("an order is legal with experts where their groups stay on one pipeline rank") {
  ModelSpec m;
  m.moe = MoeSpec{.num_experts = 8, .top_k = 2, .expert_ffn_hidden_size = 1024};
  RankOrder order{Axis::kTp, Axis::kCp, Axis::kEp, Axis::kDp, Axis::kPp};
  std::sort(order.begin(), order.end());
  int legal = 0, illegal = 0;
  do {
    for (const std::int64_t tp : {1, 2, 4}) {
      for (const auto& [etp, ep] : {std::pair{1, 1}, {1, 2}, {1, 4}, {2, 1}, {2, 2}, {2, 4}}) {
        Strategy s = split(tp, 2, 4, 2);
        s.etp = etp, s.ep = ep, s.order = order;
        if (etp > tp) continue;
        bool stays = true;
        for (std::int64_t device = 0; device < tp * 16; ++device) {
          for (const Group g : {Group::kEp, Group::kEtp, Group::kExpertDp}) {
            for (const std::int64_t other : group_members(s, g, device)) {
              stays = stays && pipeline_rank(s, other) == pipeline_rank(s, device);
            }
          }
        }
        CAPTURE(tp, etp, ep, key_text(order));
        CHECK(keeps_pipeline_ranks(s, m) == stays);
        ++(stays ? legal : illegal);
      }
    }
  } while (std::next_permutation(order.begin(), order.end()));
  CHECK(legal > 500);
  CHECK(illegal > 300);
}

}  // namespace
}  // namespace meshplan
