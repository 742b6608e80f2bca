// Which algorithm wins where, and what it costs, worked out by hand from the formulas' sources.
#include "comm/clusters.hpp"
#include "comm/collectives.hpp"
#include "comm/nccl_constants.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

using namespace comm_test;

constexpr Bytes kLarge{16 * kGiB};

// Bus bandwidth in GB/s.
double bus_rate(const ClusterSpec& c, Collective op, const GroupShape& g, double factor) {
  return kLarge.si() * factor / collective_time(c, op, kLarge, g).total.si() / 1e9;
}

TEST_CASE("[F-COMM-10] large gathers reach the ring's bandwidth") {
  // 12 channels of 20 and 30 GB/s, 16 of 45; eight cards of 48 GB/s.
  const double f = 7.0 / 8;
  CHECK(bus_rate(cluster(kA100), Collective::kAllGather, group(cluster(kA100), 8), f) ==
        Approx(240).epsilon(0.01));
  CHECK(bus_rate(cluster(kH100), Collective::kReduceScatter, group(cluster(kH100), 8), f) ==
        Approx(360).epsilon(0.01));
  CHECK(bus_rate(cluster(kB200), Collective::kAllGather, group(cluster(kB200), 8), f) ==
        Approx(720).epsilon(0.01));
  CHECK(bus_rate(cluster(kH100), Collective::kAllGather, group(cluster(kH100), 32), 31.0 / 32) ==
        Approx(384).epsilon(0.01));
  CHECK(bus_rate(cluster(kA100), Collective::kBroadcast, group(cluster(kA100), 8), 1) ==
        Approx(240).epsilon(0.01));
}

TEST_CASE("[F-COMM-4] a group gets one network card for each of its members in a node") {
  const ClusterSpec c = cluster(kH100);
  const auto [stride, members] = GENERATE(table<std::int64_t, double>({{8, 1}, {4, 2}, {2, 4}}));
  const GroupShape g = group(c, 16, stride);
  CHECK(bus_rate(c, Collective::kReduceScatter, g, 15.0 / 16) ==
        Approx(48 * members).epsilon(0.01));
}

TEST_CASE("[F-COMM-4] the emptiest node limits a group that straddles two unevenly") {
  Strategy s;
  s.tp = 6;
  s.dp = 4;
  const ClusterSpec c = cluster(kH100);
  CHECK(bus_rate(c, Collective::kAllGather, group_shape(s, c, Group::kTp), 5.0 / 6) ==
        Approx(2 * 48).epsilon(0.01));
}

TEST_CASE("[F-COMM-5] oversubscription divides what each device has beyond it") {
  ClusterSpec c = cluster(kH100);
  c.levels.insert(c.levels.begin() + 1, c.levels[1]);
  c.levels[1].name = "rail";
  c.levels[1].span = 64;
  const GroupShape far = group(c, 2, 64);
  CHECK(bus_rate(c, Collective::kSendRecv, far, 1) == Approx(48).epsilon(0.01));
  c.levels[2].oversubscription = 2;
  CHECK(bus_rate(c, Collective::kSendRecv, far, 1) == Approx(24).epsilon(0.01));
  CHECK(bus_rate(c, Collective::kAllGather, far, 0.5) == Approx(24).epsilon(0.01));
  // Eight nodes below the spine share its half: a ring needs one node's worth of it.
  CHECK(bus_rate(c, Collective::kAllGather, group(c, 128), 127.0 / 128) ==
        Approx(384).epsilon(0.02));
}

TEST_CASE("[F-COMM-5] in a mesh two devices have one of seven links") {
  const ClusterSpec c = cluster(kMi300);
  const double whole = bus_rate(c, Collective::kAllGather, group(c, 8), 7.0 / 8);
  CHECK(whole == Approx(0.7 * 448).epsilon(0.01));
  CHECK(bus_rate(c, Collective::kAllGather, group(c, 4), 3.0 / 4) ==
        Approx(whole * 3 / 7).epsilon(0.01));
  CHECK(bus_rate(c, Collective::kSendRecv, group(c, 2), 1) == Approx(whole / 7).epsilon(0.01));
}

