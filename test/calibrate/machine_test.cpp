#include "calibrate/machine.hpp"

#include "probe/fake_backend.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

Machine processors(std::int64_t ranks, std::int64_t per_node) {
  Machine m = fake_machine(ranks, per_node);
  m.backend = "mpi";
  m.accelerator = false;
  return m;
}

CollectiveFit curve(Collective op, const std::string& level, std::vector<TimedSize> points) {
  CollectiveFit fit;
  fit.operation = op;
  fit.level = level;
  fit.ranks = 2;
  fit.points = std::move(points);
  return fit;
}

TEST_CASE("devices are known by the names that their driver gives them") {
  CHECK(shipped_device("NVIDIA H200") == "h200-sxm-141gb");
  CHECK(shipped_device("NVIDIA H100 80GB HBM3") == "h100-sxm-80gb");
  CHECK(shipped_device("NVIDIA H100 PCIe") == "h100-pcie-80gb");
  CHECK(shipped_device("Fake GPU").empty());
}

TEST_CASE("a machine that nobody described is a legal cluster") {
  const DeviceSpec d = processor_device(4, Bytes{8 * kGiB});
  CHECK(validate(d).empty());
  CHECK(d.memory == Bytes{8 * kGiB});
  CHECK(d.sources.at("peak").find("not measured") != std::string::npos);
  const ClusterSpec one = cluster_of(processors(2, 2), d);
  CHECK(validate(one).empty());
  CHECK(one.nodes == 1);
  CHECK(one.gpus_per_node == 2);
  CHECK(one.levels.size() == 1);
  const ClusterSpec two = cluster_of(processors(8, 4), d);
  CHECK(validate(two).empty());
  CHECK(two.nodes == 2);
  REQUIRE(two.levels.size() == 2);
  CHECK(two.levels[0].span == 4);
  CHECK(two.levels[1].span == 0);
}

TEST_CASE("[F-CAL-8] levels get the bandwidth of their curves and the latency of ping-pongs") {
  const Seconds us{1e-6};
  const ClusterSpec before = cluster_of(processors(4, 2), processor_device(1, Bytes{kGiB}));
  const std::vector<CollectiveFit> fits{
      // 1 MB in 100 us is 10 GB/s; of an all-gather between two, half of it is sent: 5 GB/s.
      // One-way messages follow each other every 0.3 us: how many there are, not how long one
      // takes.
      curve(Collective::kSendRecv, "node", {{Bytes{8}, 0.3 * us}, {Bytes{1000000}, 100 * us}}),
      curve(Collective::kAllGather, "node", {{Bytes{8}, 4 * us}, {Bytes{1000000}, 100 * us}}),
      curve(Collective::kBroadcast, "network", {{Bytes{8}, 1 * us}}),
      curve(Collective::kAllGather, "network", {{Bytes{8}, 9 * us}, {Bytes{4000}, 10 * us}})};
  const MeasuredLevels measured = with_measured_levels(
      before, fits, std::vector<LevelLatency>{{"node", 2 * us}, {"node", 3 * us}});
  const ClusterSpec& c = measured.cluster;
  CHECK(c.levels[0].bandwidth.si() == Approx(10e9));
  CHECK(c.levels[0].latency.si() == Approx(2e-6));
  CHECK(c.levels[1].bandwidth.si() == Approx(0.2e9));
  CHECK(c.levels[1].latency.si() == Approx(9e-6));
  CHECK(validate(c).empty());
  REQUIRE(measured.warnings.size() == 1);
  CHECK(measured.warnings[0] ==
        "the latency of level 'network', 9.00 us, is that of a whole collective: no ping-pong "
        "crossed it");
}

TEST_CASE("[F-CAL-8] levels that nothing crossed are marked and warned of") {
  const ClusterSpec before = cluster_of(processors(4, 2), processor_device(1, Bytes{kGiB}));
  const Seconds us{1e-6};
  const std::vector<CollectiveFit> fits{
      curve(Collective::kAllReduce, "node", {{Bytes{8}, 2 * us}, {Bytes{1000}, 3 * us}})};
  const MeasuredLevels some =
      with_measured_levels(before, fits, std::vector<LevelLatency>{{"node", us}});
  REQUIRE(some.warnings.size() == 1);
  CHECK(some.warnings[0].find("level 'network' was not measured: 1.00 GB/s and 1.00 us only stand "
                              "in its place; run bench again with --resume") == 0);
  CHECK(some.cluster.source.find("level 'node': bandwidth highest of its curves, latency half of a "
                                 "ping-pong") != std::string::npos);
  CHECK(some.cluster.source.find("level 'network': bandwidth not measured, latency not measured") !=
        std::string::npos);
  CHECK(with_measured_levels(before, {}, {}).warnings.size() == 2);
  // One device alone: nothing could cross its level.
  const ClusterSpec alone = cluster_of(processors(1, 1), processor_device(1, Bytes{kGiB}));
  CHECK(with_measured_levels(alone, {}, {}).warnings.empty());
}

}  // namespace
}  // namespace meshplan
