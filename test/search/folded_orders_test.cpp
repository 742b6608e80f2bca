// Orders of ranks that the space looks at once, as they differ in nothing.
#include "cost/step.hpp"
#include "frameworks/preset.hpp"
#include "search/cases.hpp"
#include "space/space.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

bool has_order(const std::vector<Sharding>& shardings, const RankOrder& order) {
  return std::any_of(shardings.begin(), shardings.end(),
                     [&](const Sharding& sharding) { return sharding.order == order; });
}

// A network of one or two levels, the blocks of the second as wide as some number of nodes.
Case pipelined_case(Dice& dice) {
  Case c;
  c.model = random_model(dice);
  set_layers(dice, c.model, dice.one_of<std::int64_t>({4, 8}));
  const std::int64_t each = dice.one_of<std::int64_t>({2, 4});
  c.cluster = small_cluster(dice.one_of<std::int64_t>({4, 8}), each, Bytes{4096 * kGiB});
  if (dice.once_in(2)) {
    LinkLevel leaf = c.cluster.levels.back();
    leaf.name = "leaf", leaf.span = 2 * each;
    c.cluster.levels.insert(c.cluster.levels.end() - 1, leaf);
    c.cluster.levels.back().bandwidth = BytesPerSecond{5e9};
  }
  c.request.base = framework_preset(Framework::kMegatron);
  c.request.base.global_batch = 64;
  c.request.base.seq_len = 2048;
  c.request.threads = 1;
  return c;
}

}  // namespace

TEST_CASE("orders of ranks of which the space has one cost the same") {
  Dice dice(41);
  int folded = 0, both = 0;
  for (int i = 0; i < 60; ++i) {
    CAPTURE(i);
    const Case c = pipelined_case(dice);
    const Result<SearchSpace> made = SearchSpace::make(c.model, c.cluster, c.request);
    INFO((made.ok() ? "" : to_text(made.errors())));
    REQUIRE(made.ok());
    const SearchSpace& space = *made;
    for (const Mesh& mesh : space.meshes()) {
      if (mesh.pp == 1 || mesh.dp == 1) continue;
      const std::vector<Sharding>& shardings = space.shardings(mesh);
      if (has_order(shardings, kPipelineInside)) {
        ++both;
        continue;
      }
      for (const Split& split : space.splits(mesh)) {
        Strategy s = space.bases()[mesh.base];
        s.tp = mesh.tp, s.pp = mesh.pp, s.cp = mesh.cp, s.dp = mesh.dp;
        s.ep = split.ep, s.etp = split.etp, s.sequence_parallel = split.sequence_parallel;
        for (const Sharding& sharding : shardings) {
          s.zero = sharding.zero, s.zero_group = sharding.zero_group;
          s.order = sharding.order;
          const Strategy first = complete(s, c.model, c.cluster);
          s.order = kPipelineInside;
          const Strategy second = complete(s, c.model, c.cluster);
          const Verdict one = evaluate(c.model, c.cluster, first, {.ignore_memory = true});
          const Verdict other = evaluate(c.model, c.cluster, second, {.ignore_memory = true});
          CAPTURE(to_text(first));
          if (!other.feasible()) continue;  // illegal
          REQUIRE(one.feasible());
          REQUIRE(one.cost().step_time == other.cost().step_time);
          REQUIRE(one.cost().memory().peak == other.cost().memory().peak);
          ++folded;
        }
      }
    }
  }
  CHECK(folded > 200);
  CHECK(both > 200);
}
