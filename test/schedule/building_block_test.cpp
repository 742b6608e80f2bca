// V-Half and V-Min (Qi et al. 2024, arXiv:2405.15362).
#include "schedule/program.hpp"
#include "schedule/shapes.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

using namespace testing;  // NOLINT: helpers of these tests

std::int64_t most_in_flight(const PipelineShape& s) {
  std::int64_t most = 0;
  for (std::int64_t r = 0; r < s.pp; ++r) most = std::max(most, peak_in_flight(s, r));
  return most;
}

// Activations in microbatches, as the paper's authors state them: 1F1B p, V-Half (p + 2) // 2,
// V-Min (p + 4) // 3. A chunk is half a rank's layers.
TEST_CASE("[F-PIPE-12] [F-PIPE-13] Activations are a half and a third of those of 1F1B") {
  for (std::int64_t p = 1; p <= 20; ++p) {
    CAPTURE(p);
    CHECK(most_in_flight({Schedule::kVHalf, p, 2, 4 * p, 0}) == 2 * ((p + 2) / 2));
    CHECK(most_in_flight({Schedule::kVMin, p, 2, 4 * p, 0}) == 2 * ((p + 4) / 3));
  }
}

TEST_CASE("[F-PIPE-11] Few microbatches never hold more than many") {
  for (const Schedule schedule : {Schedule::kVHalf, Schedule::kVMin}) {
    for (std::int64_t p = 1; p <= 9; ++p) {
      const std::int64_t many = most_in_flight({schedule, p, 2, 6 * p, 0});
      for (std::int64_t m = 1; m <= 3 * p; ++m) {
        CAPTURE(name_of(schedule), p, m);
        CHECK(most_in_flight({schedule, p, 2, m, 0}) <= many);
      }
    }
  }
}

struct Row {
  std::int64_t pp;
  double v_half, v_min;
};

// What the authors' program (zbv_greedy.py, sail-sg/zero-bubble-pipeline-parallelism) gives with 4
// p microbatches and passes of one unit; 1F1B idles for 6 (p - 1) of them. The paper: about a half
// and about two thirds.
TEST_CASE("[F-PIPE-12] [F-PIPE-13] Idle time for F = B = W is that of the authors' program") {
  const auto row = GENERATE(values<Row>({{2, 1, 3},
                                         {3, 5, 5},
                                         {4, 5, 11},
                                         {5, 11, 15},
                                         {6, 11, 17},
                                         {7, 17, 23},
                                         {8, 17, 27},
                                         {12, 29, 41},
                                         {16, 41, 59}}));
  CAPTURE(row.pp);
  const double plain = bubble({Schedule::k1f1b, row.pp, 1, 4 * row.pp, 0}, 2, 2, 2);
  CHECK(plain == Approx(6.0 * static_cast<double>(row.pp - 1)));
  const double half = bubble({Schedule::kVHalf, row.pp, 2, 4 * row.pp, 0}, 1, 1, 1);
  const double third = bubble({Schedule::kVMin, row.pp, 2, 4 * row.pp, 0}, 1, 1, 1);
  CHECK(half == Approx(row.v_half));
  CHECK(third == Approx(row.v_min));
  CHECK(half <= plain / 2);
  CHECK(third <= 2 * plain / 3);
}

TEST_CASE("[F-PIPE-13] V-Min waits in every microbatch where the passes differ, V-Half does not") {
  const auto more = [](Schedule schedule) {
    return bubble({schedule, 8, 2, 80, 0}, 1, 1.3, 0.8) -
           bubble({schedule, 8, 2, 40, 0}, 1, 1.3, 0.8);
  };
  CHECK(more(Schedule::kVMin) > 10);
  CHECK(more(Schedule::kVHalf) < 1);
}

TEST_CASE("[F-PIPE-11] Every number of ranks and microbatches runs to its end") {
  for (const Schedule schedule : {Schedule::kVHalf, Schedule::kVMin}) {
    for (std::int64_t p = 1; p <= 10; ++p) {
      for (std::int64_t m = 1; m <= 2 * p + 3; ++m) {
        CAPTURE(name_of(schedule), p, m);
        const PipelineShape s{schedule, p, 2, m, 0};
        REQUIRE(illegal_reason(s).empty());
        const PipelineResult r = run_without_sends(s, equal_chunks(s, 1, 1, 1), true);
        for (const auto& rank : r.timeline) REQUIRE(rank.size() == static_cast<std::size_t>(6 * m));
      }
    }
  }
}

}  // namespace
}  // namespace meshplan
