#include "cost/step_model.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "cost/step.hpp"
#include "cost/step_oracle.hpp"
#include "cost/step_parts.hpp"
#include "frameworks/preset.hpp"
#include "partition/division_bound.hpp"
#include "partition/least_ends.hpp"
#include "search/block_cache.hpp"
#include "search/bounds.hpp"
#include "search/candidate.hpp"
#include "search/cases.hpp"
#include "search/divisions.hpp"
#include "search/sharding_bounds.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

// Layers per rank and of which recomputed, anything that adds up.
void divide_at_random(Dice& dice, const ModelSpec& m, Strategy& s) {
  s.stage_layers.assign(static_cast<std::size_t>(s.pp), 0);
  for (std::int64_t i = 0; i < m.num_layers; ++i) {
    const std::int64_t rank = i < s.pp ? i : dice.between(0, s.pp - 1);
    ++s.stage_layers[static_cast<std::size_t>(rank)];
  }
  s.recompute_layers.assign(s.stage_layers.size(), 0);
  if (s.recompute == Recompute::kNone) return;
  for (std::size_t r = 0; r < s.stage_layers.size(); ++r) {
    s.recompute_layers[r] = dice.between(0, s.stage_layers[r]);
  }
}

Strategy random_strategy(Dice& dice, const Case& c) {
  Strategy s = c.request.base;
  const std::int64_t gpus = num_gpus(c.cluster);
  const auto degree = [&](std::int64_t left) {
    std::int64_t n = dice.one_of<std::int64_t>({1, 1, 2, 3, 4, 6});
    while (left % n != 0) --n;
    return n;
  };
  s.tp = degree(gpus), s.pp = degree(gpus / s.tp), s.cp = degree(gpus / s.tp / s.pp);
  s.dp = gpus / (s.tp * s.pp * s.cp);
  s.schedule = dice.one_of({Schedule::kGpipe, Schedule::k1f1b, Schedule::kInterleaved,
                            Schedule::kZbH1, Schedule::kZbV, Schedule::kDualPipe});
  if (s.pp == 1) s.schedule = Schedule::k1f1b;
  const bool two = s.schedule == Schedule::kZbV || s.schedule == Schedule::kDualPipe;
  s.vp = s.schedule == Schedule::kInterleaved ? dice.between(2, 3) : two ? 2 : 1;
  s.sequence_parallel = s.tp > 1 && dice.once_in(2);
  s.cp_kind = dice.one_of({CpKind::kRing, CpKind::kAllGather, CpKind::kUlysses});
  if (c.model.moe) s.ep = degree(s.tp * s.cp * s.dp), s.etp = 1;
  s.micro_batch = dice.between(1, 2);
  s.global_batch = s.dp * s.micro_batch * s.pp * dice.between(1, 4);
  s.zero = static_cast<int>(dice.between(0, 3));
  if (s.zero > 0 && dice.once_in(3)) s.zero_group = degree(s.dp * s.cp);
  s.order = dice.once_in(3) ? kPipelineInside : kDefaultOrder;
  s.recompute = dice.one_of({Recompute::kNone, Recompute::kSelective, Recompute::kFull});
  s.offload = {dice.once_in(3), dice.once_in(3)};
  s.overlap.grad_reduce = dice.once_in(2);
  s.overlap.param_gather = s.overlap.grad_reduce && dice.once_in(2);
  s.overlap.pp = dice.once_in(2);
  divide_at_random(dice, c.model, s);
  return s;
}

}  // namespace

