// Copies beside the gathers and scatters of weights that are sharded one by one.
#include "cost/block.hpp"
#include "cost/support.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

// PyTorch _fsdp_collectives.py: split_with_sizes_copy reads and writes what was gathered, chunk_cat
// reads gradients of the weights' dtype and writes them in that of the reduction.
TEST_CASE("[F-ZERO-4] weights sharded one by one are copied out of what is gathered") {
  const ModelSpec m = plain_gpt();
  const ClusterSpec c = plain_cluster(16);
  Strategy s = plain_strategy(1, 1, 16);
  s.grad_dtype = Dtype::kFp32;
  struct Copies {
    double forward, backward, parameters;
  };
  const auto copies = [&](int zero) {
    s.zero = zero;
    s.runtime.per_parameter_shards = false;
    const BlockCost views = block_costs(m, c, s)[kFirstLayerBlock];
    s.runtime.per_parameter_shards = true;
    const BlockCost copied = block_costs(m, c, s)[kFirstLayerBlock];
    const double rate = c.device.memory_bandwidth.si() * c.device.memory_efficiency;
    const auto bytes = [&](Seconds more, Seconds less, double kernels) {
      return (more - less - kernels * c.device.kernel_overhead).si() * rate;
    };
    const double kernels = zero == 3 ? 1 : 0;
    return Copies{bytes(copied.forward.compute, views.forward.compute, kernels),
                  bytes(copied.backward_input.compute, views.backward_input.compute, kernels + 1),
                  static_cast<double>(copied.parameters.dense)};
  };
  const Copies sharded = copies(3);
  CHECK(sharded.forward == Approx(4 * sharded.parameters));
  CHECK(sharded.backward == Approx((4 + 6) * sharded.parameters));
  const Copies gradients = copies(2);  // weights are gathered once a step
  CHECK(gradients.forward == Approx(0).margin(1));
  CHECK(gradients.backward == Approx(6 * gradients.parameters));
}
