#include "errors.hpp"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "cost/uncertainty.hpp"
#include "published.hpp"
#include "score.hpp"
#include "summary.hpp"
#include "support/catch.hpp"
#include "support/presets.hpp"

namespace meshplan::accuracy {
namespace {

TimeResidual residual(std::size_t source, double log_ratio, Regime regime = Regime::kSteady) {
  return {source, regime, "a100", "megatron", 8, log_ratio};
}

// `count` errors spread evenly from `low` to `high`.
void add(Residuals& all, std::size_t source, int count, double low, double high) {
  for (int i = 0; i < count; ++i)
    all.time.push_back(residual(source, low + (high - low) * (i + 0.5) / count));
}

Residuals sources(std::size_t n) {
  Residuals all;
  for (std::size_t s = 0; s < n; ++s) all.sources.push_back("source" + std::to_string(s));
  return all;
}

TEST_CASE("a weighted quantile is the smallest value that holds its share") {
  const std::vector<std::pair<double, double>> even{{3, 1}, {1, 1}, {2, 1}, {4, 1}};
  CHECK(weighted_quantile(even, 0.5) == 2);
  CHECK(weighted_quantile(even, 0.51) == 3);
  CHECK(weighted_quantile(even, 0.75) == 3);
  CHECK(weighted_quantile(even, 1) == 4);
  CHECK(weighted_quantile(even, 0) == 1);
  // Three quarters of the weight lie on 10.
  CHECK(weighted_quantile({{10, 3}, {1, 0.5}, {20, 0.5}}, 0.5) == 10);
  CHECK(weighted_quantile({{10, 3}, {1, 0.5}, {20, 0.5}}, 0.9) == 20);
}

TEST_CASE("sources with the same errors get a band that holds four runs in five of the next") {
  Residuals all = sources(5);
  // A large source weighs no more than a small one.
  for (std::size_t s = 0; s < 5; ++s) add(all, s, s == 0 ? 1000 : 50, -0.1, 0.1);
  const MeasuredErrors errors = measured_errors(all);
  const ErrorBand& band = errors.step_time[static_cast<std::size_t>(Regime::kSteady)];
  CHECK(band.centre == Approx(0).margin(0.005));
  CHECK(band.below == Approx(0.08).margin(0.005));
  CHECK(band.above == Approx(0.08).margin(0.005));
  CHECK(band.sources == 5);
  CHECK(band.runs == 1200);
  CHECK(errors.unseen_device == 1);
  CHECK(errors.devices == std::vector<std::string>{"a100"});
  for (const Coverage& c : coverage_of(all)) {
    CHECK(c.inside == Approx(0.8).margin(0.04));
    CHECK(c.median_width == Approx(2 * std::sinh(0.08)).margin(0.01));
  }
}

TEST_CASE("sources that differ from each other make bands wider than each of them") {
  Residuals all = sources(4);
  for (std::size_t s = 0; s < 4; ++s) {
    const double centre = 0.3 * static_cast<double>(s % 2) - 0.15;
    add(all, s, 20, centre - 0.02, centre + 0.02);
  }
  const MeasuredErrors errors = measured_errors(all);
  const ErrorBand& band = errors.step_time[static_cast<std::size_t>(Regime::kSteady)];
  CHECK(band.above + band.below > 0.28);
}

TEST_CASE("a regime of few sources leans on all of them, but is never narrower than its own") {
  Residuals all = sources(4);
  for (std::size_t s = 0; s < 4; ++s) add(all, s, 50, -0.1, 0.1);
  for (int i = 0; i < 50; ++i)
    all.time.push_back(residual(0, -0.5 + 0.02 * i + 0.01, Regime::kMoe));
  const MeasuredErrors errors = measured_errors(all);
  const ErrorBand& moe = errors.step_time[static_cast<std::size_t>(Regime::kMoe)];
  CHECK(moe.sources == 1);
  CHECK(moe.above >= 0.39);
  const ErrorBand& launch = errors.step_time[static_cast<std::size_t>(Regime::kLaunchBound)];
  CHECK(launch.sources == 0);  // nothing of its own: everybody's
  CHECK(launch.above > 0.05);
}

TEST_CASE("a framework that one source alone uses, and that was far off, widens what is unseen") {
  Residuals all = sources(5);
  for (std::size_t s = 0; s < 4; ++s) add(all, s, 50, -0.1, 0.1);
  for (int i = 0; i < 50; ++i) {
    TimeResidual r = residual(4, -0.6 + 0.024 * i);
    r.framework = "nanotron";
    all.time.push_back(r);
  }
  const MeasuredErrors errors = measured_errors(all);
  CHECK(errors.unseen_framework > 1.3);
  CHECK(errors.unseen_device == 1);
  CHECK(errors.frameworks.size() == 2);
}

TEST_CASE("memory that the device and that the allocator counts is kept apart") {
  Residuals all = sources(2);
  all.time = {residual(0, 0), residual(1, 0)};
  for (int i = 0; i < 20; ++i) {
    all.memory.push_back({0, true, {0.2, 0.2}});
    all.memory.push_back({1, false, {-0.1, -0.1}});
  }
  const MeasuredErrors errors = measured_errors(all);
  CHECK(errors.device_memory.quantiles.front() == 0.2);
  CHECK(errors.device_memory.sources == 1);
  CHECK(errors.allocator_memory.quantiles.back() == -0.1);
  CHECK(errors.allocator_memory.runs == 20);
}

// Pairs whose predicted ratio and order follow a logistic of the given scale.
void add_pairs(Residuals& all, std::size_t source, double scale) {
  for (int step = 1; step <= 20; ++step) {
    const double ratio = 0.01 * step;
    const double right = 1 / (1 + std::exp(-ratio / scale));
    for (int i = 0; i < 100; ++i)
      all.pairs.push_back({source, ratio, 0.0, (i + 0.5) / 100 < right});
  }
}

TEST_CASE("the scale of errors of an order is found again in pairs that follow it") {
  Residuals all = sources(3);
  for (std::size_t s = 0; s < 3; ++s) {
    all.time.push_back(residual(s, 0));
    add_pairs(all, s, 0.06);
  }
  const MeasuredErrors errors = measured_errors(all);
  CHECK(errors.order_floor == Approx(0.06).margin(0.01));
  CHECK(errors.order_pairs == 6000);
  for (const Reliability& bin : order_reliability(all)) {
    if (bin.count > 0) CHECK(bin.came == Approx(bin.said).margin(0.05));
  }
}

TEST_CASE("the generated table names what it was made from and reads as source") {
  Residuals all = sources(2);
  add(all, 0, 10, -0.1, 0.1);
  add(all, 1, 10, -0.1, 0.1);
  all.memory.push_back({0, true, {0.1, 0.1}});
  MeasuredErrors errors = measured_errors(all);
  errors.sources = {{"source0", 0.05, 0.08}};
  const std::string text = table_text(errors);
  CHECK(text.find("{\"source0\", 0.0500, 0.0800}") != std::string::npos);
  CHECK(text.find("e.devices = {\"a100\"};") != std::string::npos);
  CHECK(text.find("e.frameworks = {\"megatron\"") != std::string::npos);
  CHECK(text.find("nan") == std::string::npos);
}

// A change of the physics or of the constants that moves predictions makes the table old.
TEST_CASE("the table that ships was made with about these predictions") {
  const std::filesystem::path rows =
      std::filesystem::path(MESHPLAN_SOURCE_DIR) / "benchmarks/accuracy/published";
  const std::vector<std::filesystem::path> inputs{rows};
  const auto published = read_published(inputs);
  REQUIRE(published.ok());
  Machines machines(MESHPLAN_ACCURACY_CLUSTERS, DataFolders::standard());
  std::map<std::string, std::vector<double>> errors;
  for (const Source& source : *published) {
    if (source.use != Use::kScore) continue;
    for (const Run& run : source.runs) {
      if (!run.step_time) continue;
      const auto task = prepare(source, run, machines, {});
      if (!std::holds_alternative<Task>(task)) continue;
      const auto result = predict(std::get<Task>(task));
      if (const Prediction* p = std::get_if<Prediction>(&result))
        errors[source.name].push_back(
            std::abs(relative_error(p->cost.step_time.si(), run.step_time->si())));
    }
  }
  const MeasuredErrors& shipped = shipped_errors();
  double now = 0, then = 0;
  for (const SourceError& source : shipped.sources) {
    INFO(source.name << ": the table is old; build the target accuracy-errors");
    REQUIRE(errors.count(source.name) == 1);
    const double error = median(errors.at(source.name));
    CHECK(error == Approx(source.shipped).margin(0.15));
    now += error / static_cast<double>(shipped.sources.size());
    then += source.shipped / static_cast<double>(shipped.sources.size());
  }
  INFO("the table is old; build the target accuracy-errors");
  CHECK(shipped.sources.size() == errors.size());
  CHECK(now == Approx(then).margin(0.03));
}

}  // namespace
}  // namespace meshplan::accuracy
