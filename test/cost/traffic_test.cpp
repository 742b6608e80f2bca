#include <map>

#include "cost/block.hpp"
#include "cost/block_ops.hpp"
#include "cost/step.hpp"
#include "cost/support.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

std::map<Collective, double> tp_calls(const BlockCost& block) {
  std::map<Collective, double> calls;
  for (const CommEntry& e : block.communication) {
    if (e.dimension == CommDimension::kTp) calls[e.operation] += e.count_per_step;
  }
  return calls;
}

// By value: callers pass temporaries.
BlockCost dense(const BlockCosts& blocks) {
  return blocks[static_cast<std::size_t>(BlockKind::kDense)];
}

}  // namespace

TEST_CASE(
    "[F-TP-1] a layer makes two all-reduces forward and two backward without sequence "
    "parallelism") {
  // Shoeybi et al. 1909.08053 sec. 3: four all-reduces of s b h per layer and microbatch.
  const ModelSpec m = plain_gpt();
  const ClusterSpec c = plain_cluster(8);
  const Strategy s = plain_strategy(8, 1, 1);
  const BlockCosts blocks = block_costs(m, c, s);
  CHECK(tp_calls(dense(blocks)) == std::map<Collective, double>{{Collective::kAllReduce, 4}});
  for (const CommEntry& e : dense(blocks).communication) {
    CHECK(e.bytes.count() == 2LL * 2048 * 4096);
    CHECK(e.group_size == 8);
    CHECK(e.level == 0);
  }
}

TEST_CASE(
    "[F-TP-1] with sequence parallelism all-gathers and reduce-scatters move the same bytes") {
  // 2205.05198 sec. 4.2.2: an all-reduce is a reduce-scatter and an all-gather; section 4.2.2 also
  // gathers the saved input of each column-parallel layer once more in the backward pass.
  const ModelSpec m = plain_gpt();
  const ClusterSpec c = plain_cluster(8);
  Strategy s = plain_strategy(8, 1, 1);
  s.sequence_parallel = true;
  const BlockCosts blocks = block_costs(m, c, s);
  CHECK(tp_calls(dense(blocks)) ==
        std::map<Collective, double>{{Collective::kAllGather, 6}, {Collective::kReduceScatter, 4}});
}

TEST_CASE("[F-TP-1] a parallel block reduces attention and MLP together") {
  ModelSpec m = plain_gpt();
  m.parallel_block = true;
  const ClusterSpec c = plain_cluster(8);
  const BlockCosts blocks = block_costs(m, c, plain_strategy(8, 1, 1));
  CHECK(tp_calls(dense(blocks)) == std::map<Collective, double>{{Collective::kAllReduce, 2}});
}

TEST_CASE("[F-EP-1] a mixture-of-experts layer dispatches and combines forward and backward") {
  ModelSpec m = plain_gpt();
  m.moe = MoeSpec{8, 2, 4096, 0, 0, 1, 1.0, false};
  const ClusterSpec c = plain_cluster(8);
  Strategy s = plain_strategy(1, 1, 8);
  s.ep = 8;
  const BlockCosts blocks = block_costs(m, c, s);
  double calls = 0;
  for (const CommEntry& e : blocks[static_cast<std::size_t>(BlockKind::kMoe)].communication) {
    if (e.dimension != CommDimension::kEp) continue;
    calls += e.count_per_step;
    CHECK(e.operation == Collective::kAllToAll);
    CHECK(e.bytes.count() == 2LL * 2 * 2048 * 4096);  // top 2, two bytes each
  }
  CHECK(calls == 4);
}

TEST_CASE(
    "[F-CP-1] ring attention sends keys and values once forward and with gradients backward") {
  const ModelSpec m = plain_gpt();
  const ClusterSpec c = plain_cluster(8);
  Strategy s = plain_strategy(1, 1, 1);
  s.flash_attention = true;
  s.cp = 4;
  s.dp = 2;
  double bytes = 0;
  for (const CommEntry& e : dense(block_costs(m, c, s)).communication) {
    if (e.dimension == CommDimension::kCp) bytes += e.count_per_step * e.bytes.si();
  }
  const double kv = 2.0 * 512 * 4096 * 2;  // keys and values of 512 tokens
  CHECK(bytes == Approx(3 * kv + 3 * 2 * kv));
}

TEST_CASE(
    "[F-DP-1] data parallelism reduces gradients once per step and gathers weights with ZeRO-1") {
  const ModelSpec m = plain_gpt();
  const ClusterSpec c = plain_cluster(16);
  Strategy s = plain_strategy(1, 1, 16);
  s.zero = 0;
  const auto calls = [&](Collective op) {
    double n = 0;
    for (const CommEntry& e : cost_of(m, c, complete(s, m, c)).communication) {
      if (e.dimension == CommDimension::kDp && e.operation == op) n += e.count_per_step;
    }
    return n;
  };
  CHECK(calls(Collective::kAllReduce) == 1);
  s.zero = 1;
  CHECK(calls(Collective::kAllReduce) == 0);
  CHECK(calls(Collective::kReduceScatter) == 1);
  CHECK(calls(Collective::kAllGather) == 1);
}

TEST_CASE("[F-ZERO-1] ZeRO-3 gathers every block twice and scatters once per microbatch") {
  const ModelSpec m = plain_gpt();
  const ClusterSpec c = plain_cluster(16);
  Strategy s = plain_strategy(1, 1, 16);
  s.zero = 3;
  double gathers = 0, scatters = 0;
  for (const CommEntry& e : dense(block_costs(m, c, s)).communication) {
    if (e.operation == Collective::kAllGather) gathers += e.count_per_step;
    if (e.operation == Collective::kReduceScatter) scatters += e.count_per_step;
  }
  CHECK(gathers == 2);
  CHECK(scatters == 1);
}
