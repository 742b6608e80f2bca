#include "schedule/critical_path.hpp"

#include "schedule/shapes.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

using namespace testing;  // NOLINT: helpers of these tests

TEST_CASE("[F-PIPE-10] the critical path is as long as the pipeline, and a chain of any other") {
  RandomShapes random(20250);
  PipelineRunner runner;
  int leaps = 0;
  for (int i = 0; i < 3000; ++i) {
    PipelineShape s = random.shape();
    if (i % 3 == 0) s.microbatches += 40 * s.pp * 2;
    if (!illegal_reason(s).empty()) continue;
    leaps += s.microbatches > 40 * s.pp ? 1 : 0;
    CAPTURE(i, name_of(s.schedule), s.pp, s.vp, s.microbatches, s.group);
    const auto chunks = random.chunks(s), others = random.chunks(s);
    const auto sends = i % 2 == 0 ? no_sends(s) : random.sends(s);
    const auto path = critical_path(runner.program(s), s, chunks, sends, sends);
    REQUIRE(path);
    REQUIRE(path->length(chunks).si() ==
            Approx(runner.run(s, chunks, sends, sends).makespan.si()).epsilon(1e-9));
    REQUIRE(path->length(others).si() * (1 - 1e-9) <=
            runner.run(s, others, sends, sends).makespan.si());
  }
  CHECK(leaps > 500);
}

}  // namespace
}  // namespace meshplan
