#include "calibrate/posterior.hpp"

#include <cmath>

#include "support/catch.hpp"

namespace meshplan {
namespace {

using Values = std::vector<double>;

// Runs that take work / rate + bytes / bandwidth.
struct Run {
  double work, bytes;
};

Predictor predictor(std::vector<Run> runs) {
  return [runs = std::move(runs)](std::span<const double> p) {
    Values times;
    for (const Run& run : runs) times.push_back(run.work / p[0] + run.bytes / p[1]);
    return times;
  };
}

const std::vector<Parameter> kParameters{
    {.name = "rate", .start = 100, .lowest = 1, .highest = 1000, .doubt = 0.06},
    {.name = "bandwidth", .start = 10, .lowest = 0.1, .highest = 100, .doubt = 0.25}};

// What runs take whose parameters are others, some of them by a factor longer.
std::vector<Observation> measured(const std::vector<Run>& runs, const Values& truth,
                                  const Values& longer = {}) {
  std::vector<Observation> all;
  const Values times = predictor(runs)(truth);
  for (std::size_t i = 0; i < times.size(); ++i) {
    const double factor = i < longer.size() ? longer[i] : 1;
    all.push_back({"run " + std::to_string(i), times[i] * factor, 0.01});
  }
  return all;
}

TEST_CASE("[F-CAL-10] one run moves what it tells, by less than it is off") {
  const std::vector<Run> one{{100, 0.1}};
  const auto learnt = update_parameters(kParameters, measured(one, {92, 10}), predictor(one));
  REQUIRE(learnt.ok());
  const ParameterFit& fit = learnt->fit;
  CHECK(fit.parameters[0].fitted);
  CHECK(fit.values[0] < 100);
  CHECK(fit.values[0] > 92);
  CHECK(fit.parameters[0].deviation < std::log(1.06));
  CHECK_FALSE(fit.parameters[1].fitted);  // a hundredth of the time
  CHECK(fit.values[1] == 10);
  CHECK(fit.parameters[1].reason.find("hardly tell it") != std::string::npos);
  CHECK_FALSE(fit.leave_one_out.has_value());
}

TEST_CASE("[F-CAL-10] runs that agree are believed, however far off they are") {
  const std::vector<Run> many{{100, 1}, {120, 1}, {150, 2}, {90, 1}, {80, 0.5}, {200, 2}};
  const auto learnt = update_parameters(kParameters, measured(many, {50, 10}), predictor(many));
  REQUIRE(learnt.ok());
  const ParameterFit& fit = learnt->fit;
  CHECK(fit.values[0] < 85);
  CHECK(fit.error_before > 0.4);
  CHECK(fit.error_after < 0.03);
  REQUIRE(fit.leave_one_out.has_value());
  CHECK(*fit.leave_one_out < 0.05);
}

TEST_CASE("[F-CAL-10] a run that stalled is not followed") {
  const std::vector<Run> one{{100, 0.1}};
  const auto alone = update_parameters(kParameters, measured(one, {100, 10}, {4}), predictor(one));
  REQUIRE(alone.ok());
  CHECK(alone->fit.values[0] > 80);
  // Of three that are made of different parts, the one in the middle.
  const std::vector<Run> three{{100, 0.1}, {100, 2}, {100, 4}};
  const auto followed =
      update_parameters(kParameters, measured(three, {96, 10}, {1, 4, 1}), predictor(three));
  REQUIRE(followed.ok());
  CHECK(followed->fit.values[0] == Approx(97).epsilon(0.03));
}

TEST_CASE("[F-CAL-10] runs that scatter widely move parameters less than runs that agree") {
  const std::vector<Run> three{{100, 0.1}, {120, 0.1}, {150, 0.2}};
  const auto rate = [&](const std::vector<double>& slower) {
    const auto learnt =
        update_parameters(kParameters, measured(three, {100, 10}, slower), predictor(three));
    REQUIRE(learnt.ok());
    return learnt->fit.values[0];
  };
  // All are 1.2 times slower in the mean of their logarithms.
  const double agreeing = rate({1.2, 1.2, 1.2}), scattered = rate({0.85, 1.15, 1.768});
  CHECK(agreeing < scattered);
}

TEST_CASE("[F-CAL-10] repeats of one run count little more than the run") {
  const std::vector<Run> one{{100, 3}}, repeats{{100, 3}, {100, 3}, {100, 3}},
      different{{100, 3}, {100, 8}, {100, 0.1}};
  const auto rate = [&](const std::vector<Run>& runs) {
    const auto learnt = update_parameters(kParameters, measured(runs, {92, 10}), predictor(runs));
    REQUIRE(learnt.ok());
    return learnt->fit.values[0];
  };
  CHECK(rate(repeats) - rate(different) > 2 * (rate(one) - rate(repeats)));
}

TEST_CASE("[F-CAL-10] runs that differ tell parameters apart") {
  const std::vector<Run> two{{100, 0.1}, {1, 20}};
  const auto learnt = update_parameters(kParameters, measured(two, {95, 8}), predictor(two));
  REQUIRE(learnt.ok());
  const ParameterFit& fit = learnt->fit;
  CHECK(fit.parameters[0].fitted);
  CHECK(fit.parameters[1].fitted);
  CHECK(fit.values[0] < 99.5);
  CHECK(fit.values[1] < 9.5);
  CHECK(fit.error_after < fit.error_before);
}

TEST_CASE("[F-CAL-10] parameters stay inside their bounds") {
  std::vector<Parameter> bounded = kParameters;
  bounded[0].lowest = 95;
  const std::vector<Run> many{{100, 1}, {120, 1}, {150, 2}, {90, 1}, {80, 0.5}, {200, 2}};
  const auto learnt = update_parameters(bounded, measured(many, {50, 10}), predictor(many));
  REQUIRE(learnt.ok());
  CHECK(learnt->fit.values[0] >= 95);
}

TEST_CASE("[F-CAL-12] what a run tells is handed on with it") {
  const std::vector<Run> two{{100, 1}, {1, 20}};
  const auto learnt = update_parameters(kParameters, measured(two, {95, 8}), predictor(two));
  REQUIRE(learnt.ok());
  REQUIRE(learnt->seen.size() == 2);
  const SeenRun& run = learnt->seen[0];
  CHECK(run.name == "run 0");
  // Nine tenths of the time go with the rate, the rest with what the bandwidth has become.
  CHECK(run.sensitivity.at("rate") == Approx(-0.91).epsilon(0.02));
  CHECK(run.sensitivity.at("bandwidth") == Approx(-0.1).epsilon(0.1));
  CHECK(run.error == Approx(std::log(1.1 / (1 / 0.95 + 1 / 8.0))).epsilon(0.05));
  CHECK(run.noise == 0.01);
}

TEST_CASE("nothing measured and a time of zero are refused") {
  const std::vector<Run> one{{100, 1}};
  CHECK_FALSE(update_parameters(kParameters, {}, predictor(one)).ok());
  const std::vector<Observation> zero{{"run", 0, 0.01}};
  CHECK_FALSE(update_parameters(kParameters, zero, predictor(one)).ok());
}

}  // namespace
}  // namespace meshplan
