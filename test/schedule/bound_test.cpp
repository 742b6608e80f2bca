#include "schedule/shapes.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

using namespace testing;  // NOLINT: helpers of these tests

TEST_CASE("[F-PIPE-9] No execution beats the lower bound, with or without sends") {
  RandomShapes random(20240);
  PipelineRunner runner;
  for (int i = 0; i < 6000; ++i) {
    const PipelineShape s = random.shape();
    const auto chunks = random.chunks(s);
    const double bound = makespan_lower_bound(s, chunks).si();
    CAPTURE(name_of(s.schedule), s.pp, s.vp, s.microbatches, s.group);
    REQUIRE(bound > 0);
    REQUIRE(bound <= runner.run(s, chunks, no_sends(s), no_sends(s)).makespan.si());
    REQUIRE(bound <= runner.run(s, chunks, random.sends(s), random.sends(s)).makespan.si());
  }
}

}  // namespace
}  // namespace meshplan
