#include "comm/measured.hpp"

#include "comm/clusters.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

using namespace comm_test;

double us(const ClusterSpec& c, Collective op, std::int64_t bytes, const GroupShape& g) {
  return collective_time(c, op, Bytes{bytes}, g).total.si() * 1e6;
}

ClusterSpec measured_cluster() {
  ClusterSpec c = cluster(kH100);
  c.collectives.push_back({Collective::kAllReduce,
                           "node",
                           8,
                           1,
                           {{Bytes{1000}, microseconds_of(10)},
                            {Bytes{100'000}, microseconds_of(40)},
                            {Bytes{10'000'000}, microseconds_of(90)}}});
  return c;
}

TEST_CASE("[F-COMM-19] bus factors are those of nccl-tests") {
  CHECK(bus_factor(Collective::kAllReduce, 8) == Approx(1.75));
  CHECK(bus_factor(Collective::kAllReduce, 2) == Approx(1));
  CHECK(bus_factor(Collective::kAllGather, 8) == Approx(0.875));
  CHECK(bus_factor(Collective::kReduceScatter, 4) == Approx(0.75));
  CHECK(bus_factor(Collective::kAllToAll, 16) == Approx(0.9375));
  CHECK(bus_factor(Collective::kBroadcast, 8) == Approx(1));
  CHECK(bus_factor(Collective::kSendRecv, 2) == Approx(1));
}

TEST_CASE("[F-COMM-18] a measured curve is met at its points and is straight between them") {
  const ClusterSpec c = measured_cluster();
  const GroupShape g = group(c, 8);
  CHECK(us(c, Collective::kAllReduce, 1000, g) == Approx(10));
  CHECK(us(c, Collective::kAllReduce, 100'000, g) == Approx(40));
  // Halfway in the logarithm of the size: the geometric means.
  CHECK(us(c, Collective::kAllReduce, 10'000, g) == Approx(20));
  CHECK(us(c, Collective::kAllReduce, 1'000'000, g) == Approx(60));
  CHECK(collective_time(c, Collective::kAllReduce, Bytes{1000}, g).algorithm ==
        Algorithm::kMeasured);
}

TEST_CASE("[F-COMM-20] sends one way and both ways are read off their own curves") {
  ClusterSpec c = cluster(kH100);
  const GroupShape pair = group(c, 2), ring = group(c, 4);
  const auto time = [&](const GroupShape& g, bool both) {
    return collective_time(c, Collective::kSendRecv, Bytes{1000}, g, both).total.si() * 1e6;
  };
  const auto curve = [](std::int64_t ranks, double us, bool both) {
    CollectiveFit fit{
        Collective::kSendRecv, "node", ranks, 1, {{Bytes{1000}, microseconds_of(us)}}};
    fit.bidirectional = both;
    return fit;
  };
  // Without any curve there is one time.
  CHECK(time(pair, true) == time(pair, false));
  c.collectives = {curve(2, 10, false)};
  CHECK(time(pair, false) == Approx(10));
  CHECK(time(pair, true) == Approx(10));  // stands in
  c.collectives.push_back(curve(4, 17, true));
  CHECK(time(pair, false) == Approx(10));
  CHECK(time(pair, true) == Approx(17));
  CHECK(time(ring, true) == Approx(17));
  c.collectives = {curve(4, 17, true)};
  CHECK(time(pair, false) == Approx(17));
}

TEST_CASE("[F-COMM-18] outside a measured curve its first time and its last bandwidth hold") {
  const ClusterSpec c = measured_cluster();
  const GroupShape g = group(c, 8);
  CHECK(us(c, Collective::kAllReduce, 8, g) == Approx(10));
  CHECK(us(c, Collective::kAllReduce, 40'000'000, g) == Approx(360));
}

TEST_CASE("[F-COMM-18] a dip in a measured curve does not make a larger message faster") {
  ClusterSpec c = measured_cluster();
  c.collectives[0].points[1].second = microseconds_of(200);
  const GroupShape g = group(c, 8);
  CHECK(us(c, Collective::kAllReduce, 10'000'000, g) == Approx(200));
  CHECK(us(c, Collective::kAllReduce, 11'000'000, g) == Approx(200));
}

TEST_CASE("[F-COMM-20] the nearest number of ranks stands in, at the same bus bandwidth") {
  const ClusterSpec c = measured_cluster();
  // Factors 1.75 for 8 ranks, 1.5 for 4.
  CHECK(us(c, Collective::kAllReduce, 100'000, group(c, 4)) == Approx(40 * 1.5 / 1.75));
}

TEST_CASE("[F-COMM-20] other operations, placements and sizes of groups are not read off a curve") {
  ClusterSpec c = measured_cluster();
  const auto algorithm = [&](Collective op, const GroupShape& g) {
    return collective_time(c, op, Bytes{1000}, g).algorithm;
  };
  CHECK(algorithm(Collective::kAllGather, group(c, 8)) != Algorithm::kMeasured);
  CHECK(algorithm(Collective::kAllReduce, group(c, 2)) != Algorithm::kMeasured);
  CHECK(algorithm(Collective::kAllReduce, group(c, 8, 8)) != Algorithm::kMeasured);
  // Sixteen ranks on two nodes share eight cards; on sixteen nodes each group has one.
  c.collectives[0].level = "network";
  c.collectives[0].ranks = 16;
  c.collectives[0].nodes = 2;
  CHECK(algorithm(Collective::kAllReduce, group(c, 16)) == Algorithm::kMeasured);
  CHECK(algorithm(Collective::kAllReduce, group(c, 32)) == Algorithm::kMeasured);
  CHECK(algorithm(Collective::kAllReduce, group(c, 16, 8)) != Algorithm::kMeasured);
}

TEST_CASE("[F-COMM-20] the exact number of ranks is preferred to a near one") {
  ClusterSpec c = measured_cluster();
  c.collectives.push_back(c.collectives[0]);
  c.collectives[1].ranks = 4;
  c.collectives[1].points = {{Bytes{1000}, microseconds_of(7)}};
  CHECK(us(c, Collective::kAllReduce, 1000, group(c, 4)) == Approx(7));
  CHECK(us(c, Collective::kAllReduce, 1000, group(c, 8)) == Approx(10));
}

}  // namespace
}  // namespace meshplan