TEST_CASE("[F-COMM-22] collectives over EFA take what nccl-tests measured on p5.48xlarge") {
  ClusterSpec c = cluster({Architecture::kHopper, LinkKind::kNvswitch, 450, 50, LinkKind::kEfa});
  c.levels[1].latency = microseconds_of(25);
  const auto milliseconds = [&](Collective op, std::int64_t nodes, std::int64_t mib) {
    return collective_time(c, op, Bytes{mib * kMiB}, group(c, 8 * nodes)).total.si() * 1e3;
  };
  // crazyguitar/aws-gpu-communication-benchmark, data/nccl_alltoall.csv and nccl_all_reduce.csv.
  const auto [op, nodes, mib, measured] =
      GENERATE(table<Collective, std::int64_t, std::int64_t, double>(
          {{Collective::kAllToAll, 2, 64, 1.01},
           {Collective::kAllToAll, 4, 2048, 38.5},
           {Collective::kAllToAll, 8, 64, 1.90},
           {Collective::kAllToAll, 32, 128, 4.95},
           {Collective::kAllReduce, 2, 256, 1.38},
           {Collective::kAllReduce, 8, 128, 1.69},
           {Collective::kAllReduce, 16, 4096, 27.8},
           {Collective::kAllReduce, 32, 32, 1.01}}));
  CHECK(milliseconds(op, nodes, mib) == Approx(measured).epsilon(0.2));
}

TEST_CASE("[F-COMM-22] on EFA every member of another node is posted to by itself") {
  ClusterSpec c = cluster({Architecture::kHopper, LinkKind::kNvswitch, 450, 50, LinkKind::kEfa});
  const auto time = [&](std::int64_t ranks) {
    return collective_time(c, Collective::kAllToAll, Bytes{1}, group(c, ranks)).total.si() * 1e6;
  };
  CHECK(time(256) - time(128) == Approx(7.0 * 128).epsilon(0.001));
  c.levels[1].kind = LinkKind::kRoce;
  CHECK(time(256) - time(128) < 7.0 * 32);
}

TEST_CASE("[F-COMM-3] groups of PCIe devices that span both sockets share the link between them") {
  const ClusterSpec c = cluster(kPcie5);
  CHECK(bus_rate(c, Collective::kAllGather, group(c, 4), 0.75) == Approx(48).epsilon(0.01));
  CHECK(bus_rate(c, Collective::kAllGather, group(c, 8), 7.0 / 8) == Approx(22).epsilon(0.01));
  CHECK(bus_rate(c, Collective::kAllGather, group(c, 4, 2), 0.75) == Approx(11).epsilon(0.01));
}

TEST_CASE("[F-COMM-13] NVLS serves large all-reduces on Hopper, rings on Ampere") {
  const ClusterSpec hopper = cluster(kH100);
  const ClusterSpec ampere = cluster(kA100);
  const Bytes n{256 * kMiB};
  CHECK(collective_time(hopper, Collective::kAllReduce, n, group(hopper, 8)).algorithm ==
        Algorithm::kNvls);
  CHECK(collective_time(ampere, Collective::kAllReduce, n, group(ampere, 8)).algorithm ==
        Algorithm::kRing);
  // nccl-tests on 8 H100: bus bandwidth some 475 with NVLS.
  CHECK(bus_rate(hopper, Collective::kAllReduce, group(hopper, 8), 1.75) ==
        Approx(475).epsilon(0.02));
}

TEST_CASE("[F-COMM-14] NVLS trees serve large all-reduces over nodes of Hopper") {
  const ClusterSpec c = cluster(kH100);
  CHECK(collective_time(c, Collective::kAllReduce, Bytes{256 * kMiB}, group(c, 32)).algorithm ==
        Algorithm::kNvlsTree);
}

TEST_CASE("[F-COMM-8] trees serve small all-reduces over many nodes") {
  const ClusterSpec c = cluster(kH100);
  const auto t = collective_time(c, Collective::kAllReduce, Bytes{1024}, group(c, 128));
  CHECK(t.algorithm == Algorithm::kTree);
  CHECK(t.protocol == Protocol::kLl);
  CHECK(t.latency.si() * 1e6 == Approx(6.8 + 2 * (7 * 0.6 + 4 * 5.0)));
}

TEST_CASE("[F-COMM-11] aggregated trees serve small gathers with one member per node") {
  const ClusterSpec c = cluster(kH100);
  const auto t = collective_time(c, Collective::kAllGather, Bytes{16 * 1024}, group(c, 16, 8));
  CHECK(t.algorithm == Algorithm::kPat);
  CHECK(t.latency.si() * 1e6 == Approx(8 + 4 * 14 / 3.5 + 2.8 * 16));
}

TEST_CASE("[F-COMM-6] a ring's latency counts the hops of each level") {
  ClusterSpec c = cluster(kH100);
  c.levels.insert(c.levels.begin() + 1, c.levels[1]);
  c.levels[1].name = "rail";
  c.levels[1].span = 32;
  c.levels[2].latency = microseconds_of(10);
  // 64 members: 8 nodes, 2 blocks of 4. Inside a node 56 steps of 1 us (posting to the network),
  // 6 hops over the rail of 2.7 us, one over the spine 2 us longer.
  const auto t = collective_time(c, Collective::kAllGather, Bytes{1024}, group(c, 64));
  CHECK(t.protocol == Protocol::kLl);
  CHECK(t.latency.si() * 1e6 == Approx(6.6 + 56 * 1.0 + 6 * 2.7 + 4.7));
}

