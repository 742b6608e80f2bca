#include "calibrate/collectives.hpp"

#include "calibrate/samples.hpp"
#include "comm/collectives.hpp"
#include "comm/measured.hpp"
#include "io/load.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

using namespace calibrate_test;

ClusterSpec dgx() {
  ClusterSpec c = load_cluster("dgx-h100", DataFolders({MESHPLAN_SOURCE_DIR})).value();
  return with_gpus(std::move(c), 512);  // nvlink 8, rail 256, spine all
}

std::vector<CollectiveSample> samples_of(Collective op, std::int64_t ranks, std::int64_t nodes,
                                         const std::vector<TimedSize>& times) {
  std::vector<CollectiveSample> samples;
  for (const auto& [bytes, time] : times) {
    samples.push_back({.operation = op,
                       .ranks = ranks,
                       .nodes = nodes,
                       .level = {},
                       .bytes = bytes,
                       .time = time});
  }
  return samples;
}

TEST_CASE("a group's level is the innermost one that reaches its last member") {
  const ClusterSpec c = dgx();
  CHECK(level_of_group(c, 8, 1) == 0);
  CHECK(level_of_group(c, 2, 2) == 1);     // one device on each of two nodes
  CHECK(level_of_group(c, 256, 32) == 1);  // exactly one rail unit
  CHECK(level_of_group(c, 264, 33) == 2);
  CHECK_FALSE(level_of_group(c, 16, 1).has_value());    // more than a node holds
  CHECK_FALSE(level_of_group(c, 12, 8).has_value());    // not as many on each node
  CHECK_FALSE(level_of_group(c, 520, 65).has_value());  // more nodes than there are
  CHECK_FALSE(level_of_group(c, 1, 1).has_value());
}

TEST_CASE("one curve per operation, level and shape, used by prediction") {
  const ClusterSpec c = dgx();
  std::vector<CollectiveSample> samples =
      samples_of(Collective::kAllReduce, 8, 1, planted({.latency_s = 30e-6, .bandwidth = 200e9}));
  const auto slower =
      samples_of(Collective::kAllReduce, 16, 2, planted({.latency_s = 60e-6, .bandwidth = 50e9}));
  samples.insert(samples.end(), slower.begin(), slower.end());
  const Result<CollectiveFits> fits = fit_collectives(samples, c);
  REQUIRE(fits.ok());
  REQUIRE(fits->fits.size() == 2);
  CHECK(fits->fits[0].level == "nvlink");
  CHECK(fits->fits[1].level == "rail");
  CHECK(fits->fits[1].nodes == 2);
  CHECK(fits->fits[1].samples.size() == 28);
  CHECK(fits->warnings.empty());

  const ClusterSpec measured = with_collectives(c, fits->fits);
  const Result<std::vector<Comparison>> compared = compare(samples, measured);
  REQUIRE(compared.ok());
  REQUIRE(compared->size() == samples.size());
  for (const Comparison& row : *compared) {
    CHECK(row.measured);
    CHECK(row.predicted / row.sample.time == Approx(1).epsilon(0.005));
  }
}

TEST_CASE("a comparison without measured curves predicts from the model") {
  const ClusterSpec c = dgx();
  const auto samples = samples_of(Collective::kAllReduce, 8, 1, planted({}, 20, 20));
  const Result<std::vector<Comparison>> compared = compare(samples, c);
  REQUIRE(compared.ok());
  CHECK_FALSE(compared->front().measured);
  CHECK(compared->front().predicted.si() > 0);
  CHECK_FALSE(compare(samples_of(Collective::kAllReduce, 16, 1, planted({})), c).ok());
}

TEST_CASE("a new curve takes the place of the old one of its shape alone") {
  ClusterSpec c = dgx();
  const auto fit = [&](double latency) {
    return fit_collectives(samples_of(Collective::kAllToAll, 8, 1, planted({.latency_s = latency})),
                           c)
        .value()
        .fits;
  };
  c = with_collectives(c, fit(10e-6));
  std::vector<CollectiveFit> other = fit(20e-6);
  c = with_collectives(c, other);
  CHECK(c.collectives.size() == 1);
  CHECK(c.collectives[0].points.front().second.si() == Approx(20e-6).epsilon(0.01));
  other[0].ranks = 4;
  CHECK(with_collectives(c, other).collectives.size() == 2);
}

TEST_CASE("groups that make no curve are left out with the reason; none left is an error") {
  const ClusterSpec c = dgx();
  std::vector<CollectiveSample> samples = samples_of(Collective::kAllReduce, 8, 1, planted({}));
  const auto few = samples_of(Collective::kBroadcast, 8, 1, planted({}, 10, 11));
  samples.insert(samples.end(), few.begin(), few.end());
  const Result<CollectiveFits> fits = fit_collectives(samples, c);
  REQUIRE(fits.ok());
  CHECK(fits->fits.size() == 1);
  REQUIRE(fits->warnings.size() == 1);
  CHECK(fits->warnings[0].starts_with("broadcast of 8 ranks on 1 node: a curve needs"));
  CHECK_FALSE(fit_collectives(few, c).ok());
  CHECK_FALSE(fit_collectives({}, c).ok());
  samples[0].level = "nvlnk";
  CHECK(to_text(fit_collectives(samples, c).errors()).find("no level 'nvlnk'") !=
        std::string::npos);
}

}  // namespace
}  // namespace meshplan
