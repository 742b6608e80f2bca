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
    // With what follows on each rank: the rank whose end is last, by its own finish.
    std::vector<Seconds> after(static_cast<std::size_t>(s.pp));
    for (std::size_t r = 0; r < after.size(); ++r) {
      after[r] = path->length(chunks) * (static_cast<double>((7 * r + 3) % 5) / 10);
    }
    const auto ended = critical_path(runner.program(s), s, chunks, sends, sends, after);
    REQUIRE(ended);
    const auto end = [&](const CriticalPath& p) {
      return (p.length(chunks) + after[static_cast<std::size_t>(p.rank)]).si();
    };
    REQUIRE(end(*ended) >= end(*path) * (1 - 1e-9));
    REQUIRE(ended->length(chunks).si() <= path->length(chunks).si() * (1 + 1e-9));
    REQUIRE(path->length(others).si() * (1 - 1e-9) <=
            runner.run(s, others, sends, sends).makespan.si());
  }
  CHECK(leaps > 500);
}

}  // namespace
}  // namespace meshplan
