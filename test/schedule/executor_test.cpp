// What holds for every schedule, shape and set of times.
#include "schedule/pipeline.hpp"
#include "schedule/program.hpp"
#include "schedule/reference.hpp"
#include "schedule/run.hpp"
#include "schedule/shapes.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

using namespace testing;  // NOLINT: helpers of these tests

// Long enough that the steady round is repeated.
PipelineShape long_shape(RandomShapes& random) {
  PipelineShape s = random.shape();
  const std::int64_t round = std::max<std::int64_t>({s.pp, s.group, 2});
  s.microbatches += 8 * round * random.integer(2, 20);
  return illegal_reason(s).empty() ? s : long_shape(random);
}

// Stages that differ by a percent: the slowest shows only after very many microbatches.
std::vector<ChunkTime> nearly_equal_chunks(RandomShapes& random, const PipelineShape& s) {
  auto chunks = equal_chunks(s, 1, 1, 1);
  for (auto& c : chunks) c.forward *= random.real(0.99, 1.01);
  return chunks;
}

TEST_CASE("[F-PIPE-1] The executor agrees with a slow one that keeps every message") {
  RandomShapes random(31);
  PipelineRunner runner;
  for (int i = 0; i < 1200; ++i) {
    const PipelineShape s = i % 4 == 0 ? long_shape(random) : random.shape();
    CAPTURE(name_of(s.schedule), s.pp, s.vp, s.microbatches, s.group);
    const auto chunks = i % 3 == 0 ? nearly_equal_chunks(random, s) : random.chunks(s);
    const auto down = random.sends(s);
    const auto up = random.sends(s);
    const ReferenceRun want(s, chunks, down, up);
    REQUIRE(want.complete());
    const PipelineResult& got = runner.run(s, chunks, down, up);
    for (std::size_t r = 0; r < want.finish.size(); ++r)
      REQUIRE(got.finish[r].si() == Approx(want.finish[r]).epsilon(1e-11));
    const double last = *std::max_element(want.finish.begin(), want.finish.end());
    REQUIRE(got.makespan.si() == Approx(last).epsilon(1e-11));
  }
}

TEST_CASE("[F-PIPE-1] Leaping over the steady state changes nothing") {
  RandomShapes random(32);
  PipelineRunner runner;
  for (int i = 0; i < 400; ++i) {
    const PipelineShape s = long_shape(random);
    CAPTURE(name_of(s.schedule), s.pp, s.vp, s.microbatches, s.group);
    const auto chunks = i % 3 == 0   ? nearly_equal_chunks(random, s)
                        : i % 3 == 1 ? equal_chunks(s, 1, 1.5, 0.75)
                                     : random.chunks(s);
    const auto down = random.sends(s);
    const auto up = random.sends(s);
    // A run with a timeline executes every task.
    const PipelineResult full = run_pipeline(s, chunks, down, up, true);
    const PipelineResult& quick = runner.run(s, chunks, down, up);
    REQUIRE(quick.makespan.si() == Approx(full.makespan.si()).epsilon(1e-11));
    for (std::size_t r = 0; r < full.finish.size(); ++r)
      REQUIRE(quick.finish[r].si() == Approx(full.finish[r].si()).epsilon(1e-11));
  }
}

TEST_CASE("The steady round is found for every schedule, so long runs stay cheap") {
  for (const auto& [schedule, name] : NameTable<Schedule>::rows) {
    if (traits_of(schedule).forwards_first) continue;
    for (std::int64_t pp = 1; pp <= 16; ++pp) {
      for (const std::int64_t vp : {1, 2, 3}) {
        const PipelineShape s{schedule, pp, vp, 720720, 0};  // divisible by every pp
        if (!illegal_reason(s).empty()) continue;
        CAPTURE(name, pp, vp);
        const Program p = compile(s);
        REQUIRE(p.body_end > p.body_begin);
        REQUIRE(p.shape.microbatches <= 10 * pp + 24);
      }
    }
  }
}

TEST_CASE("[F-PIPE-1] A billion microbatches end when the closed forms say") {
  // With every round executed this would take hours. F + B = 3, p = 4.
  constexpr std::int64_t kMany = 1'000'000'000;
  for (const Schedule schedule : {Schedule::kGpipe, Schedule::k1f1b, Schedule::kZbH1}) {
    const PipelineShape s{schedule, 4, 1, kMany, 0};
    const double idle = schedule == Schedule::kZbH1 ? 3 : 9;
    CHECK(bubble(s, 1, 1, 1) == Approx(idle).margin(1e-3));
  }
  const PipelineShape both_ways{Schedule::kDualPipe, 4, 2, kMany, 0};
  CHECK(bubble(both_ways, 1, 1, 1) == Approx(2).margin(1e-3));
  // The slowest rank sets the pace, and the others are idle.
  const PipelineShape s{.pp = 4, .microbatches = kMany};
  auto chunks = equal_chunks(s, 1, 1, 1);
  chunks[3].forward = Seconds{2};
  CHECK(run_without_sends(s, chunks).makespan.si() == Approx(4.0 * kMany).epsilon(1e-7));
}

