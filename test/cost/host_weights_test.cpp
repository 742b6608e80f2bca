// Shards of weights and gradients on the host: what the device no longer holds, and the copies.
#include "cost/block.hpp"
#include "cost/data_parallel.hpp"
#include "cost/memory.hpp"
#include "cost/step.hpp"
#include "frameworks/preset.hpp"
#include "search/cases.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

struct HostCase {
  ModelSpec model = small_model(8, 2048);
  ClusterSpec cluster = small_cluster(1, 8, Bytes{80 * kGiB});
  Strategy strategy = framework_preset(Framework::kFsdp);

  HostCase() {
    Strategy& s = strategy;
    s.dp = 8, s.global_batch = 64, s.micro_batch = 4, s.seq_len = 2048, s.zero = 3;
    s.offload.optimizer = s.offload.weights = true;
    cluster.device.host_link = BytesPerSecond{25e9};
    cluster.host_memory = Bytes{512 * kGiB};
  }
  [[nodiscard]] PlanCost cost() const {
    return cost_of(model, cluster, complete(strategy, model, cluster));
  }
};

}  // namespace

TEST_CASE("[F-OFF-7] weights and gradients on the host leave the device") {
  HostCase there, here;
  here.strategy.offload.weights = false;
  const PlanCost with = there.cost(), without = here.cost();
  CHECK(with.memory().weights == Bytes{0});
  CHECK(with.memory().gradients == Bytes{0});
  CHECK(with.memory().optimizer == without.memory().optimizer);
  CHECK(without.memory().peak - with.memory().peak ==
        without.memory().weights + without.memory().gradients);
  // What gathers make is there all the same.
  CHECK(with.memory().buffers == without.memory().buffers);
  // Without the optimizer there, or with other shards, it does nothing.
  for (const bool optimizer : {false, true}) {
    HostCase other;
    other.strategy.offload.optimizer = optimizer;
    other.strategy.zero = optimizer ? 2 : 3;
    HostCase plain = other;
    plain.strategy.offload.weights = false;
    CHECK(other.cost().memory() == plain.cost().memory());
    CHECK(other.cost().step_time == plain.cost().step_time);
  }
}

TEST_CASE("[F-OFF-7] copies that computation covers cost nothing, others what they take") {
  HostCase c;
  const auto layer = [&](double link) {
    c.cluster.device.host_link = BytesPerSecond{link};
    return block_costs(c.model, c.cluster,
                       complete(c.strategy, c.model, c.cluster))[kFirstLayerBlock];
  };
  const BlockCost fast = layer(1e15), slow = layer(1e6);
  const double shard = static_cast<double>(slow.parameters.dense) / 8;
  // FSDP copies fp32 shards; backward gradients of two bytes go the other way at the same time.
  const double copy = 4 * shard / 1e6;
  const auto window = [](const PassTime& pass) { return (pass.compute + pass.launch).si(); };
  CHECK(slow.forward.launch.si() - fast.forward.launch.si() ==
        Approx(copy - window(fast.forward)).epsilon(1e-6));
  CHECK(slow.backward_input.launch.si() - fast.backward_input.launch.si() ==
        Approx(copy - window(fast.backward_input) - window(fast.backward_weight)).epsilon(1e-6));
  // DeepSpeed copies 16 bits.
  c.strategy = with_preset(c.strategy, Framework::kDeepspeed);
  c.strategy.zero = 3, c.strategy.offload.weights = true;
  const BlockCost deep = layer(1e6);
  CHECK(deep.forward.launch.si() == Approx(copy / 2).epsilon(0.01));
  // At the end of the step the host updates what it has: 28 bytes a parameter, and nothing moves.
  const Strategy& s = c.strategy;
  Strategy moves = s;
  moves.offload.weights = false;
  BlockParameters p;
  p.dense = 8'000'000'000;
  CHECK(optimizer_offload_time(c.cluster.device, s, p).si() == Approx(1e9 * 28 / 18.5e9));
  CHECK(optimizer_offload_time(c.cluster.device, moves, p) >
        optimizer_offload_time(c.cluster.device, s, p));
}

TEST_CASE("[F-OFF-7] the host must hold what the device does not") {
  HostCase c;
  const std::int64_t trained = c.cost().stages.front().trained_parameters;
  // 2 bytes of weights and gradients each and 12 of states, of an eighth on each of eight devices.
  c.cluster.host_memory = Bytes{trained * 15};
  CHECK_FALSE(evaluate(c.model, c.cluster, c.strategy).feasible());
  c.cluster.host_memory = Bytes{trained * 17};
  CHECK(evaluate(c.model, c.cluster, c.strategy).feasible());
}
