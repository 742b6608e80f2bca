// Inputs of recomputed layers on the host.
#include "cost/block.hpp"
#include "cost/step.hpp"
#include "cost/step_model.hpp"
#include "cost/support.hpp"
#include "spec/strategy.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

struct CheckpointedRun {
  ModelSpec model = plain_gpt();
  ClusterSpec cluster = plain_cluster(8);
  Strategy strategy = plain_strategy(1, 1, 8);

  CheckpointedRun() {
    strategy.framework = Framework::kFsdp;
    strategy.zero = 3;
    strategy.recompute = Recompute::kFull;
    strategy.runtime.host_checkpoints = true;
  }
  [[nodiscard]] BlockCost layer() const {
    return block_costs(model, cluster, strategy)[kFirstLayerBlock];
  }
  [[nodiscard]] PlanCost cost() const {
    return cost_of(model, cluster, complete(strategy, model, cluster));
  }
};

}  // namespace

TEST_CASE("[F-OFF-4] what takes longer than the passes beside it is waited for") {
  CheckpointedRun sent_away, kept_here;
  kept_here.strategy.runtime.host_checkpoints = false;
  const BlockCost kept = kept_here.layer();
  CHECK(kept.host_checkpoint == Bytes{});
  sent_away.cluster.device.host_link = BytesPerSecond{1e15};
  CHECK(sent_away.layer().recompute_full.total() == kept.recompute_full.total());
  CHECK(sent_away.layer().host_checkpoint == kept.saved.full);
  CHECK(sent_away.layer().saved.full == Bytes{});
  CHECK(sent_away.layer().saved.none == kept.saved.none);
  CHECK(sent_away.layer().working_set == kept.working_set + 2 * kept.saved.full);
  // A copy of a second, out and back.
  sent_away.cluster.device.host_link = BytesPerSecond{kept.saved.full.si()};
  const Seconds forward = kept.forward.total();
  const Seconds backward =
      kept.recompute_full.total() + kept.backward_input.total() + kept.backward_weight.total();
  CHECK((sent_away.layer().recompute_full.total() - kept.recompute_full.total()).si() ==
        Approx(2 - forward.si() - backward.si()));
}

TEST_CASE("[F-OFF-4] a node's host holds the inputs of all its devices' layers") {
  CheckpointedRun sent_away, kept_here;
  kept_here.strategy.runtime.host_checkpoints = false;
  const BlockCosts blocks = block_costs(sent_away.model, sent_away.cluster, sent_away.strategy);
  const Strategy s = complete(sent_away.strategy, sent_away.model, sent_away.cluster);
  const Bytes each = blocks[kFirstLayerBlock].host_checkpoint;
  CHECK(OneStep(sent_away.model, sent_away.cluster, s, blocks).model().evaluate(s).host ==
        each * sent_away.model.num_layers * 8);
  CHECK(kept_here.cost().memory().activations - sent_away.cost().memory().activations ==
        each * sent_away.model.num_layers);
  // Layers that are not recomputed keep what they save.
  sent_away.strategy.recompute_layers = {3};
  const Strategy some = complete(sent_away.strategy, sent_away.model, sent_away.cluster);
  CHECK(OneStep(sent_away.model, sent_away.cluster, some, blocks).model().evaluate(some).host ==
        each * 3 * 8);
}

TEST_CASE("inputs on the host need one pipeline rank and a link to the host") {
  CheckpointedRun c;
  CHECK_FALSE(has_errors(validate(c.strategy, c.model, c.cluster)));
  c.cluster.device.host_link = BytesPerSecond{};
  CHECK(has_errors(validate(c.strategy, c.model, c.cluster)));
  CheckpointedRun piped;
  piped.strategy.pp = 2, piped.strategy.dp = 4;
  piped.strategy.framework = Framework::kDeepspeed;
  CHECK(has_errors(validate(piped.strategy, piped.model, piped.cluster)));
  CheckpointedRun megatron;
  megatron.strategy.framework = Framework::kMegatron;
  const Diagnostics refused = validate(megatron.strategy, megatron.model, megatron.cluster);
  CHECK(to_text(refused).find("keeps inputs of recomputed layers on the device") !=
        std::string::npos);
}

TEST_CASE("the loss fused with the output layer is of code that takes Liger's kernels") {
  CheckpointedRun c;
  c.strategy.runtime.host_checkpoints = false;
  c.strategy.runtime.fused_linear_cross_entropy = true;
  CHECK_FALSE(has_errors(validate(c.strategy, c.model, c.cluster)));
  CheckpointedRun split = c, pairs = c, megatron = c;
  split.strategy.tp = 2, split.strategy.dp = 4;
  pairs.strategy.loss = Loss::kDpo, pairs.strategy.micro_batch = 2;
  megatron.strategy.framework = Framework::kMegatron;
  for (const CheckpointedRun& wrong : {split, pairs, megatron}) {
    const Diagnostics found = validate(wrong.strategy, wrong.model, wrong.cluster);
    CHECK(has_errors(found));
    CHECK(to_text(found).find("fused_linear_cross_entropy") != std::string::npos);
  }
}