TEST_CASE("The timeline runs every rank's order, one task after the other") {
  RandomShapes random(33);
  for (int i = 0; i < 600; ++i) {
    const PipelineShape s = i % 3 == 0 ? long_shape(random) : random.shape();
    CAPTURE(name_of(s.schedule), s.pp, s.vp, s.microbatches, s.group);
    const auto r = run_pipeline(s, random.chunks(s), random.sends(s), random.sends(s), true);
    for (std::int64_t rank = 0; rank < s.pp; ++rank) {
      const auto& entries = r.timeline[static_cast<std::size_t>(rank)];
      const auto order = task_order(s, rank);
      REQUIRE(entries.size() == order.size());
      Seconds free;
      bool in_order = true;
      for (std::size_t k = 0; k < entries.size(); ++k) {
        in_order = in_order && entries[k].task == order[k] && entries[k].start >= free &&
                   entries[k].end >= entries[k].start;
        free = entries[k].end;
      }
      REQUIRE(in_order);
      REQUIRE(r.start[static_cast<std::size_t>(rank)].si() == Approx(entries[0].start.si()));
    }
  }
}

TEST_CASE(
    "A rank's finish is its work, its sends and receives, and a wait that is never negative") {
  RandomShapes random(34);
  for (int i = 0; i < 1500; ++i) {
    const PipelineShape s = random.shape();
    CAPTURE(name_of(s.schedule), s.pp, s.vp, s.microbatches, s.group);
    const auto r = run_pipeline(s, random.chunks(s), random.sends(s), random.sends(s), true);
    for (std::size_t rank = 0; rank < r.finish.size(); ++rank) {
      Seconds work;
      for (const auto& e : r.timeline[rank]) work += e.end - e.start;
      REQUIRE(r.busy[rank].si() == Approx(work.si()));
      REQUIRE((r.busy[rank] + r.communication[rank]).si() <= r.finish[rank].si() * (1 + 1e-12));
      REQUIRE(r.finish[rank] <= r.makespan);
    }
  }
}

TEST_CASE("Sends only ever add time") {
  RandomShapes random(35);
  PipelineRunner runner;
  for (int i = 0; i < 1500; ++i) {
    const PipelineShape s = random.shape();
    const auto chunks = random.chunks(s);
    const Seconds without = runner.run(s, chunks, no_sends(s), no_sends(s)).makespan;
    const Seconds with = runner.run(s, chunks, random.sends(s), random.sends(s)).makespan;
    REQUIRE(with.si() >= without.si() * (1 - 1e-12));
  }
}

TEST_CASE("With a fixed order, a slower chunk or send never ends the step earlier") {
  RandomShapes random(36);
  PipelineRunner runner;
  for (int i = 0; i < 1500; ++i) {
    const PipelineShape s = random.shape();
    auto chunks = random.chunks(s);
    auto down = random.sends(s);
    const auto up = random.sends(s);
    CAPTURE(name_of(s.schedule), s.pp, s.vp, s.microbatches, s.group);
    const Seconds before = runner.run(s, chunks, down, up).makespan;
    auto& chunk = chunks[static_cast<std::size_t>(random.integer(0, num_chunks(s) - 1))];
    chunk.forward *= random.real(1, 2);
    chunk.backward_input *= random.real(1, 2);
    chunk.backward_weight *= random.real(1, 2);
    if (!down.empty()) down.front().transfer *= random.real(1, 2);
    REQUIRE(runner.run(s, chunks, down, up).makespan.si() >= before.si() * (1 - 1e-12));
  }
}

TEST_CASE("A runner that has run other shapes gives the same bits as a fresh one") {
  RandomShapes random(37);
  PipelineRunner used;
  for (int i = 0; i < 300; ++i) {
    const PipelineShape s = random.shape(200);
    const auto chunks = random.chunks(s);
    const auto down = random.sends(s);
    const auto up = random.sends(s);
    REQUIRE(used.run(s, chunks, down, up).makespan == run_pipeline(s, chunks, down, up).makespan);
  }
}

TEST_CASE("A wrong number of times is caught as a bug") {
  const PipelineShape s{.pp = 4, .microbatches = 8};
  const std::vector<ChunkTime> three(3);
  const std::vector<SendTime> two(2);
  CHECK_THROWS_AS(run_pipeline(s, three, two, two), std::logic_error);
  CHECK_THROWS_AS(run_pipeline(s, equal_chunks(s, 1, 1, 1), two, no_sends(s)), std::logic_error);
  CHECK_THROWS_AS(makespan_lower_bound(s, three), std::logic_error);
}

}  // namespace
}  // namespace meshplan
