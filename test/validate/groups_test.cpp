// Groups as validation launches them against the plan's own, for random plans.
#include <algorithm>
#include <random>

#include "cost/llama.hpp"
#include "cost/step.hpp"
#include "frameworks/preset.hpp"
#include "frameworks/target.hpp"
#include "spec/strategy_keys.hpp"
#include "support/catch.hpp"
#include "support/group_members.hpp"
#include "validate/operations.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

std::int64_t one_of(std::mt19937& random, std::initializer_list<std::int64_t> values) {
  return *(values.begin() + random() % values.size());
}

// Any sizes of the axes in any order, legal or not: groups exist all the same.
Strategy random_strategy(std::mt19937& random) {
  Strategy s;
  s.tp = s.etp = one_of(random, {1, 2, 3});
  s.cp = one_of(random, {1, 2, 3});
  s.pp = one_of(random, {1, 2, 3, 4});
  s.dp = one_of(random, {1, 2, 3, 4});
  std::shuffle(s.order.begin(), s.order.end(), random);
  return s;
}

RankGroup launched(const MemberPattern& p) {
  return {.size = p.size, .stride = p.stride, .run = p.run, .jump = p.jump, .period = p.period};
}

}  // namespace

TEST_CASE("[F-LAY-5] the groups that are launched are the plan's groups, all of them") {
  std::mt19937 random(GENERATE(1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U));
  for (int round = 0; round < 25; ++round) {
    const Strategy s = random_strategy(random);
    const std::int64_t gpus = num_gpus(s);
    CAPTURE(to_text(s));
    for (const Group kind : {Group::kTp, Group::kCp, Group::kTpCp, Group::kDp, Group::kDpCp,
                             Group::kPp, Group::kExpertDp}) {
      const std::optional<MemberPattern> pattern = member_pattern(s, kind);
      REQUIRE(pattern);
      const RankGroup g = launched(*pattern);
      CAPTURE(static_cast<int>(kind), g.size, g.stride, g.run, g.jump, g.period);
      REQUIRE_FALSE(malformed(g));
      for (std::int64_t rank = 0; rank < gpus; ++rank) {
        const GroupPlace place = place_of(g, rank, gpus);
        REQUIRE(place.group >= 0);
        const std::vector<std::int64_t> members = members_of(g, place.group, gpus);
        CHECK(members == group_members(s, kind, rank));
        CHECK(members[static_cast<std::size_t>(place.member)] == rank);
      }
    }
    // Ends of pipelines: only they, each with the other.
    const RankGroup ends = launched(*member_pattern(s, Group::kEmbedding));
    for (std::int64_t rank = 0; rank < gpus && s.pp > 1; ++rank) {
      const std::vector<std::int64_t> wanted = group_members(s, Group::kEmbedding, rank);
      const GroupPlace place = place_of(ends, rank, gpus);
      CHECK((place.group < 0) == wanted.empty());
      if (place.group >= 0) CHECK(members_of(ends, place.group, gpus) == wanted);
    }
    // Stages two and two: every pair is one of neighbours, and no pipeline's last stage is left out
    // unless their number is odd.
    const RankGroup pairs = launched(*member_pattern(s, Group::kPpNeighbour));
    std::int64_t idle = 0;
    for (std::int64_t rank = 0; rank < gpus && s.pp > 1; ++rank) {
      const GroupPlace place = place_of(pairs, rank, gpus);
      idle += place.group < 0 ? 1 : 0;
      if (place.group < 0 || place.member == 1) continue;
      CHECK(members_of(pairs, place.group, gpus) == group_members(s, Group::kPpNeighbour, rank));
    }
    if (s.pp > 1) CHECK(idle == (s.pp % 2 == 0 ? 0 : gpus / s.pp));
  }
}

TEST_CASE("[F-LAY-5] sharding groups are launched, and those that cut an axis are the exception") {
  Strategy s;
  s.cp = 2;
  s.pp = 2;
  s.dp = 4;
  s.zero = 1;
  s.zero_group = 4;
  s.order = kPipelineInsideOrder;
  const std::int64_t gpus = num_gpus(s);
  for (const Group kind : {Group::kZeroShard, Group::kZeroReplica}) {
    const RankGroup g = launched(*member_pattern(s, kind));
    for (std::int64_t rank = 0; rank < gpus; ++rank) {
      CHECK(members_of(g, place_of(g, rank, gpus).group, gpus) == group_members(s, kind, rank));
    }
  }
  s.cp = 3;
  s.zero_group = 2;
  CHECK_FALSE(member_pattern(s, Group::kZeroShard));
}

TEST_CASE("the reduction over data and context parallel ranks with the pipeline between them") {
  const ModelSpec m = llama_like(8);
  const ClusterSpec c = plain_cluster(8);
  Strategy s = modern_strategy(1, 2, 2);
  s.cp = 2;
  s.order = kPipelineInsideOrder;
  s = complete(s, m, c);
  bool seen = false;
  for (const PlannedOperation& p : planned_operations(m, c, cost_of(m, c, s))) {
    if (p.part != "dp" || !p.operation) continue;
    const auto& op = std::get<CollectiveOperation>(*p.operation);
    if (op.group.size != 4) continue;
    seen = true;
    CHECK(op.group == RankGroup{.size = 4, .stride = 1, .run = 2, .jump = 4});
    CHECK(p.ranks == std::vector<std::int64_t>{0, 1, 4, 5});
    CHECK(p.groups_at_once == 2);
    CHECK_FALSE(p.approximate);
  }
  CHECK(seen);
}

TEST_CASE("a ring passes keys round all of its ranks") {
  const ModelSpec m = llama_like(8);
  const ClusterSpec c = plain_cluster(16);
  Strategy s = modern_strategy(1, 1, 1);
  s.cp = 16;
  s.cp_kind = CpKind::kRing;
  s.seq_len = 32768;
  s = complete(s, m, c);
  std::size_t rings = 0;
  for (const PlannedOperation& p : planned_operations(m, c, cost_of(m, c, s))) {
    if (p.part != "cp") continue;
    ++rings;
    const auto& op = std::get<CollectiveOperation>(*p.operation);
    CHECK(op.collective == Collective::kSendRecv);
    CHECK(op.bidirectional);
    CHECK(op.group == RankGroup{.size = 16, .stride = 1});
    CHECK(p.group->blocks[0] == 2);  // it crosses nodes
  }
  CHECK(rings == 2);  // keys and values; with their gradients
}