TEST_CASE("[F-COMM-17] pipeline neighbours in different nodes have one network card each") {
  const ClusterSpec c = cluster(kH100);
  const auto t = collective_time(c, Collective::kSendRecv, Bytes{48'000'000}, group(c, 2, 8));
  CHECK(t.total.si() * 1e6 == Approx(8.4 + 14 + 1000));
  CHECK(t.algorithm == Algorithm::kPairwise);
  CHECK(t.protocol == Protocol::kSimple);
}

TEST_CASE("[F-COMM-15] an all-to-all sends what leaves the node through one card per device") {
  const ClusterSpec c = cluster(kH100);
  // 7/8 of the buffer over NVLink at 0.8 * 0.597 / 0.742 of 450 GB/s.
  CHECK(bus_rate(c, Collective::kAllToAll, group(c, 8), 7.0 / 8) ==
        Approx(450 * 0.8 * 0.597 / 0.742).epsilon(0.01));
  // 56/64 of it over a card of 48 GB/s.
  CHECK(bus_rate(c, Collective::kAllToAll, group(c, 64), 56.0 / 64) == Approx(48).epsilon(0.01));
}

TEST_CASE("[F-COMM-16] gathering by rails makes small exchanges between many nodes faster") {
  const ClusterSpec c = cluster(kH100);
  const auto t = collective_time(c, Collective::kAllToAll, Bytes{64 * 1024}, group(c, 64));
  CHECK(t.algorithm == Algorithm::kHierarchical);
  // Two exchanges of 7 hops inside the node, 7 posts, and the network.
  CHECK(t.latency.si() * 1e6 == Approx(6.6 + 14 * 0.6 + 7 * 1.0 + 5.0));
  // With one member per node there is nothing to gather.
  CHECK(collective_time(c, Collective::kAllToAll, Bytes{64 * 1024}, group(c, 8, 8)).algorithm ==
        Algorithm::kPairwise);
}

TEST_CASE("[F-COMM-7] LL128 is not used over PCIe or Ethernet") {
  Fabric socket = kH100;
  socket.network = LinkKind::kEthernet;
  for (std::int64_t bytes = 1024; bytes <= kGiB; bytes *= 2) {
    const ClusterSpec pcie = cluster(kPcie5);
    const ClusterSpec ethernet = cluster(socket);
    CHECK(collective_time(pcie, Collective::kAllReduce, Bytes{bytes}, group(pcie, 8)).protocol !=
          Protocol::kLl128);
    CHECK(collective_time(ethernet, Collective::kAllGather, Bytes{bytes}, group(ethernet, 16))
              .protocol != Protocol::kLl128);
  }
}

TEST_CASE("[F-COMM-1] a hop's latency follows the level's") {
  LinkLevel ib{"ib", 0, BytesPerSecond{50e9}, microseconds_of(8), LinkKind::kInfiniband, 1};
  const auto hop = [&](Protocol p) { return hop_time(ib, Algorithm::kRing, p).si() * 1e6; };
  CHECK(hop(Protocol::kLl) == Approx(2.7));
  CHECK(hop(Protocol::kSimple) == Approx(14));
  ib.latency = microseconds_of(4);
  CHECK(hop(Protocol::kLl) == Approx(1.35));
  ib.latency = microseconds_of(25);  // 17 us above the reference, twice for Simple
  CHECK(hop(Protocol::kLl) == Approx(2.7 + 17));
  CHECK(hop(Protocol::kSimple) == Approx(14 + 34));
}

TEST_CASE("[F-COMM-2] a tree's correction is NCCL's at powers of two and never falls") {
  CHECK(tree_corrected_bytes(64, Protocol::kSimple) == Approx(64 / 0.9));
  CHECK(tree_corrected_bytes(1 << 18, Protocol::kLl) == Approx((1 << 18) / 0.4));
  CHECK(tree_corrected_bytes(1 << 20, Protocol::kSimple) == Approx((1 << 20) / 0.5));
  CHECK(tree_corrected_bytes(1 << 30, Protocol::kLl128) == Approx(1 << 30));
  double last = 0;
  for (double bytes = 1; bytes < 4e9; bytes *= 1.07) {
    const double now = tree_corrected_bytes(bytes, Protocol::kSimple);
    CHECK(now >= last);
    CHECK(now >= bytes);
    last = now;
  }
}

}  // namespace
}  // namespace meshplan
