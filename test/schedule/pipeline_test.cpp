#include "schedule/pipeline.hpp"

#include <map>
#include <tuple>

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
  // F = 1, B = 2 (1.25 + 0.75): the whole step is (m + p - 1)(F + B).
  CHECK(makespan(s, 1, 1.25, 0.75) ==
        Approx(3.0 * static_cast<double>(row.microbatches + row.pp - 1)).epsilon(1e-12));
}

TEST_CASE("[F-PIPE-3] Interleaving divides the idle time by the chunks per rank") {
  // p = 4, m = 8, v = 1: 3 * (1 + 2) = 9; chunks of half the work: 4.5; of a third: 3.
  const PipelineShape plain{.pp = 4, .microbatches = 8};
  CHECK(bubble(plain, 1, 1, 1) == Approx(9.0));
  const std::int64_t vp = GENERATE(2, 3, 4, 8);
  const std::int64_t microbatches = GENERATE(4, 8, 64, 256);
  const PipelineShape s{Schedule::kInterleaved, 4, vp, microbatches, 0};
  const double part = 1.0 / static_cast<double>(vp);
  CHECK(bubble(s, part, part, part) == Approx(9.0 * part).epsilon(1e-9));
}

}  // namespace
}  // namespace meshplan
