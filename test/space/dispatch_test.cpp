// The ways in which tokens travel to their experts that a space holds beside the stated one.
#include <array>

#include "frameworks/preset.hpp"
#include "search/cases.hpp"
#include "space/counts.hpp"
#include "space/space.hpp"
#include "space/strategies.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

TEST_CASE("where proxies send tokens both dispatchers are searched, unless the key is fixed") {
  ModelSpec m = small_model(4, 1024);
  ClusterSpec c = small_cluster(2, 2, Bytes{80 * kGiB});
  SearchRequest r = request_for(4);
  const Limit apart = only("overlap.ep", {"false"});
  r.limits = {apart};
  const auto bases = [&] {
    const auto space = SearchSpace::make(m, c, r);
    REQUIRE(space.ok());
    return space->bases();
  };
  add_experts(m, 8, 0, 1);
  CHECK(bases().size() == 1);
  c.levels.back().kind = LinkKind::kEfa;
  c.levels.back().token_message = Seconds{1e-6};
  const std::vector<Strategy> both = bases();
  REQUIRE(both.size() == 2);
  CHECK(both[0].runtime.flex_dispatcher != both[1].runtime.flex_dispatcher);
  // Without messages they are the same, and stand in the space once.
  const auto space = SearchSpace::make(m, c, r);
  std::array<int, 2> alone{}, spread{};  // splits of each base
  for (const Mesh& mesh : space->meshes()) {
    for (const Split& split : space->splits(mesh)) {
      ++(split.ep == 1 ? alone : spread)[mesh.base];
    }
  }
  CHECK(alone[0] > 0);
  CHECK(alone[1] == 0);
  CHECK(spread[0] > 0);
  CHECK(spread[0] == spread[1]);
  r.limits = {apart, only("kernels.flex_dispatcher", {"true"})};
  CHECK(bases().size() == 1);
  r.limits = {apart};
  m.moe.reset();
  CHECK(bases().size() == 1);
}

TEST_CASE("tokens are sent beside another microbatch's layers or not, unless the key is fixed") {
  ModelSpec m = small_model(4, 1024);
  const ClusterSpec c = small_cluster(2, 2, Bytes{80 * kGiB});
  SearchRequest r = request_for(8);
  const auto space = [&] {
    auto made = SearchSpace::make(m, c, r);
    REQUIRE(made.ok());
    return std::move(made.value());
  };
  CHECK(space().bases().size() == 1);  // a dense model
  add_experts(m, 8, 0, 1);
  const SearchSpace both = space();
  REQUIRE(both.bases().size() == 2);
  CHECK_FALSE(both.bases()[0].overlap.ep);
  CHECK(both.bases()[1].overlap.ep);
  int beside = 0, in_pipelines = 0;
  for_each_legal(both, [&](const Strategy& s, const MemoryOption& option) {
    if (!s.overlap.ep) return;
    ++beside;
    in_pipelines += s.pp > 1 ? 1 : 0;
    CHECK(s.ep > 1);
    CHECK((s.pp == 1 || s.schedule == Schedule::kInterleaved));
    CHECK(option.recompute != Recompute::kFull);
    CHECK_FALSE(option.offload_activations);
  });
  CHECK(beside > in_pipelines);
  CHECK(in_pipelines > 0);
  // Stated, the same strategies are legal, and the others are counted with the rule they break.
  r.limits = {only("overlap.ep", {"true"})};
  const SearchSpace stated = space();
  REQUIRE(stated.bases().size() == 1);
  CHECK(num_legal(stated) == beside);
  CHECK(stated.illegal().contains("illegal (overlap.ep, ep)"));
  CHECK(stated.illegal().contains("illegal (overlap.ep, schedule)"));
  CHECK(stated.illegal().contains("illegal (overlap.ep, recompute)"));
  r.limits = {only("overlap.ep", {"false"})};
  CHECK(space().bases().size() == 1);
  // Other frameworks' training codes have no such schedule.
  r.limits.clear();
  r.base = with_preset(Strategy{}, Framework::kDeepspeed);
  r.base.global_batch = 8, r.base.seq_len = 1024;
  CHECK(space().bases().size() == 1);
}
