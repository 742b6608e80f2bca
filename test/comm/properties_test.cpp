// What must hold for every operation, fabric and group.
#include <array>
#include <cmath>

#include "comm/clusters.hpp"
#include "comm/collectives.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

using namespace comm_test;

constexpr std::array kFabrics{kA100, kH100, kB200, kPcie4, kPcie5, kMi300};
constexpr double kSlack = 1 - 1e-12;  // rounding

// node, rail and oversubscribed spine
ClusterSpec three_levels(const Fabric& f) {
  ClusterSpec c = cluster(f);
  c.levels.insert(c.levels.begin() + 1, c.levels[1]);
  c.levels[1].name = "rail";
  c.levels[1].span = 64;
  c.levels[2].oversubscription = 2;
  return c;
}

struct Placement {
  std::int64_t members, stride;
};
constexpr std::array kPlacements{Placement{2, 1},  Placement{3, 1},   Placement{8, 1},
                                 Placement{4, 2},  Placement{16, 1},  Placement{12, 1},
                                 Placement{16, 8}, Placement{2, 64},  Placement{128, 1},
                                 Placement{32, 4}, Placement{512, 1}, Placement{24, 6}};

template <class Check>
void for_every_case(Check check) {
  for (const Fabric& f : kFabrics) {
    const ClusterSpec c = three_levels(f);
    for (const Placement& p : kPlacements) {
      const GroupShape g = group(c, p.members, p.stride);
      for (const auto& op : NameTable<Collective>::rows) {
        INFO(op.name << ", " << name_of(f.architecture) << ", " << name_of(f.inside) << ", "
                     << p.members << " members, stride " << p.stride);
        check(c, op.value, g);
      }
    }
  }
}

double seconds(const ClusterSpec& c, Collective op, double bytes, const GroupShape& g) {
  return collective_time(c, op, Bytes{static_cast<std::int64_t>(bytes)}, g).total.si();
}

constexpr std::array kSizes{1.0, 100.0, 3e3, 6e4, 1e6, 2e7, 5e8, 1e10};

TEST_CASE("nothing to send or nobody to send to takes no time") {
  const ClusterSpec c = three_levels(kH100);
  for (const auto& op : NameTable<Collective>::rows) {
    CHECK(collective_time(c, op.value, Bytes{0}, group(c, 64)).total == Seconds{0});
    CHECK(collective_time(c, op.value, Bytes{kGiB}, group(c, 1)).total == Seconds{0});
  }
}

TEST_CASE("[F-COMM-21] times are finite, above zero, and hold their latency") {
  for_every_case([](const ClusterSpec& c, Collective op, const GroupShape& g) {
    for (const double bytes : kSizes) {
      const auto t = collective_time(c, op, Bytes{static_cast<std::int64_t>(bytes)}, g);
      REQUIRE(std::isfinite(t.total.si()));
      REQUIRE(t.latency > Seconds{0});
      REQUIRE(t.total > t.latency);
    }
  });
}

TEST_CASE("[F-COMM-21] more bytes never take less time") {
  for_every_case([](const ClusterSpec& c, Collective op, const GroupShape& g) {
    double last = 0;
    for (double bytes = 1; bytes < 2e10; bytes = bytes * 1.19 + 1) {
      const double now = seconds(c, op, bytes, g);
      REQUIRE(now >= last * kSlack);
      last = now;
    }
  });
}

TEST_CASE("[F-COMM-21] more bandwidth on a level never takes more time") {
  for_every_case([](const ClusterSpec& c, Collective op, const GroupShape& g) {
    for (std::size_t l = 0; l < c.levels.size(); ++l) {
      ClusterSpec faster = c;
      for (const double bytes : kSizes) {
        double last = seconds(c, op, bytes, g);
        for (double factor = 1.1; factor < 12; factor *= 1.3) {
          faster.levels[l].bandwidth = c.levels[l].bandwidth * factor;
          const double now = seconds(faster, op, bytes, g);
          REQUIRE(now <= last / kSlack);
          last = now;
        }
      }
    }
  });
}

TEST_CASE("[F-COMM-1] more latency on a level never takes less time") {
  for_every_case([](const ClusterSpec& c, Collective op, const GroupShape& g) {
    for (std::size_t l = 0; l < c.levels.size(); ++l) {
      ClusterSpec slower = c;
      for (const double bytes : kSizes) {
        double last = 0;
        for (const double us : {0.0, 1.0, 3.0, 5.0, 8.0, 12.0, 40.0}) {
          slower.levels[l].latency = microseconds_of(us);
          const double now = seconds(slower, op, bytes, g);
          REQUIRE(now >= last * kSlack);
          last = now;
        }
      }
    }
  });
}

TEST_CASE("[F-COMM-1] the farthest level's latency is felt") {
  for_every_case([](const ClusterSpec& c, Collective op, const GroupShape& g) {
    ClusterSpec slower = c;
    slower.levels[g.level].latency = microseconds_of(100);
    REQUIRE(seconds(slower, op, 1, g) > seconds(c, op, 1, g));
  });
}

TEST_CASE("[F-COMM-21] large messages feel the bandwidth of the slowest level") {
  for_every_case([](const ClusterSpec& c, Collective op, const GroupShape& g) {
    ClusterSpec slower = c;
    slower.levels[g.level].bandwidth = BytesPerSecond{1e6};
    REQUIRE(seconds(slower, op, 1e10, g) > 2 * seconds(c, op, 1e10, g));
  });
}

TEST_CASE("[F-COMM-10] a reduce-scatter takes as long as an all-gather") {
  for_every_case([](const ClusterSpec& c, Collective, const GroupShape& g) {
    for (const double bytes : kSizes) {
      REQUIRE(seconds(c, Collective::kReduceScatter, bytes, g) ==
              seconds(c, Collective::kAllGather, bytes, g));
    }
  });
}

}  // namespace
}  // namespace meshplan
