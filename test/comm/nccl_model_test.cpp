// NCCL 2.28.9's own predictions, printed by its tuning code for described topologies: what the
// model must come to when the cluster says what those topologies say.
#include <array>
#include <cmath>
#include <string>

#include "comm/algorithms.hpp"
#include "comm/clusters.hpp"
#include "comm/collectives.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

using namespace comm_test;

struct Prediction {
  std::string system;
  Fabric fabric;
  std::int64_t gpus, nodes;
  Collective op;
  std::array<double, 6> microseconds;  // 1 KiB, 32 KiB, 1 MiB, 16 MiB, 256 MiB, 1 GiB
};

constexpr std::array<std::int64_t, 6> kSizes{kKiB, 32 * kKiB, kMiB, 16 * kMiB, 256 * kMiB, kGiB};

double predicted_us(const Prediction& row, Collective op, std::int64_t bytes) {
  const ClusterSpec c = cluster(row.fabric, row.gpus, row.nodes);
  const GroupShape g = group(c, row.gpus * row.nodes);
  return collective_time(c, op, Bytes{bytes}, g).total.si() * 1e6;
}

TEST_CASE("[F-COMM-21] times agree with NCCL's own predictions for DGX and PCIe systems") {
  const auto row = GENERATE(values<Prediction>(
      {{"DGX A100", kA100, 8, 1, Collective::kAllReduce, {15.0, 15.7, 35.9, 173.6, 2013.3, 7885.4}},
       {"DGX A100", kA100, 8, 1, Collective::kAllGather, {10.8, 11.1, 21.3, 93.4, 1010.9, 3946.9}},
       {"HGX H100/H200",
        kH100,
        8,
        1,
        Collective::kAllReduce,
        {15.0, 15.4, 28.0, 86.7, 1011.9, 3972.6}},
       {"HGX H100/H200",
        kH100,
        8,
        1,
        Collective::kAllGather,
        {10.8, 11.0, 17.3, 71.6, 684.6, 2642.0}},
       {"HGX H100 x4gpu",
        kH100,
        4,
        1,
        Collective::kAllReduce,
        {10.2, 10.5, 21.4, 98.7, 1147.3, 4502.7}},
       {"HGX H100 x4gpu",
        kH100,
        4,
        1,
        Collective::kAllGather,
        {8.4, 8.6, 14.0, 53.6, 577.8, 2255.6}},
       {"HGX H100 x2gpu",
        kH100,
        2,
        1,
        Collective::kAllReduce,
        {7.8, 8.0, 15.2, 61.8, 760.9, 2997.8}},
       {"HGX H100 x2gpu",
        kH100,
        2,
        1,
        Collective::kAllGather,
        {7.2, 7.3, 10.9, 35.1, 384.6, 1503.1}},
       {"HGX B200", kB200, 8, 1, Collective::kAllReduce, {15.0, 15.2, 21.5, 65.8, 677.4, 2634.8}},
       {"HGX B200", kB200, 8, 1, Collective::kAllGather, {10.8, 10.9, 14.1, 49.5, 358.4, 1337.1}},
       {"PCIe Gen4 A100",
        kPcie4,
        4,
        1,
        Collective::kAllReduce,
        {12.8, 19.2, 147.5, 1720.3, 26886.1, 107416.8}},
       {"PCIe Gen4 A100",
        kPcie4,
        4,
        1,
        Collective::kAllGather,
        {9.7, 12.9, 77.9, 864.4, 13447.3, 53712.6}},
       {"PCIe Gen5 H100",
        kPcie5,
        4,
        1,
        Collective::kAllReduce,
        {12.7, 17.1, 114.1, 1186.5, 16242.3, 58387.9}},
       {"PCIe Gen5 H100",
        kPcie5,
        4,
        1,
        Collective::kAllGather,
        {9.7, 11.8, 61.2, 597.5, 9176.7, 36630.3}},
       {"2x HGX H100",
        kH100,
        8,
        2,
        Collective::kAllReduce,
        {25.3, 28.0, 62.5, 134.9, 1157.2, 4428.3}},
       {"2x HGX H100",
        kH100,
        8,
        2,
        Collective::kAllGather,
        {23.3, 24.1, 47.9, 98.2, 725.4, 2691.4}},
       {"4x HGX H100",
        kH100,
        8,
        4,
        Collective::kAllReduce,
        {35.3, 40.6, 83.2, 197.9, 1537.4, 5813.6}},
       {"4x HGX H100",
        kH100,
        8,
        4,
        Collective::kAllGather,
        {42.7, 44.3, 82.7, 134.6, 822.8, 2854.4}},
       {"16x HGX H100",
        kH100,
        8,
        16,
        Collective::kAllReduce,
        {55.3, 60.6, 117.2, 283.7, 1655.6, 6045.8}},
       {"16x HGX H100",
        kH100,
        8,
        16,
        Collective::kAllGather,
        {159.1, 160.7, 210.1, 343.5, 1193.9, 3373.6}},
       {"4x HGX B200",
        kB200,
        8,
        4,
        Collective::kAllReduce,
        {35.3, 40.6, 91.2, 201.4, 1592.9, 5813.6}},
       {"4x HGX B200",
        kB200,
        8,
        4,
        Collective::kAllGather,
        {42.7, 44.3, 82.1, 125.2, 815.3, 2854.4}}}));
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    const double want = row.microseconds[i];
    const double tolerance = 0.01;  // the predictions are printed to 0.1 us
    INFO(row.system << ", " << name_of(row.op) << ", " << kSizes[i] << " bytes");
    CHECK(predicted_us(row, row.op, kSizes[i]) == Approx(want).epsilon(tolerance));
    // NCCL predicts the same for a reduce-scatter as for an all-gather.
    if (row.op == Collective::kAllGather) {
      CHECK(predicted_us(row, Collective::kReduceScatter, kSizes[i]) ==
            Approx(want).epsilon(tolerance));
    }
  }
}

