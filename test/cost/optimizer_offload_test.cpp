#include "cost/data_parallel.hpp"
#include "cost/memory.hpp"
#include "cost/step.hpp"
#include "cost/step_model.hpp"
#include "cost/support.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

TEST_CASE("[F-OFF-6] fp32 weights that stay on the device are copied to it, and kept there") {
  Strategy s = plain_strategy(1, 1, 4);
  s.zero = 1, s.precision = Precision::kBf16, s.grad_dtype = Dtype::kBf16;
  s.offload.optimizer = true;
  s.offload.optimizer_fraction = 0.5;
  const BlockParameters p{4'000'000'000, 0};
  const auto states = [&] { return state_bytes(s, p); };
  // Of 4 + 8 bytes a parameter of the shard half, or 4 and half of 8; of fp32 copies of gradients
  // half, or all.
  CHECK(states().optimizer == Bytes{6'000'000'000});
  CHECK(states().update == Bytes{2'000'000'000});
  s.offload.master_weights = false;
  CHECK(states().optimizer == Bytes{8'000'000'000});
  CHECK(states().update == Bytes{4'000'000'000});
  // All of the shard: 4 bytes each way at 25 GB/s, 28 through Adam at 18.5 GB/s.
  CHECK(optimizer_offload_time(plain_device(), s, p).si() ==
        Approx(1e9 * (8 / 25e9 + 28 / 18.5e9)));
}

TEST_CASE("[F-OFF-6] the host holds fp32 weights of its own, whatever the device keeps") {
  const ModelSpec m = plain_gpt();
  const ClusterSpec c = plain_cluster(8);
  Strategy s = plain_strategy(1, 1, 8);
  s.zero = 1;
  s.offload.optimizer = true;
  const auto host = [&] {
    const Strategy whole = complete(s, m, c);
    const BlockCosts blocks = block_costs(m, c, whole);
    return OneStep(m, c, whole, blocks).model().evaluate(whole).host;
  };
  const Bytes along = host();
  s.offload.master_weights = false;
  CHECK(host() == along);
}