TEST_CASE("a step costed stage by stage is the step put together rank by rank") {
  int compared = 0, fitting = 0, offloading = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    Dice dice(seed);
    const Case c = random_case(seed);
    InFlightCache in_flight;
    PipelineRunner runner;
    StepModel model(c.model, c.cluster, runner);
    for (int i = 0; i < 40; ++i) {
      const Strategy s = random_strategy(dice, c);
      if (!is_legal(s, c.model, c.cluster)) continue;
      CAPTURE(seed, to_text(s));
      const BlockCosts blocks = block_costs(c.model, c.cluster, s);
      const test::StepOracle oracle(c.model, c.cluster, s, blocks);
      const Placement placement(c.model, c.cluster, s);
      model.set_pipeline(s, blocks, placement, in_flight.of(pipeline_shape(s)));
      // What the stages below decide may have been something else before.
      Strategy other = s;
      other.offload.optimizer = !s.offload.optimizer;
      other.overlap.grad_reduce = !s.overlap.grad_reduce;
      other.zero_group = 0;
      const Placement others(c.model, c.cluster, other);
      model.set_sharding(other, others);
      static_cast<void>(model.evaluate(other));
      model.set_sharding(s, placement);
      const StepValue found = model.evaluate(s);
      REQUIRE(std::abs(found.step_time / oracle.step_time() - 1) < 1e-12);
      REQUIRE(found.peak == oracle.peak());
      REQUIRE(found.host == oracle.node_host());
      EvaluateOptions options;
      options.with_remedies = false;
      REQUIRE(found.fits == evaluate(c.model, c.cluster, s, options).feasible());
      ++compared;
      fitting += found.fits ? 1 : 0;
      offloading += s.offload.activations ? 1 : 0;
    }
  }
  CAPTURE(compared, fitting, offloading);
  CHECK(compared > 2000);
  CHECK(fitting > 200);
  CHECK(fitting < compared - 200);
  CHECK(offloading > 50);
}

TEST_CASE(
    "[F-SEARCH-6] what explains a step has its value to the last digit, and its bound is below") {
  int compared = 0, split = 0;
  for (unsigned seed = 400; seed < 800; ++seed) {
    Dice dice(seed);
    const Case c = random_case(seed);
    InFlightCache in_flight;
    PipelineRunner runner;
    StepModel model(c.model, c.cluster, runner);
    for (int i = 0; i < 20; ++i) {
      const Strategy s = random_strategy(dice, c);
      if (!is_legal(s, c.model, c.cluster)) continue;
      CAPTURE(seed, to_text(s));
      const BlockCosts blocks = block_costs(c.model, c.cluster, s);
      const Placement placement(c.model, c.cluster, s);
      model.set_pipeline(s, blocks, placement, in_flight.of(pipeline_shape(s)));
      model.set_sharding(s, placement);
      const StepValue value = model.evaluate(s);
      const PlanCost plan = cost_of(c.model, c.cluster, s, blocks);
      REQUIRE(value.step_time == plan.step_time);
      REQUIRE(value.peak == plan.memory().peak);
      REQUIRE(total(plan.time) == plan.step_time);
      REQUIRE(plan.time.pp_comm_exposed >= Seconds{});
      REQUIRE(plan.time.pp_bubble >= Seconds{});
      const test::StepOracle oracle(c.model, c.cluster, s, blocks);
      for (std::int64_t r = 0; r < s.pp; ++r) {
        REQUIRE(plan.stages[static_cast<std::size_t>(r)].memory == oracle.memory(r));
      }
      const Seconds least = model.lower_bound(s, blocks, placement, Seconds{1e300});
      REQUIRE(least * (1 - 1e-10) <= value.step_time);
      ++compared;
      const bool both = plan.time.pp_comm_exposed > Seconds{} && plan.time.pp_bubble > Seconds{};
      split += both ? 1 : 0;
    }
  }
  CAPTURE(compared, split);
  CHECK(compared > 1000);
  CHECK(split > 300);
}

TEST_CASE("chunks are placed as layer by layer") {
  int compared = 0;
  for (unsigned seed = 800; seed < 1000; ++seed) {
    Dice dice(seed);
    const Case c = random_case(seed);
    for (int i = 0; i < 20; ++i) {
      const Strategy s = random_strategy(dice, c);
      if (!is_legal(s, c.model, c.cluster)) continue;
      CAPTURE(seed, to_text(s));
      const std::vector<Chunk> placed = chunk_plan(c.model, s);
      const std::vector<Chunk> wanted = test::place_by_layer(c.model, s);
      REQUIRE(placed.size() == wanted.size());
      for (std::size_t k = 0; k < placed.size(); ++k) {
        REQUIRE(placed[k].rank == wanted[k].rank);
        REQUIRE(placed[k].first_layer == wanted[k].first_layer);
        REQUIRE(placed[k].layers == wanted[k].layers);
        REQUIRE(placed[k].blocks == wanted[k].blocks);
        REQUIRE(placed[k].recomputed == wanted[k].recomputed);
      }
      ++compared;
    }
  }
  CHECK(compared > 300);
}

