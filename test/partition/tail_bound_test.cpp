// Bounds built up from the last rank against every division of small pipelines.
#include "partition/tail_bound.hpp"

#include "cost/step_model.hpp"
#include "cost/step_parts.hpp"
#include "frameworks/preset.hpp"
#include "partition/every_division.hpp"

namespace meshplan {
namespace {

using namespace search_test;

// Pipelines of two to five ranks with memory for everything: few microbatches or some more than
// ranks, messages that take nothing or as long as a layer.
Case tail_case(Dice& dice) {
  Case c;
  c.model = random_model(dice);
  set_layers(dice, c.model, dice.between(6, 10));
  const std::int64_t pp = dice.between(2, 5);
  c.cluster = small_cluster(1, pp, Bytes{4096 * kGiB});
  const double links = dice.one_of<double>({1e-3, 1, 1e3});
  for (LinkLevel& level : c.cluster.levels) level.bandwidth = level.bandwidth * links;
  c.request.base = framework_preset(Framework::kMegatron);
  c.request.base.overlap.pp = dice.once_in(2);
  c.request.base.runtime.interleaved_p2p_overlap = false;
  c.request.base.global_batch = dice.once_in(2) ? dice.between(1, 8) : pp * dice.between(1, 3);
  c.request.base.seq_len = dice.one_of<std::int64_t>({2048, 8192});
  c.request.limits = {only("pp", {std::to_string(pp)}), only("micro_batch", {"1"}),
                      only("schedule", {"1f1b", "gpipe", "zb-h1", "interleaved"}),
                      only("recompute", {"none"})};
  c.request.threads = 1;
  return c;
}

struct Bounded {
  int pipelines = 0, rounds = 0, loose = 0, exact_of_few = 0;
};

void compare(const Case& c, Bounded& n) {
  for_each_pipeline(c, [&](SearchContext& x, const SearchSpace&, Strategy s, std::size_t base) {
    const PipelineShape shape = pipeline_shape(s);
    REQUIRE(TailBound::knows(shape));
    if (StageLayout::needs_rounds(s, x.prefix(s))) return;  // each total of rounds has a graph
    CAPTURE(to_text(s), c.model.num_layers);
    const std::vector<double> times = EveryDivision(c, s).plain_times();
    if (times.empty()) return;
    const double best = times.front();
    const StageContext context = stages_of(x, s, base, CountRule::kNone);
    const Placement& placement = x.placement(s, base);
    const Stages stages(context);
    const DivisionGraph graph(stages, shape, kUnbounded);
    PipelineRunner runner;
    StepModel step(c.model, c.cluster, runner);
    TailEnds ends;
    ends.tied = placement.tied().si();
    for (const DivisionGraph::Taken& t : graph.shares()) {
      const StepEnd end =
          step.end_of_rank(s, context.blocks, placement, stages.blocks_of(t.stage, t.share));
      ends.exposed.push_back(end.exposed.si());
      ends.after.push_back((end.optimizer + end.offload).si());
    }
    const SendTime send = boundary_send(c.model, c.cluster, s, placement).time;
    TailBound tails(graph, shape, send, ends);
    double before = 0;
    for (const std::size_t width : {std::size_t{1}, std::size_t{4}, std::size_t{1} << 20}) {
      const TailBound::Answer answer = tails.least(1e300, width);
      REQUIRE(answer.least <= best * (1 + 1e-9));
      REQUIRE(static_cast<std::int64_t>(answer.path.size()) == s.pp);
      n.loose += answer.least < best * (1 - 1e-9) ? 1 : 0;
      if (width == 4 && answer.is_own) ++n.exact_of_few;
      if (answer.is_own) REQUIRE(answer.least >= best * (1 - 1e-9));
      before = answer.least;
    }
    REQUIRE(before >= best * (1 - 1e-9));  // nothing was put together
    // What takes longer than is asked for is left out, the best division never.
    REQUIRE(tails.least(best * (1 + 1e-9), 2).least <= best * (1 + 1e-9));
    REQUIRE(tails.least(best * (1 - 1e-9), std::size_t{1} << 20).path.empty());
    ++n.pipelines, n.rounds += s.vp > 1 ? 1 : 0;
  });
}

}  // namespace

TEST_CASE(
    "[F-SEARCH-17] no division beats what the last ranks say, and wide enough it is the best") {
  Bounded n;
  for (unsigned i = 0; i < 400; ++i) {
    CAPTURE(i);
    Dice dice(i);
    compare(tail_case(dice), n);
  }
  CHECK(n.pipelines > 200);
  CHECK(n.rounds > 20);
  CHECK(n.loose > 0);         // some bounds are below the best division
  CHECK(n.exact_of_few > 0);  // and some are not, of four
}

}  // namespace meshplan
