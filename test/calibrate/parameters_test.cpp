#include "calibrate/parameters.hpp"

#include <cmath>

#include "support/catch.hpp"

namespace meshplan {
namespace {

using Values = std::vector<double>;

// Runs that take work / rate + bytes / bandwidth + launches x gap.
struct Run {
  double work, bytes, launches;
};

Predictor predictor(std::vector<Run> runs) {
  return [runs = std::move(runs)](std::span<const double> p) {
    Values times;
    for (const Run& run : runs) {
      times.push_back(run.work / p[0] + run.bytes / p[1] + run.launches * p[2]);
    }
    return times;
  };
}

const std::vector<Parameter> kParameters{
    {.name = "rate", .start = 50, .lowest = 1, .highest = 1000, .doubt = 0.5},
    {.name = "bandwidth", .start = 10, .lowest = 0.1, .highest = 100, .doubt = 0.5},
    {.name = "gap", .start = 1e-3, .lowest = 1e-6, .highest = 1, .doubt = 0.5}};
const Values kTruth{100, 4, 2e-3};

std::vector<Observation> measured(const std::vector<Run>& runs, double off = 0) {
  std::vector<Observation> all;
  for (const double time : predictor(runs)(kTruth)) {
    const double noisy = time * (1 + off * (all.size() % 2 == 0 ? 1 : -1));
    all.push_back({.name = "run " + std::to_string(all.size()), .value = noisy, .noise = 0.02});
  }
  return all;
}

const std::vector<Run> kDiverse{{100, 1, 10}, {100, 20, 10}, {10, 40, 5},
                                {50, 4, 900}, {200, 8, 50},  {20, 2, 400}};

TEST_CASE("[F-CAL-6] runs that differ determine every parameter exactly") {
  const auto fit = fit_parameters(kParameters, measured(kDiverse), predictor(kDiverse));
  REQUIRE(fit.ok());
  for (std::size_t p = 0; p < 3; ++p) {
    INFO(fit->parameters[p].name);
    CHECK(fit->parameters[p].fitted);
    CHECK(fit->values[p] == Approx(kTruth[p]).epsilon(1e-4));
    CHECK(fit->parameters[p].deviation < 0.1);
  }
  CHECK(fit->error_before > 0.3);
  CHECK(fit->error_after < 1e-4);
  REQUIRE(fit->leave_one_out.has_value());
  CHECK(*fit->leave_one_out < 1e-3);
}

TEST_CASE("[F-CAL-6] under noise the truth lies within a few of the stated deviations") {
  const auto fit = fit_parameters(kParameters, measured(kDiverse, 0.02), predictor(kDiverse));
  REQUIRE(fit.ok());
  for (std::size_t p = 0; p < 3; ++p) {
    const double off = std::abs(std::log(fit->values[p] / kTruth[p]));
    CHECK(off < 4 * fit->parameters[p].deviation);
    CHECK(off < 0.2);
  }
  CHECK(*fit->leave_one_out > fit->error_after);  // it has seen less
}

TEST_CASE("[F-CAL-6] what the runs do not depend on is not fitted, and the reason is said") {
  const std::vector<Run> compute{{100, 0.001, 1}, {50, 0.0005, 1}, {200, 0.001, 1}, {70, 0.001, 1}};
  const auto fit = fit_parameters(kParameters, measured(compute), predictor(compute));
  REQUIRE(fit.ok());
  CHECK(fit->parameters[0].fitted);
  CHECK(fit->values[0] == Approx(100).epsilon(0.01));
  CHECK_FALSE(fit->parameters[1].fitted);
  CHECK(fit->values[1] == 10);  // untouched
  CHECK(fit->parameters[1].reason.find("hardly depend on it") != std::string::npos);
}

TEST_CASE("[F-CAL-6] parameters whose effects are alike are not both fitted") {
  // The same mixture four times: only its total is known.
  const std::vector<Run> alike{{100, 5, 1}, {200, 10, 2}, {50, 2.5, 0.5}, {400, 20, 4}};
  const auto fit = fit_parameters(kParameters, measured(alike), predictor(alike));
  REQUIRE(fit.ok());
  int fitted = 0;
  for (const FittedParameter& p : fit->parameters) fitted += p.fitted ? 1 : 0;
  CHECK(fitted == 1);
  bool told = false;
  for (const FittedParameter& p : fit->parameters) {
    told = told || p.reason.find("cannot be told apart from that of rate") != std::string::npos;
  }
  CHECK(told);
}

TEST_CASE("[F-CAL-6] there are fewer parameters than runs, and one run determines one") {
  const std::vector<Run> two{{100, 1, 1}, {50, 5, 1}};
  std::vector<Observation> observations;
  for (const double time : predictor(two)(Values{100, 10, 1e-3})) {
    observations.push_back({.name = "run", .value = time, .noise = 0.02});
  }
  const auto fit = fit_parameters(kParameters, observations, predictor(two));
  REQUIRE(fit.ok());
  int fitted = 0;
  for (const FittedParameter& p : fit->parameters) fitted += p.fitted ? 1 : 0;
  CHECK(fitted == 1);
  CHECK(fit->values[0] == Approx(100).epsilon(1e-3));
  CHECK(fit->parameters[1].reason.find("too few runs: 2 determine 1") != std::string::npos);
  const std::vector<Run> one{{100, 0.01, 0.01}};
  const auto single = fit_parameters(kParameters, measured(one), predictor(one));
  REQUIRE(single.ok());
  CHECK(single->parameters[0].fitted);
  CHECK_FALSE(single->leave_one_out.has_value());
}

TEST_CASE("[F-CAL-6] a parameter that the runs drive to its bound is given up") {
  std::vector<Parameter> bounded = kParameters;
  bounded[0].highest = 60;  // the truth is 100
  const auto fit = fit_parameters(bounded, measured(kDiverse), predictor(kDiverse));
  REQUIRE(fit.ok());
  CHECK_FALSE(fit->parameters[0].fitted);
  CHECK(fit->values[0] == 50);
  CHECK(fit->parameters[0].reason.find("would drive it to 60.000") != std::string::npos);
}

TEST_CASE("[F-CAL-6] an effect that only shows away from the start is found") {
  // A link that is not the bottleneck until it is three quarters as fast as thought.
  const Predictor bottleneck = [](std::span<const double> p) {
    Values times;
    for (const double work : {1.0, 2.0, 3.0, 4.0}) {
      times.push_back(work / p[0] + std::max(1.0, 0.75 / p[1]) * (5 - work));
    }
    return times;
  };
  const std::vector<Parameter> parameters{
      {.name = "rate", .start = 1, .lowest = 0.1, .highest = 10, .doubt = 0.5},
      {.name = "link", .start = 1, .lowest = 0.1, .highest = 1.2, .doubt = 0.5}};
  const Values truth{0.8, 0.5};
  std::vector<Observation> observations;
  for (const double time : bottleneck(truth)) observations.push_back({"run", time, 0.01});
  const auto fit = fit_parameters(parameters, observations, bottleneck);
  REQUIRE(fit.ok());
  CHECK(fit->values[0] == Approx(0.8).epsilon(0.01));
  CHECK(fit->values[1] == Approx(0.5).epsilon(0.01));
}

TEST_CASE("nothing determined, nothing measured and a time of zero are refused") {
  const std::vector<Run> runs{{100, 1, 1}};
  const Predictor constant = [](std::span<const double>) { return Values{1.0}; };
  const auto none = fit_parameters(kParameters, measured(runs), constant);
  REQUIRE_FALSE(none.ok());
  CHECK(to_text(none.errors()).find("determine none of the parameters") != std::string::npos);
  CHECK_FALSE(fit_parameters(kParameters, {}, constant).ok());
  const std::vector<Observation> zero{{.name = "a run", .value = 0}};
  CHECK(to_text(fit_parameters(kParameters, zero, constant).errors())
            .find("the measurement of a run is not above zero") != std::string::npos);
}

}  // namespace
}  // namespace meshplan
