// Bounds that are told before block costs of a sharding, or of a list of modules, are made.
#include "search/bounds.hpp"

#include <algorithm>

#include "cost/step.hpp"
#include "cost/step_parts.hpp"
#include "search/cases.hpp"
#include "search/listed_memory.hpp"
#include "search/sharding_bounds.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

template <class T>
std::size_t any_of(Dice& dice, const std::vector<T>& list) {
  return static_cast<std::size_t>(dice.between(0, static_cast<std::int64_t>(list.size()) - 1));
}

struct Drawn {
  Strategy strategy;
  std::uint32_t mesh = 0, sharding = 0;
};

// Some strategy of the space that recomputes nothing, with a division that is as even as it gets.
std::optional<Drawn> draw(Dice& dice, const SearchSpace& space, const Case& c) {
  Drawn drawn;
  if (space.meshes().empty()) return std::nullopt;
  drawn.mesh = static_cast<std::uint32_t>(any_of(dice, space.meshes()));
  const Mesh& mesh = space.meshes()[drawn.mesh];
  if (space.micro_batches(mesh).empty() || space.cp_kinds(mesh).empty()) return std::nullopt;
  if (space.splits(mesh).empty() || space.shardings(mesh).empty()) return std::nullopt;
  PartialStrategy p;
  p.base = mesh.base;
  p.tp = mesh.tp, p.pp = mesh.pp, p.cp = mesh.cp, p.dp = mesh.dp;
  p.micro_batch = space.micro_batches(mesh)[any_of(dice, space.micro_batches(mesh))];
  p.cp_kind = space.cp_kinds(mesh)[any_of(dice, space.cp_kinds(mesh))];
  const Split& split = space.splits(mesh)[any_of(dice, space.splits(mesh))];
  p.sequence_parallel = split.sequence_parallel, p.ep = split.ep, p.etp = split.etp;
  const std::vector<ScheduleChoice>& schedules = space.schedules(mesh, p.micro_batch);
  if (schedules.empty()) return std::nullopt;
  const ScheduleChoice& schedule = schedules[any_of(dice, schedules)];
  p.schedule = schedule.schedule, p.vp = schedule.vp;
  drawn.sharding = static_cast<std::uint32_t>(any_of(dice, space.shardings(mesh)));
  const Sharding& sharding = space.shardings(mesh)[drawn.sharding];
  p.zero = sharding.zero, p.zero_group = sharding.zero_group, p.order = sharding.order;
  Strategy& s = drawn.strategy = with_partial(space.bases()[mesh.base], p);
  if (s.pp * s.vp > c.model.num_layers || !is_legal(s, c.model, c.cluster)) return std::nullopt;
  s.stage_layers = stage_layers(s, c.model);
  s.recompute_layers.assign(s.stage_layers.size(), 0);
  return drawn;
}

}  // namespace

TEST_CASE("[F-SEARCH-19] no step is shorter than what is told of its sharding before schedules") {
  int compared = 0, tells = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    Dice dice(seed);
    Case c = random_case(seed);
    c.model.ffn_hidden_size *= dice.one_of({1, 16, 64});
    c.cluster.device.overlap_slowdown = dice.one_of({1.0, 1.05, 1.25, 2.5});
    const Result<SearchSpace> space = SearchSpace::make(c.model, c.cluster, c.request);
    if (!space) continue;
    SearchContext x(c.model, c.cluster, c.request, *space);
    for (int i = 0; i < 40; ++i) {
      const std::optional<Drawn> drawn = draw(dice, *space, c);
      if (!drawn) continue;
      const Strategy& s = drawn->strategy;
      CAPTURE(seed, to_text(s));
      Strategy split = s;
      split.schedule = kPlainSchedule, split.vp = 1, split.zero = 0, split.zero_group = 0;
      const BlockCosts blocks = block_costs(c.model, c.cluster, split);
      ShardingBounds bounds(x, split, drawn->mesh, blocks, {drawn->sharding});
      const double least = bounds.least(s, 0);
      const double time =
          cost_of(c.model, c.cluster, s, block_costs(c.model, c.cluster, s)).step_time.si();
      REQUIRE(least <= time * (1 + 1e-9));
      ++compared;
      tells += least > work_bound(x, split, blocks) * 1.01 ? 1 : 0;
      // A step that waits for its layers longer than for its work ends no earlier either.
      REQUIRE(bounds.least(s, least) >= least);
    }
  }
  CAPTURE(compared, tells);
  CHECK(compared > 3000);
  CHECK(tells > 300);
}

TEST_CASE("[F-REC-2] what a list of modules saves is the same without the costs of blocks") {
  int compared = 0, differ = 0;
  for (unsigned seed = 0; seed < 120; ++seed) {
    Dice dice(seed);
    const Case c = random_case(seed);
    const Result<SearchSpace> space = SearchSpace::make(c.model, c.cluster, c.request);
    if (!space) continue;
    const LayerPrefix prefix = layer_prefix(c.model, c.request.base);
    for (int i = 0; i < 8; ++i) {
      const std::optional<Drawn> drawn = draw(dice, *space, c);
      if (!drawn || !lists_change_only_saved(drawn->strategy)) continue;
      Strategy s = drawn->strategy;
      CAPTURE(seed, to_text(s));
      const BlockCosts plain = block_costs(c.model, c.cluster, s);
      s.recompute = Recompute::kSelective;
      const std::vector<RecomputeModules> lists = every_list();
      s.recompute_modules = lists[any_of(dice, lists)];
      const BlockCosts listed = block_costs(c.model, c.cluster, s);
      const PerBlock<SavedActivations> saved = listed_saved(c.model, c.cluster, s, prefix, plain);
      for (std::size_t k = 0; k < listed.size(); ++k) {
        REQUIRE(saved[k] == listed[k].saved);
        REQUIRE(plain[k].working_set == listed[k].working_set);
        differ += saved[k].selective == plain[k].saved.selective ? 0 : 1;
      }
      ++compared;
    }
  }
  CAPTURE(compared, differ);
  CHECK(compared > 200);
  CHECK(differ > 200);
}
