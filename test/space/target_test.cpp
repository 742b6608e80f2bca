// A framework's space against what its exporter accepts.
#include "space/target.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include "frameworks/preset.hpp"
#include "frameworks/target.hpp"
#include "space/framework_cases.hpp"
#include "space/strategies.hpp"
#include "spec/axes.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

// All strategies of a space that the case's exporter accepts. Where nothing is held twice shardings
// do not differ.
std::set<std::string> accepted_of(const Case& c, const SearchSpace& space) {
  std::set<std::string> all;
  for_each_legal(space, [&](const Strategy& s, const MemoryOption&) {
    if (!keeps_pipeline_ranks(s, c.model)) return;
    std::optional<Strategy> told = accepted(c, s);
    if (!told) return;
    if (has_one_replica(s, c.model)) told->zero = 0;
    all.insert(to_text(*told));
  });
  return all;
}

}  // namespace

TEST_CASE("a framework's space is what its exporter accepts of the full one") {
  const Space space = GENERATE(Space::kMegatron, Space::kDeepspeed, Space::kFsdp,
                               Space::kTorchtitan, Space::kAxolotl, Space::kTorchtune);
  int compared = 0;
  for (unsigned seed = 700; seed < 740; ++seed) {
    CAPTURE(name_of(space), seed);
    Case c = framework_case(seed, space);
    const auto own = SearchSpace::make(c.model, c.cluster, c.request);
    if (!own.ok()) continue;  // the framework lacks what the model has
    SpaceRequest full = c.request;
    full.space = Space::kFull;
    // What selective recomputation repeats there is the framework's own choice otherwise.
    const std::optional<Target> target = target_of(space);
    Limit modules{"recompute_modules", LimitOp::kEqual, {RecomputeModules{}}};
    for (const RecomputeModules& list : target_modules(*target, c.model, full.base)) {
      if (!list.empty()) modules.values.emplace_back(list);
    }
    const bool stated = std::any_of(full.limits.begin(), full.limits.end(),
                                    [](const Limit& l) { return l.key == "recompute_modules"; });
    if (!stated) full.limits.push_back(modules);
    const auto all = SearchSpace::make(c.model, c.cluster, full);
    REQUIRE(all.ok());
    const std::set<std::string> expected = accepted_of(c, *all);
    REQUIRE(accepted_of(c, *own) == expected);
    compared += expected.empty() ? 0 : 1;
  }
  CHECK(compared >= 20);
}

// Freed keys widen the space by what the framework runs, never beyond.
TEST_CASE("a framework's space leaves out what no other key can make good") {
  const ModelSpec m = small_model(7, 1024);
  const ClusterSpec c = small_cluster(2, 4, Bytes{80 * kGiB});
  SpaceRequest r;
  r.base = framework_preset(Framework::kDeepspeed);
  r.base.global_batch = 32, r.base.seq_len = 2048;
  r.space = Space::kDeepspeed;
  r.limits = {any("schedule"), any("stage_layers"), any("zero"), any("order")};
  const auto space = SearchSpace::make(m, c, r);
  REQUIRE(space.ok());
  CHECK(space->divisions().partition == PartitionRule::kEven);
  for (const Mesh& mesh : space->meshes()) {
    CHECK(mesh.pp == 1);  // 7 layers divide evenly over no pipeline of these devices
    CHECK((mesh.cp == 1 || mesh.tp == 1));
  }
  r.limits = {only("stage_layers", {"[3,4]"})};
  CHECK_FALSE(SearchSpace::make(m, c, r).ok());
}
