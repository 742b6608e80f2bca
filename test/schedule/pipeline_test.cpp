// Closed forms of the papers for equal stages: what the executor makes of the orders.
#include "schedule/pipeline.hpp"

#include "schedule/run.hpp"
#include "schedule/shapes.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

using namespace testing;  // NOLINT: helpers of these tests

struct Row {
  std::int64_t pp, microbatches;
};

TEST_CASE("[F-PIPE-2] GPipe and 1F1B idle for (p - 1)(F + B) with equal stages") {
  const auto row =
      GENERATE(values<Row>({{1, 3}, {2, 1}, {4, 4}, {4, 8}, {8, 5}, {8, 64}, {16, 300}}));
  const Schedule schedule = GENERATE(Schedule::kGpipe, Schedule::k1f1b);
  const PipelineShape s{.schedule = schedule, .pp = row.pp, .microbatches = row.microbatches};
  // F = 1, B = 2 (1.25 + 0.75).
  CHECK(bubble(s, 1, 1.25, 0.75) == Approx(3.0 * static_cast<double>(row.pp - 1)).margin(1e-9));
}

TEST_CASE("[F-PIPE-2] The idle share of GPipe and 1F1B is (p - 1) / m of the work") {
  const Schedule schedule = GENERATE(Schedule::kGpipe, Schedule::k1f1b);
  // 7 / 32 with p = 8, m = 32.
  const PipelineShape s{.schedule = schedule, .pp = 8, .microbatches = 32};
  CHECK(bubble(s, 1, 1, 1) / (32 * 3.0) == Approx(0.21875));
}

TEST_CASE("[F-PIPE-3] Interleaving divides the idle time by the chunks per rank") {
  // p = 4: 3 * (1 + 2) = 9 without it.
  const PipelineShape plain{.pp = 4, .microbatches = 8};
  CHECK(bubble(plain, 1, 1, 1) == Approx(9.0));
  const std::int64_t vp = GENERATE(2, 3, 4, 8);
  const std::int64_t microbatches = GENERATE(4, 8, 64, 256);
  const PipelineShape s{Schedule::kInterleaved, 4, vp, microbatches, 0};
  const double part = 1.0 / static_cast<double>(vp);
  CHECK(bubble(s, part, part, part) == Approx(9.0 * part).epsilon(1e-9));
}

TEST_CASE("[F-PIPE-3] A wider group and a last group of at least p add no idle time") {
  const std::int64_t group = GENERATE(4, 5, 8, 12);
  const std::int64_t vp = GENERATE(2, 4);
  std::int64_t legal = 0;
  for (std::int64_t m = 4; m <= 40; ++m) {
    const PipelineShape s{Schedule::kInterleaved, 4, vp, m, group};
    if (!illegal_reason(s).empty()) continue;
    ++legal;
    CAPTURE(m, group, vp);
    CHECK(bubble(s, 1, 1, 1) == Approx(9.0));  // chunks of 1 + 2
  }
  CHECK(legal >= 10);
}

TEST_CASE("[F-PIPE-4] ZB-H1 idles for (p - 1)(F + B - W), a third of 1F1B if F = B = W") {
  const auto row = GENERATE(values<Row>({{2, 2}, {2, 9}, {4, 4}, {4, 8}, {8, 8}, {8, 100}}));
  const PipelineShape s{
      .schedule = Schedule::kZbH1, .pp = row.pp, .microbatches = row.microbatches};
  const auto others = static_cast<double>(row.pp - 1);
  CHECK(bubble(s, 1, 1, 1) == Approx(1.0 * others));
  CHECK(bubble(s, 1, 2, 1) == Approx(2.0 * others));
  CHECK(bubble(s, 1, 1.5, 0.5) == Approx(2.0 * others));
}

TEST_CASE("[F-PIPE-4] ZB-H1 with W longer than F idles for (p - 1) B, more than the paper's form") {
  const PipelineShape s{.schedule = Schedule::kZbH1, .pp = 4, .microbatches = 12};
  CHECK(bubble(s, 1, 1.5, 2) == Approx(3 * 1.5));
}

TEST_CASE("[F-PIPE-5] ZB-V: with F = B = W and m >= 2p - 1 no rank waits once it has started") {
  const auto row =
      GENERATE(values<Row>({{1, 1}, {2, 3}, {2, 4}, {4, 7}, {4, 8}, {8, 15}, {8, 90}}));
  const PipelineShape s{Schedule::kZbV, row.pp, 2, row.microbatches, 0};
  const PipelineResult r = run_without_sends(s, equal_chunks(s, 1, 1, 1));
  const auto work = static_cast<double>(6 * row.microbatches);
  for (std::size_t rank = 0; rank < r.finish.size(); ++rank) {
    CHECK(r.start[rank].si() == Approx(static_cast<double>(rank)));
    CHECK((r.finish[rank] - r.start[rank]).si() == Approx(work));
  }
  // The step as a whole still waits for the last rank to start.
  CHECK(r.makespan.si() == Approx(work + static_cast<double>(row.pp - 1)));
}

TEST_CASE("[F-PIPE-5] ZB-V waits when the input gradient is longer than the weight gradient") {
  const PipelineShape s{Schedule::kZbV, 4, 2, 16, 0};
  const PipelineResult r = run_without_sends(s, equal_chunks(s, 1, 1.2, 0.8));
  CHECK((r.finish[0] - r.start[0]).si() > 6 * 16 + 1);
}

