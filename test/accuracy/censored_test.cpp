#include "censored.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "errors.hpp"
#include "support/catch.hpp"

namespace meshplan::accuracy {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

double share_up_to(const std::vector<std::pair<double, double>>& distribution, double x) {
  double sum = 0;
  for (const auto& [value, share] : distribution) sum += value <= x ? share : 0;
  return sum;
}

TEST_CASE("values known exactly weigh the same each") {
  const std::vector<Censored> seen{{1, 1}, {2, 2}, {2, 2}, {5, 5}};
  const auto found = most_likely(seen);
  CHECK(share_up_to(found, 1) == Approx(0.25));
  CHECK(share_up_to(found, 2) == Approx(0.75));
  CHECK(share_up_to(found, 5) == Approx(1));
}

// Kaplan and Meier's product: 1 - 3/4, 1 - 3/4 x 1/2, the rest beyond 4.
TEST_CASE("values known to lie above a limit share what is left there") {
  const std::vector<Censored> seen{{1, 1}, {2, kUnbounded}, {3, 3}, {4, kUnbounded}};
  const auto found = most_likely(seen);
  CHECK(share_up_to(found, 1) == Approx(0.25).margin(1e-4));
  CHECK(share_up_to(found, 3) == Approx(0.625).margin(1e-4));
  CHECK(share_up_to(found, 4) == Approx(0.625).margin(1e-4));
  CHECK(share_up_to(found, 4.01) == Approx(1).margin(1e-4));
}

// Below 1 one of two, below 2 one of two, below 3 two of two: the first two limits pool to a half.
TEST_CASE("where only one side of limits is known, shares rise with the limit") {
  const std::vector<Censored> seen{{-kUnbounded, 1}, {1, kUnbounded},  {-kUnbounded, 2},
                                   {2, kUnbounded},  {-kUnbounded, 3}, {-kUnbounded, 3}};
  const auto found = most_likely(seen);
  CHECK(share_up_to(found, 1) == Approx(0.5).margin(0.01));
  CHECK(share_up_to(found, 2) == Approx(0.5).margin(0.01));
  CHECK(share_up_to(found, 3) == Approx(1).margin(0.01));
}

// Runs of every size on devices of one capacity: those that ran are the ones that needed less.
TEST_CASE("the errors of memory are found again though only the lucky runs publish theirs") {
  std::mt19937 random(7);
  std::normal_distribution<double> error(0.05, 0.1);
  std::uniform_real_distribution<double> room(-0.3, 0.3);
  Residuals all;
  all.sources = {"sweep"};
  all.time.push_back({0, Regime::kSteady, "a100", "megatron", 8, 0});
  double naive = 0, ran = 0;
  for (int i = 0; i < 4000; ++i) {
    const double r = error(random), limit = room(random);
    const bool fits = r <= limit;
    all.memory.push_back({0, false, fits ? Censored{r, r} : Censored{limit, kUnbounded}});
    if (fits) naive += r;
    if (fits) ++ran;
  }
  const MeasuredErrors errors = measured_errors(all);
  const auto& q = errors.allocator_memory.quantiles;
  const double median = (q[kMemoryQuantiles / 2 - 1] + q[kMemoryQuantiles / 2]) / 2;
  CHECK(median == Approx(0.05).margin(0.015));
  CHECK(q.back() == Approx(0.05 + 0.1 * 1.96).margin(0.05));
  CHECK(naive / ran < 0.035);
}

TEST_CASE("runs that ran out of memory belong to the scored source whose title begins theirs") {
  const auto file = [](const char* name, Use use, const char* title) {
    Source s;
    s.name = name;
    s.use = use;
    s.title = title;
    return s;
  };
  const Source ran = file("sweep", Use::kScore, "A sweep");
  const Source other = file("other", Use::kScore, "Another sweep");
  const Source failed = file("sweep_oom", Use::kFeasibility, "A sweep - did not run");
  Run ok, oom, crashed;
  oom.status = "oom";
  crashed.status = "error: Kernel not available";
  const auto of = [](const Source& source, const Run& run) {
    Prediction p;
    p.source = &source;
    p.run = &run;
    return p;
  };
  std::vector<Prediction> predictions;
  predictions.push_back(of(ran, ok));
  predictions.push_back(of(other, ok));
  predictions.push_back(of(failed, oom));
  predictions.push_back(of(failed, crashed));
  const auto found = with_both_outcomes(predictions, {"other", "sweep"});
  REQUIRE(found.size() == 2);
  CHECK(found[0] == std::pair<const Prediction*, std::size_t>{&predictions[0], 1});
  CHECK(found[1] == std::pair<const Prediction*, std::size_t>{&predictions[2], 1});
}

}  // namespace
}  // namespace meshplan::accuracy
