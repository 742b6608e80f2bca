// The search asks for no memory while it evaluates stages.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "cost/step.hpp"
#include "frameworks/preset.hpp"
#include "search/candidate.hpp"
#include "search/cases.hpp"
#include "support/catch.hpp"

namespace {

std::atomic<long> allocations{0};

}  // namespace

void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(std::max<std::size_t>(1, size))) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(std::max<std::size_t>(1, size));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

// Values of every share of every stage, some recomputing; how many there were.
int evaluate_all(const Stages& stages) {
  int n = 0;
  for (int r = 0; r < stages.num_stages(); ++r) {
    for (int state = 0; state < stages.num_states(); ++state) {
      const LayerCursor p = stages.layout().place(state);
      if (p.front < 0 || p.back < 0 || p.taken > stages.layout().layers()) continue;  // of nothing
      stages.moves(r, state, kUnbounded / 4, [&](const StageMove&) { ++n; });
    }
  }
  return n;
}

}  // namespace

TEST_CASE("evaluating stages allocates nothing") {
  struct Row {
    Schedule schedule;
    std::int64_t vp;
  };
  const auto row = GENERATE(values<Row>({{Schedule::k1f1b, 1},
                                         {Schedule::kInterleaved, 3},
                                         {Schedule::kZbH1, 1},
                                         {Schedule::kZbV, 2},
                                         {Schedule::kDualPipe, 2}}));
  CAPTURE(name_of(row.schedule));
  Case c;
  c.model = small_model(24, 2048);
  add_experts(c.model, 8, 2, 1);
  c.cluster = small_cluster(1, 4, Bytes{24 * kGiB});
  c.request.base = framework_preset(Framework::kMegatron);
  c.request.base.global_batch = 32;
  c.request.base.seq_len = 4096;
  const auto space = SearchSpace::make(c.model, c.cluster, c.request);
  REQUIRE(space.ok());
  SearchContext x(c.model, c.cluster, c.request, *space);
  PartialStrategy choice;
  choice.pp = 4, choice.schedule = row.schedule, choice.vp = row.vp;
  Strategy s = with_partial(space->bases().front(), choice);
  s.recompute = Recompute::kFull;
  const StageContext context{x.model,
                             x.cluster,
                             s,
                             x.blocks(s, 0),
                             x.prefix(s),
                             x.in_flight.of(pipeline_shape(s)),
                             x.placement(s, 0).communicators(),
                             x.capacity(),
                             x.host_capacity(),
                             false,
                             Measure::kTime,
                             CountRule::kFewest,
                             0,
                             nullptr};
  const Stages stages(context);
  const long before = allocations;
  const int evaluated = evaluate_all(stages);
  CHECK(allocations == before);
  CHECK(evaluated > 20);
}

// Every sharding, overlap and way of offloading of some pipelines, which then come again.
TEST_CASE("evaluating complete strategies allocates nothing") {
  Case c;
  c.model = small_model(24, 2048);
  add_experts(c.model, 8, 2, 1);
  c.cluster = small_cluster(2, 4, Bytes{24 * kGiB});
  c.request.base = framework_preset(Framework::kMegatron);
  c.request.base.global_batch = 64;
  c.request.base.seq_len = 4096;
  InFlightCache in_flight;
  PipelineRunner runner;
  StepModel model(c.model, c.cluster, runner);
  Strategy base = c.request.base;
  base.dp = 2, base.pp = 4;
  struct Row {
    Schedule schedule;
    std::int64_t vp;
  };
  std::vector<Strategy> pipelines;
  std::vector<BlockCosts> blocks;
  std::vector<Placement> placements;  // with ZeRO-0 and 1
  for (const Row& row : {Row{Schedule::k1f1b, 1}, Row{Schedule::kInterleaved, 3},
                         Row{Schedule::kZbV, 2}, Row{Schedule::kDualPipe, 2}}) {
    for (const Recompute mode : {Recompute::kNone, Recompute::kFull}) {
      Strategy s = base;
      s.schedule = row.schedule, s.vp = row.vp, s.recompute = mode;
      pipelines.push_back(complete(s, c.model, c.cluster));
      blocks.push_back(block_costs(c.model, c.cluster, pipelines.back()));
      for (const int zero : {0, 1}) {
        s.zero = zero;
        placements.emplace_back(c.model, c.cluster, s);
      }
    }
  }
  int evaluated = 0;
  Seconds sum;
  const auto evaluate_all = [&] {
    for (std::size_t i = 0; i < pipelines.size(); ++i) {
      Strategy& s = pipelines[i];
      model.set_pipeline(s, blocks[i], placements[2 * i], in_flight.of(pipeline_shape(s)));
      for (s.zero = 0; s.zero <= 1; ++s.zero) {
        model.set_sharding(s, placements[2 * i + static_cast<std::size_t>(s.zero)]);
        for (const bool offload : {false, true}) {
          for (const bool overlap : {false, true}) {
            s.offload.optimizer = offload, s.overlap.grad_reduce = overlap;
            sum += model.evaluate(s).step_time;
            ++evaluated;
          }
        }
      }
    }
  };
  evaluate_all();  // buffers and task orders
  const long before = allocations;
  evaluate_all();
  CHECK(allocations == before);
  CHECK(evaluated == 2 * 8 * 8);
  CHECK(sum > Seconds{});
}
