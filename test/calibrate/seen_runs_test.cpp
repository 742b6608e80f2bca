// What runs that a profile was learnt from say of other plans.
#include "calibrate/seen_runs.hpp"

#include <cmath>
#include <vector>

#include "support/catch.hpp"

namespace meshplan {
namespace {

SeenRun slow_run(double error = -0.1) {
  return {"slow", {{"gemm.sustained.bf16", -0.8}, {"memory_efficiency", -0.2}}, error, 0.01};
}

TEST_CASE("[F-CAL-12] a plan of the same parts takes longer as its run did, another does not") {
  const std::vector<SeenRun> runs{slow_run()};
  const SeenEffect same = effect_of(runs, runs[0].sensitivity);
  CHECK(same.factor > 1.02);
  CHECK(same.factor < std::exp(0.1));
  CHECK(same.widening < 0.9);
  const SeenEffect near =
      effect_of(runs, {{"gemm.sustained.bf16", -0.75}, {"memory_efficiency", -0.22}});
  CHECK(near.factor > 1.01);
  CHECK(near.factor < same.factor);
  CHECK(near.widening > same.widening);
  const TimeDerivatives elsewhere{{"bandwidth between nodes", -0.7}, {"memory_efficiency", -0.3}};
  CHECK(effect_of(runs, elsewhere).factor == Approx(1).margin(1e-6));
  // A run that is off by no more than runs are says nothing of others' intervals.
  const std::vector<SeenRun> usual{slow_run(-0.05)};
  CHECK(effect_of(usual, elsewhere).widening == Approx(1).epsilon(0.01));
}

TEST_CASE("[F-CAL-12] with more runs of the same parts more is believed") {
  const std::vector<SeenRun> one{slow_run()}, three{slow_run(), slow_run(-0.11), slow_run(-0.09)};
  CHECK(effect_of(three, one[0].sensitivity).factor > effect_of(one, one[0].sensitivity).factor);
  // A run that errs the other way takes it back.
  const std::vector<SeenRun> both{slow_run(), slow_run(0.1)};
  CHECK(effect_of(both, one[0].sensitivity).factor == Approx(1).margin(0.005));
}

TEST_CASE("[F-CAL-12] runs that err by more than runs do widen the intervals of all others") {
  const std::vector<SeenRun> runs{slow_run(-1)};
  CHECK(effect_of(runs, {{"bandwidth between nodes", -1}}).widening > 1.5);
}

TEST_CASE("[F-CAL-12] no runs say nothing") {
  const SeenEffect none = effect_of({}, {{"memory_efficiency", -1}});
  CHECK(none.factor == 1);
  CHECK(none.widening == 1);
}

}  // namespace
}  // namespace meshplan