struct AlgorithmPrediction {
  std::string system;
  Fabric fabric;
  std::int64_t gpus, nodes;
  Collective op;
  Protocol protocol;
  double latency_us;
  double rate;  // algorithm bandwidth in GB/s at sizes that no correction applies to
};

void check_prediction(const AlgorithmPrediction& row, const std::optional<AlgorithmTime>& t) {
  INFO(row.system << ", " << name_of(row.op) << ", protocol " << static_cast<int>(row.protocol));
  REQUIRE(t.has_value());
  // Printed to 0.1 us and 0.1 GB/s.
  CHECK(t->latency.si() * 1e6 == Approx(row.latency_us).margin(0.051));
  CHECK(static_cast<double>(kGiB) / t->transfer.si() / 1e9 == Approx(row.rate).margin(0.051));
}

TEST_CASE("[F-COMM-9] trees have the latency and bandwidth that NCCL computes for them") {
  const auto row = GENERATE(values<AlgorithmPrediction>(
      {{"DGX A100", kA100, 8, 1, Collective::kAllReduce, Protocol::kLl, 15.2, 29.1},
       {"DGX A100", kA100, 8, 1, Collective::kAllReduce, Protocol::kLl128, 31.5, 85.9},
       {"DGX A100", kA100, 8, 1, Collective::kAllReduce, Protocol::kSimple, 64.4, 110.4},
       {"HGX H100/H200", kH100, 8, 1, Collective::kAllReduce, Protocol::kLl, 15.2, 43.6},
       {"HGX H100/H200", kH100, 8, 1, Collective::kAllReduce, Protocol::kLl128, 31.5, 128.8},
       {"HGX H100/H200", kH100, 8, 1, Collective::kAllReduce, Protocol::kSimple, 64.4, 165.6},
       {"HGX H100 x4gpu", kH100, 4, 1, Collective::kAllReduce, Protocol::kLl, 10.4, 43.6},
       {"HGX H100 x4gpu", kH100, 4, 1, Collective::kAllReduce, Protocol::kLl128, 21.5, 128.8},
       {"HGX H100 x4gpu", kH100, 4, 1, Collective::kAllReduce, Protocol::kSimple, 32.4, 165.6},
       {"HGX B200", kB200, 8, 1, Collective::kAllReduce, Protocol::kLl, 15.2, 77.5},
       {"HGX B200", kB200, 8, 1, Collective::kAllReduce, Protocol::kLl128, 31.5, 229.0},
       {"HGX B200", kB200, 8, 1, Collective::kAllReduce, Protocol::kSimple, 64.4, 294.4},
       {"PCIe Gen5 H100", kPcie5, 4, 1, Collective::kAllReduce, Protocol::kLl, 12.8, 4.8},
       {"PCIe Gen5 H100", kPcie5, 4, 1, Collective::kAllReduce, Protocol::kSimple, 32.4, 18.4},
       {"2x HGX H100", kH100, 8, 2, Collective::kAllReduce, Protocol::kLl, 25.2, 16.6},
       {"2x HGX H100", kH100, 8, 2, Collective::kAllReduce, Protocol::kLl128, 48.5, 124.8},
       {"2x HGX H100", kH100, 8, 2, Collective::kAllReduce, Protocol::kSimple, 92.4, 140.8},
       {"4x HGX H100", kH100, 8, 4, Collective::kAllReduce, Protocol::kLl, 35.2, 8.7},
       {"4x HGX H100", kH100, 8, 4, Collective::kAllReduce, Protocol::kLl128, 65.5, 98.6},
       {"4x HGX H100", kH100, 8, 4, Collective::kAllReduce, Protocol::kSimple, 120.4, 122.4},
       {"16x HGX H100", kH100, 8, 16, Collective::kAllReduce, Protocol::kLl, 55.2, 8.7},
       {"16x HGX H100", kH100, 8, 16, Collective::kAllReduce, Protocol::kLl128, 99.5, 98.6},
       {"16x HGX H100", kH100, 8, 16, Collective::kAllReduce, Protocol::kSimple, 176.4, 122.4},
       {"4x HGX B200", kB200, 8, 4, Collective::kAllReduce, Protocol::kLl, 35.2, 8.7},
       {"4x HGX B200", kB200, 8, 4, Collective::kAllReduce, Protocol::kLl128, 65.5, 68.0},
       {"4x HGX B200", kB200, 8, 4, Collective::kAllReduce, Protocol::kSimple, 120.4, 81.6}}));
  const ClusterSpec c = cluster(row.fabric, row.gpus, row.nodes);
  const GroupShape g = group(c, row.gpus * row.nodes);
  check_prediction(row, tree_time(route_of(c, g), Bytes{kGiB}, row.protocol));
}

