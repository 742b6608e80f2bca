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

TEST_CASE("[F-PIPE-9] No execution beats the lower bound when some tasks take no time") {
  RandomShapes random(20241);
  PipelineRunner runner;
  for (int i = 0; i < 3000; ++i) {
    const PipelineShape s = random.shape();
    auto chunks = random.chunks(s);
    for (auto& c : chunks) {
      if (random.integer(0, 2) == 0) c.forward = Seconds{};
      if (random.integer(0, 2) == 0) c.backward_input = Seconds{};
      if (random.integer(0, 2) == 0) c.backward_weight = Seconds{};
      if (random.integer(0, 9) == 0) c.forward *= 100;
    }
    CAPTURE(name_of(s.schedule), s.pp, s.vp, s.microbatches, s.group);
    REQUIRE(makespan_lower_bound(s, chunks) <=
            runner.run(s, chunks, no_sends(s), no_sends(s)).makespan);
  }
}

TEST_CASE("[F-PIPE-9] The bound of GPipe is its time, whatever the stages") {
  RandomShapes random(20242);
  for (int i = 0; i < 500; ++i) {
    const PipelineShape s{.schedule = Schedule::kGpipe,
                          .pp = random.integer(1, 9),
                          .microbatches = random.integer(1, 40)};
    const auto chunks = random.chunks(s);
    REQUIRE(makespan_lower_bound(s, chunks).si() ==
            Approx(run_without_sends(s, chunks).makespan.si()).epsilon(1e-9));
  }
}

TEST_CASE("[F-PIPE-9] With equal stages the bound of 1F1B, interleaved and ZB-H1 is their time") {
  RandomShapes random(20243);
  for (int i = 0; i < 2000; ++i) {
    const PipelineShape s = random.shape();
    if (traits_of(s.schedule).shares_both_ends()) continue;
    CAPTURE(name_of(s.schedule), s.pp, s.vp, s.microbatches, s.group);
    REQUIRE(makespan_lower_bound(s, equal_chunks(s, 1, 1, 0.75)).si() ==
            Approx(makespan(s, 1, 1, 0.75)).epsilon(1e-9));
  }
}

TEST_CASE("[F-PIPE-9] The bound of 1F1B is at least that of Megatron's closed form per rank") {
  RandomShapes random(20244);
  for (int i = 0; i < 1000; ++i) {
    const PipelineShape s{.pp = random.integer(1, 9), .microbatches = random.integer(1, 40)};
    const auto chunks = random.chunks(s);
    // sum over the ranks before r of F + B, and all of rank r's work.
    double before = 0;
    for (const auto& c : chunks) {
      const double work = (c.forward + c.backward_input + c.backward_weight).si();
      REQUIRE(makespan_lower_bound(s, chunks).si() >=
              (before + static_cast<double>(s.microbatches) * work) * (1 - 1e-9));
      before += work;
    }
  }
}

}  // namespace
}  // namespace meshplan