TEST_CASE(
    "[F-SEARCH-16] chains with what ranks certainly show of reductions are no longer than a step") {
  int compared = 0, tells = 0;
  for (unsigned seed = 0; seed < 600; ++seed) {
    Dice dice(seed);
    Case c = random_case(seed);
    c.model.ffn_hidden_size *= dice.one_of({1, 16, 64});  // more than a bucket holds
    c.cluster.device.overlap_slowdown = dice.one_of({1.0, 1.05, 1.25, 2.5});
    const LayerPrefix prefix = layer_prefix(c.model, c.request.base);
    LeastEndsMemo memo;
    for (int i = 0; i < 60; ++i) {
      const Strategy s = random_strategy(dice, c);
      if (!is_legal(s, c.model, c.cluster) || !is_in_space(s, c.model)) continue;
      if (*std::min_element(s.stage_layers.begin(), s.stage_layers.end()) < s.vp) continue;
      CAPTURE(seed, to_text(s));
      const BlockCosts blocks = block_costs(c.model, c.cluster, s);
      const Placement placement(c.model, c.cluster, s);
      const PlanCost plan = cost_of(c.model, c.cluster, s, blocks);
      const double time = (plan.step_time - plan.time.optimizer - placement.tied()).si();
      const Recompute recomputed =
          s.recompute == Recompute::kSelective ? Recompute::kSelective : Recompute::kNone;
      const DivisionBound bound(c.model, s, blocks, prefix, recomputed);
      const auto keeps = [&](double most) {
        const LeastEnds ends(c.model, c.cluster, s, blocks, prefix, placement, memo, recomputed,
                             most);
        return !ends.any() || bound.possible(most, 0, 0, &ends);
      };
      REQUIRE(keeps(time * (1 + 1e-9)));
      ++compared;
      if (s.schedule == Schedule::kDualPipe) continue;
      double least = time;  // that the chains alone allow
      while (bound.possible(least * 0.95)) least *= 0.95;
      tells += keeps(least) ? 0 : 1;
    }
  }
  CAPTURE(compared, tells);
  CHECK(compared > 3000);
  CHECK(tells > 300);
}

TEST_CASE("[F-SEARCH-18] what layers reduce, wherever they are, is no more than a step shows") {
  int compared = 0, tells = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    Dice dice(seed);
    Case c = random_case(seed);
    c.model.ffn_hidden_size *= dice.one_of({1, 16, 64});
    c.cluster.device.overlap_slowdown = dice.one_of({1.0, 1.05, 1.25, 2.5});
    const Result<SearchSpace> space = SearchSpace::make(c.model, c.cluster, c.request);
    REQUIRE(space);
    SearchContext x(c.model, c.cluster, c.request, *space);
    x.unlimited_memory = true;
    for (int i = 0; i < 40; ++i) {
      const Strategy s = random_strategy(dice, c);
      if (!is_legal(s, c.model, c.cluster) || !is_in_space(s, c.model)) continue;
      if (s.recompute != Recompute::kNone) continue;  // bounds leave it to memory
      CAPTURE(seed, to_text(s));
      const BlockCosts blocks = block_costs(c.model, c.cluster, s);
      const Placement placement(c.model, c.cluster, s);
      const PlanCost plan = cost_of(c.model, c.cluster, s, blocks);
      const double time = (plan.step_time - plan.time.optimizer).si() * (1 + 1e-9);
      const auto fits = [&](const LayerEnds& ends, double most) {
        return FitBound(x, s, blocks, {}, x.in_flight.of(pipeline_shape(s)),
                        placement.communicators(), false, ends)
            .may_fit(most);
      };
      const LayerEnds ends = layer_ends(x, s, blocks, placement);
      REQUIRE(fits(ends, time));
      ++compared;
      double least = time;  // that passes alone allow
      while (fits({}, least * 0.95)) least *= 0.95;
      tells += fits(ends, least) ? 0 : 1;
    }
  }
  CAPTURE(compared, tells);
  CHECK(compared > 1000);
  CHECK(tells > 200);
}

