// Weights that are updated as soon as their gradients are there.
#include "cost/memory.hpp"
#include "cost/step.hpp"
#include "cost/support.hpp"
#include "spec/strategy.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

struct UpdatedRun {
  ModelSpec model = plain_gpt();
  ClusterSpec cluster = plain_cluster(8);
  Strategy strategy = plain_strategy(1, 1, 8);

  explicit UpdatedRun(bool in_backward) {
    strategy.framework = Framework::kFsdp;
    strategy.global_batch = strategy.dp * strategy.micro_batch;
    strategy.runtime.optimizer_in_backward = in_backward;
    strategy.runtime.late_gradients = false;
  }
  [[nodiscard]] PlanCost cost() const {
    return cost_of(model, cluster, complete(strategy, model, cluster));
  }
  [[nodiscard]] std::vector<std::string> errors() const {
    std::vector<std::string> all;
    for (const Diagnostic& d : validate(strategy, model, cluster)) all.push_back(d.message);
    return all;
  }
};

}  // namespace

TEST_CASE(
    "[F-MEM-12] one gradient at a time is held where weights are updated in the backward pass") {
  const PlanCost after = UpdatedRun(false).cost(), within = UpdatedRun(true).cost();
  const MemoryBreakdown &usual = after.memory(), &early = within.memory();
  const UpdatedRun run(true);
  const Bytes largest{run.model.vocab_size * run.model.hidden_size *
                      size_of(run.strategy.grad_dtype)};
  CHECK(early.gradients == Bytes{});
  CHECK(early.weights == usual.weights);
  CHECK(early.optimizer == usual.optimizer);
  CHECK(usual.gradients > largest * 2);
  CHECK(early.buffers - usual.buffers == largest);
  CHECK(within.step_time.si() == Approx(after.step_time.si()).epsilon(0.02));
}

TEST_CASE("[F-MEM-12] of sharded weights the gradient of the block in use is counted already") {
  UpdatedRun after(false), within(true);
  after.strategy.zero = within.strategy.zero = 3;
  CHECK(within.cost().memory().gradients == Bytes{});
  CHECK(within.cost().memory().buffers == after.cost().memory().buffers);
}

TEST_CASE("weights are updated in the backward pass of one microbatch, without a pipeline") {
  UpdatedRun run(true);
  CHECK(run.errors().empty());
  run.strategy.global_batch *= 4;
  CHECK(run.errors() == std::vector<std::string>{
                            "'runtime.optimizer_in_backward' needs one microbatch a step, got 4"});
  run.strategy.global_batch /= 4;
  run.strategy.offload.optimizer = true;
  CHECK(run.errors() ==
        std::vector<std::string>{"'runtime.optimizer_in_backward' updates weights where their "
                                 "gradients are, on the device"});
  run.strategy.offload.optimizer = false;
  run.strategy.framework = Framework::kMegatron;
  CHECK(run.errors() ==
        std::vector<std::string>{"'runtime.optimizer_in_backward' is of torchtune and torchtitan: "
                                 "megatron updates weights after the backward pass"});
}