TEST_CASE(
    "[F-PIPE-6] DualPipe idles for (p/2 - 1)(F&B + B - 3W) where F equals the input gradient") {
  const auto row = GENERATE(values<Row>({{2, 4}, {4, 8}, {4, 20}, {8, 16}, {8, 64}, {16, 32}}));
  const PipelineShape s{Schedule::kDualPipe, row.pp, 2, row.microbatches, 0};
  const auto pairs = static_cast<double>(row.pp / 2 - 1);
  // F = 1, W = 1, B = 2: 3 + 2 - 3 = 2.  F = 1, W = 0.5, B = 1.5: 2.5 + 1.5 - 1.5 = 2.5.
  CHECK(bubble(s, 1, 1, 1) == Approx(2.0 * pairs).margin(1e-9));
  CHECK(bubble(s, 1, 1, 0.5) == Approx(2.5 * pairs).margin(1e-9));
}

TEST_CASE("Zero bubble and two directions idle less than 1F1B on the same model") {
  // One layer takes 1 + 1 + 1 and every rank holds two layers, over 8 ranks and 32 microbatches.
  const PipelineShape one{.schedule = Schedule::k1f1b, .pp = 8, .microbatches = 32};
  const PipelineShape h1{.schedule = Schedule::kZbH1, .pp = 8, .microbatches = 32};
  const PipelineShape v{Schedule::kZbV, 8, 2, 32, 0};
  const double plain = bubble(one, 2, 2, 2);
  CHECK(plain == Approx(42));
  CHECK(bubble(h1, 2, 2, 2) == Approx(14));
  CHECK(bubble(v, 1, 1, 1) == Approx(7));
}

TEST_CASE("[F-PIPE-1] The slowest stage sets the pace of many microbatches") {
  // F + B = 3 everywhere but 5 on rank 2 of 4: 5 m, and 2 (1 + 2) to reach it and to drain.
  const PipelineShape s{.pp = 4, .microbatches = 400};
  auto chunks = equal_chunks(s, 1, 1, 1);
  chunks[2] = {Seconds{2}, Seconds{2}, Seconds{1}};
  const double extra = run_without_sends(s, chunks).makespan.si() - 5.0 * 400;
  CHECK(extra >= 6.0);
  CHECK(extra <= 12.0);
  PipelineShape longer = s;
  longer.microbatches = 500;
  const double more = run_without_sends(longer, chunks).makespan.si();
  CHECK(more - run_without_sends(s, chunks).makespan.si() == Approx(5.0 * 100));
}

TEST_CASE("[F-PIPE-1] Sends: two ranks and one microbatch, added up by hand") {
  const PipelineShape s{.pp = 2, .microbatches = 1};
  const std::vector<ChunkTime> chunks{{Seconds{1}, Seconds{2}, Seconds{3}},
                                      {Seconds{4}, Seconds{5}, Seconds{6}}};
  const std::vector<SendTime> down{{Seconds{0.5}, Seconds{0.25}, Seconds{0.125}}};
  const std::vector<SendTime> up{{Seconds{0.75}, Seconds{0.75}, Seconds{0.75}}};
  const PipelineResult r = run_pipeline(s, chunks, down, up, true);
  // F0 0..1, arrives 1.5; F1 1.5..5.5; B1 5.5..16.5, arrives 17.25; B0 17.25..22.25.
  CHECK(r.makespan.si() == Approx(22.25));
  CHECK(r.finish[0].si() == Approx(22.25));
  CHECK(r.finish[1].si() == Approx(17.25));  // rank 1 stands still for its send
  CHECK(r.start[1].si() == Approx(1.5));
  CHECK(r.busy[0].si() == Approx(6));
  CHECK(r.busy[1].si() == Approx(15));
  CHECK(r.communication[0].si() == Approx(0.25 + 0.75));
  CHECK(r.communication[1].si() == Approx(0.125 + 0.75));
  REQUIRE(r.timeline[1].size() == 2);
  CHECK(r.timeline[1][1].task == Task{TaskKind::kBackward, 1, 0});
  CHECK(r.timeline[1][1].start.si() == Approx(5.5));
  CHECK(r.timeline[1][1].end.si() == Approx(16.5));
}

TEST_CASE("[F-PIPE-1] Messages over one link follow each other") {
  // Rank 0 sends a message of 3 after each forward of 1: they arrive at 4, 7, 10; rank 1 takes 1 +
  // 1 for each in between, so its last backward ends at 12 and rank 0's at 13.
  const PipelineShape s{.pp = 2, .microbatches = 3};
  const std::vector<ChunkTime> chunks(2, {Seconds{1}, Seconds{1}, Seconds{0}});
  const std::vector<SendTime> down{{Seconds{3}, Seconds{0}, Seconds{0}}};
  const PipelineResult r = run_pipeline(s, chunks, down, no_sends(s), true);
  // Rank 0 sends its third forward only after the first backward: 4 + 2 = 6, + 1 for the backward.
  CHECK(r.timeline[1][0].start.si() == Approx(4));
  CHECK(r.timeline[1][2].start.si() == Approx(7));
  CHECK(r.timeline[0][3].start.si() == Approx(7));   // third forward, after F F B (6..7)
  CHECK(r.timeline[1][4].start.si() == Approx(11));  // 7 + 1 + 3
  CHECK(r.makespan.si() == Approx(14));
}

}  // namespace
}  // namespace meshplan