TEST_CASE("[F-COMM-12] NVLS has the latency and bandwidth that NCCL computes for it") {
  const auto row = GENERATE(values<AlgorithmPrediction>(
      {{"HGX H100/H200", kH100, 8, 1, Collective::kAllReduce, Protocol::kSimple, 25.0, 272.0},
       {"HGX H100/H200", kH100, 8, 1, Collective::kAllGather, Protocol::kSimple, 25.0, 208.2},
       {"HGX H100 x4gpu", kH100, 4, 1, Collective::kAllReduce, Protocol::kSimple, 25.0, 160.0},
       {"HGX H100 x4gpu", kH100, 4, 1, Collective::kAllGather, Protocol::kSimple, 25.0, 114.8},
       {"HGX B200", kB200, 8, 1, Collective::kAllReduce, Protocol::kSimple, 25.0, 411.4},
       {"HGX B200", kB200, 8, 1, Collective::kAllGather, Protocol::kSimple, 25.0, 362.6},
       {"2x HGX H100", kH100, 8, 2, Collective::kAllReduce, Protocol::kSimple, 66.8, 246.2},
       {"4x HGX H100", kH100, 8, 4, Collective::kAllReduce, Protocol::kSimple, 108.6, 187.9},
       {"16x HGX H100", kH100, 8, 16, Collective::kAllReduce, Protocol::kSimple, 192.2, 183.4},
       {"4x HGX B200", kB200, 8, 4, Collective::kAllReduce, Protocol::kSimple, 108.6, 180.9}}));
  const ClusterSpec c = cluster(row.fabric, row.gpus, row.nodes);
  const GroupShape g = group(c, row.gpus * row.nodes);
  const Route r = route_of(c, g);
  check_prediction(
      row, row.nodes > 1 ? nvls_tree_time(r, Bytes{kGiB}) : nvls_time(r, row.op, Bytes{kGiB}));
}

}  // namespace
}  // namespace meshplan