TEST_CASE("[F-SEARCH-21] last buckets on the slowest rank make no step longer than it is") {
  int compared = 0, tells = 0, of_buckets = 0;
  for (unsigned seed = 0; seed < 600; ++seed) {
    Dice dice(seed);
    Case c = random_case(seed);
    c.model.ffn_hidden_size *= dice.one_of({1, 16, 64});  // more than a bucket holds
    c.cluster.device.overlap_slowdown = dice.one_of({1.0, 1.05, 1.25, 2.5});
    const Result<SearchSpace> space = SearchSpace::make(c.model, c.cluster, c.request);
    REQUIRE(space);
    SearchContext x(c.model, c.cluster, c.request, *space);
    for (int i = 0; i < 40; ++i) {
      const Strategy s = random_strategy(dice, c);
      if (!is_legal(s, c.model, c.cluster) || !is_in_space(s, c.model)) continue;
      CAPTURE(seed, to_text(s));
      const BlockCosts blocks = block_costs(c.model, c.cluster, s);
      const WholeReductions all = whole_reductions(c.model, c.cluster, s, blocks, x.prefix(s),
                                                   step_end_groups(c.model, c.cluster, s));
      const double least = late_step(x, s, blocks, all);
      const PlanCost plan = cost_of(c.model, c.cluster, s, blocks);
      const double time = (plan.step_time - plan.time.optimizer).si() * (1 + 1e-9);
      REQUIRE(least <= time);
      ++compared;
      const bool more = least > work_bound(x, s, blocks) * 1.01;
      tells += more ? 1 : 0;
      of_buckets += more && (all.dense.bucket < 1 || all.experts.bucket < 1) ? 1 : 0;
    }
  }
  CAPTURE(compared, tells, of_buckets);
  CHECK(compared > 3000);
  CHECK(tells > 300);
  CHECK(of_buckets > 30);
}

TEST_CASE("[F-SEARCH-4] chains over all divisions are no longer than the pipeline of any") {
  constexpr std::array kAll = {Schedule::kGpipe, Schedule::k1f1b, Schedule::kInterleaved,
                               Schedule::kZbH1,  Schedule::kZbV,  Schedule::kVHalf,
                               Schedule::kVMin};  // not DualPipe, whose ranks hold two copies
  std::array<int, kAll.size()> compared{}, few{};
  std::array<double, kAll.size()> share{};  // of a pipeline of few microbatches that they tell
  for (unsigned seed = 0; seed < 4000; ++seed) {
    Dice dice(seed);
    const Case c = random_case(seed);
    const LayerPrefix prefix = layer_prefix(c.model, c.request.base);
    for (int i = 0; i < 40; ++i) {
      Strategy s = random_strategy(dice, c);
      const auto k = static_cast<std::size_t>(dice.between(0, kAll.size() - 1));
      s.schedule = kAll[k];
      const bool several = s.schedule == Schedule::kInterleaved;
      const bool one = k < 2 || s.schedule == Schedule::kZbH1;
      s.vp = several ? dice.between(2, 3) : one ? 1 : 2;
      s.global_batch = s.dp * s.micro_batch * dice.between(1, 3 * s.pp);
      if (!is_legal(s, c.model, c.cluster) || !is_in_space(s, c.model) || s.pp == 1) continue;
      if (*std::min_element(s.stage_layers.begin(), s.stage_layers.end()) < s.vp) continue;
      CAPTURE(seed, to_text(s));
      const BlockCosts blocks = block_costs(c.model, c.cluster, s);
      const Placement placement(c.model, c.cluster, s);
      const TimeTerms time = cost_of(c.model, c.cluster, s, blocks).time;
      const Recompute recomputed =
          s.recompute == Recompute::kSelective ? Recompute::kSelective : Recompute::kNone;
      const SendTime send = boundary_send(c.model, c.cluster, s, placement).time;
      const DivisionBound bound(c.model, s, blocks, prefix, recomputed, send);
      const double pipeline = (total(time) - time.optimizer - placement.tied()).si();
      REQUIRE(bound.possible(pipeline * (1 + 1e-9)));
      if (time.dp_comm_exposed.si() > 0.05 * pipeline) continue;  // not of the pipeline
      ++compared[k];
      if (num_microbatches(s) > s.pp) continue;
      ++few[k], share[k] += bound.least(1e30) / pipeline;
    }
  }
  for (std::size_t k = 0; k < kAll.size(); ++k) {
    CAPTURE(name_of(kAll[k]), compared[k], few[k], share[k] / few[k]);
    CHECK(compared[k] > 140);
    CHECK(share[k] > 0.5 * few[k]);
  }
}
