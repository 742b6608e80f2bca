#include <array>
#include <cstdint>
#include <random>

#include "cost/data_parallel.hpp"
#include "cost/support.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

std::int64_t below(std::mt19937_64& dice, std::int64_t n) {
  return static_cast<std::int64_t>(dice() % static_cast<std::uint64_t>(n));
}

}  // namespace

TEST_CASE("[F-DP-5] what certainly shows of reductions is no more than what shows") {
  std::mt19937_64 dice(1);
  const ModelSpec model = plain_gpt();
  int hidden = 0, compared = 0;
  for (int i = 0; i < 4000; ++i) {
    const std::int64_t replicas = std::int64_t{1} << below(dice, 11);
    ClusterSpec cluster = plain_cluster(8 * replicas);
    cluster.device.overlap_slowdown = std::array{1.0, 1.05, 1.25, 2.0, 2.5}[dice() % 5];
    cluster.levels.back().bandwidth =
        BytesPerSecond{1e9 * static_cast<double>(1 + below(dice, 50))};
    Strategy s = plain_strategy(1, 4, 2 * replicas);
    s.zero = static_cast<int>(below(dice, 3));
    s.overlap.grad_reduce = below(dice, 4) != 0;
    s.overlap.param_gather = below(dice, 4) != 0;
    s.runtime.whole_reduction = below(dice, 8) == 0;
    s.runtime.bucket_mib = below(dice, 4) == 0 ? 25 : 0;
    if (below(dice, 4) == 0 && s.dp % 2 == 0 && s.zero > 0) s.zero_group = 2;
    const StepEndGroups groups = step_end_groups(model, cluster, s);
    const auto end_of = [&](std::int64_t parameters) {
      return rank_end(model, cluster, s, groups, BlockParameters{parameters, 0});
    };
    const std::int64_t most = std::int64_t{1} << (16 + below(dice, 18));
    const std::int64_t some = 1 + below(dice, most), fewer = 1 + below(dice, some);
    const LeastRankEnd least = least_rank_end(s, end_of(fewer), end_of(most));
    const Seconds window{1e-4 * static_cast<double>(std::int64_t{1} << below(dice, 20))};
    const StepEnd end = step_end(cluster, s, end_of(some), window, window);
    const Seconds seen = least_exposed(cluster, least.gradients, window) +
                         least_exposed(cluster, least.weights, window);
    CAPTURE(replicas, s.zero, fewer, some, most, window.si());
    REQUIRE(seen.si() <= end.exposed.si() * (1 + 1e-12));
    ++compared;
    const double whole = (least.gradients.whole + least.weights.whole).si();
    hidden += seen.si() < 0.9 * whole ? 1 : 0;
  }
  CHECK(compared == 4000);
  CHECK(hidden > 400);
}
