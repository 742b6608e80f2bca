// Every shipped model on every shipped cluster: estimates are possible, and neighbours are alike.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "cost/step.hpp"
#include "frameworks/preset.hpp"
#include "io/load.hpp"
#include "support/catch.hpp"

using namespace meshplan;

namespace {

DataFolders shipped() { return DataFolders({std::filesystem::path(MESHPLAN_SOURCE_DIR)}); }

Strategy plan_of(const ModelSpec& m, const ClusterSpec& c, std::int64_t tp, std::int64_t seq_len,
                 std::int64_t micro_batch) {
  Strategy s = framework_preset(Framework::kMegatron);
  s.tp = tp;
  s.sequence_parallel = tp > 1;
  s.zero = 1;
  s.runtime.retry_stall = 0;  // a cliff of its own: where memory ends
  s.dp = 0;
  s.micro_batch = micro_batch;
  s.seq_len = seq_len;
  const bool bf16 = c.device.peak[static_cast<std::size_t>(Precision::kBf16)].si() > 0;
  s.precision = bf16 ? Precision::kBf16 : Precision::kFp16;
  s = with_derived_dp(s, num_gpus(c));
  s.global_batch = 256 * s.dp;
  return complete(s, m, c);
}

}  // namespace

TEST_CASE("estimates of all shipped models on all shipped clusters have no cliffs") {
  const DataFolders data = shipped();
  constexpr std::int64_t kTokens = 2048;
  for (const std::string& cluster : data.names(kClusterFolder)) {
    const auto whole = load_cluster(cluster, data);
    REQUIRE(whole.ok());
    const ClusterSpec c = with_gpus(*whole, std::min<std::int64_t>(num_gpus(*whole), 8));
    for (const std::string& name : data.names(kModelFolder)) {
      const auto m = load_model(name, data);
      REQUIRE(m.ok());
      for (const std::int64_t tp : {1, 2}) {
        if (num_gpus(c) % tp != 0) continue;
        INFO(name << " on " << cluster << ", tp=" << tp);
        const Strategy s = plan_of(*m, c, tp, kTokens, 1);
        const Diagnostics broken = validate(s, *m, c);
        INFO(to_text(broken));
        REQUIRE_FALSE(has_errors(broken));
        const PlanCost one = cost_of(*m, c, s);
        const double seconds = one.step_time.si();
        REQUIRE(std::isfinite(seconds));
        CHECK(seconds > 0);
        CHECK(one.mfu > 1e-4);
        CHECK(one.mfu < 1);
        // Long sequences are mostly scores: counted as the mask leaves them, they never take more
        // than the device's best kernels.
        const PlanCost longest = cost_of(*m, c, plan_of(*m, c, tp, 131'072, 1));
        CHECK(longest.mfu_causal <= longest.mfu);
        CHECK(longest.mfu_causal < 0.85);
        // Twice the tokens: of a sequence, or of a micro-batch at the same global batch. Where each
        // expert has few, its weights' traffic is what takes time, and more tokens are free; so are
        // they where the host issues kernels more slowly than small ones run.
        const double longer = cost_of(*m, c, plan_of(*m, c, tp, 2 * kTokens, 1)).step_time.si();
        CHECK(longer >= seconds * (1 - 1e-12));  // sums of other orders round otherwise
        CHECK(longer < 2.6 * seconds);
        const double wider = cost_of(*m, c, plan_of(*m, c, tp, kTokens, 2)).step_time.si();
        CHECK(wider > 0.45 * seconds);
        CHECK(wider < 1.15 * seconds);
      }
    }
  }
}
