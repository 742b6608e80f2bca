#include "report/rates.hpp"

#include "base/check.hpp"
#include "report/sample.hpp"
#include "report/terms.hpp"
#include "support/catch.hpp"

using namespace meshplan;

TEST_CASE(
    "[F-RATE-1] a million tokens in four seconds on eight devices are 31,250 each per second") {
  const Rates r = rates(sample_plan(), sample_cluster());
  CHECK(r.tokens_per_s == Approx(250'000));
  CHECK(r.tokens_per_s_per_gpu == Approx(31'250));
}

TEST_CASE("[F-RATE-2] 8 PFLOP in four seconds on eight devices are 250 TFLOP/s each") {
  CHECK(rates(sample_plan(), sample_cluster()).model_flops_per_gpu.si() == Approx(250e12));
}

TEST_CASE("[F-USD-1] eight devices at 9 USD per hour cost 8 cents in four seconds") {
  ClusterSpec c = sample_cluster();
  CHECK_FALSE(rates(sample_plan(), c).usd_per_step.has_value());
  c.usd_per_gpu_hour = 9;
  CHECK(*rates(sample_plan(), c).usd_per_step == Approx(0.08));
}

TEST_CASE("a plan without a step time is a bug, not a rate") {
  PlanCost p = sample_plan();
  p.step_time = Seconds{};
  CHECK_THROWS_AS(rates(p, sample_cluster()), InternalError);
}

TEST_CASE("exposed communication is the sum over the dimensions") {
  CHECK(exposed_communication(sample_plan().time).si() == Approx(0.75));
}

TEST_CASE("the named terms are all the terms of the step time") {
  // One term at a time: a missing or doubled row would break one of them.
  for (const TimeTermRow& row : kTimeTerms) {
    TimeTerms t;
    t.*row.term = Seconds{1};
    Seconds sum;
    for (const TimeTermRow& other : kTimeTerms) sum += t.*other.term;
    CHECK(sum == total(t));
  }
  CHECK(sizeof(TimeTerms) == kTimeTerms.size() * sizeof(Seconds));
}

TEST_CASE("the named terms are all the terms of the memory") {
  CHECK(sizeof(MemoryBreakdown) == kMemoryTerms.size() * sizeof(Bytes));
}
