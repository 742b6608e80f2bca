// The moment of the output layer, and that of the layers behind it.
#include "cost/block.hpp"
#include "cost/memory.hpp"
#include "cost/step.hpp"
#include "cost/support.hpp"
#include "schedule/schedule.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

TEST_CASE("[F-MEM-13] the head's logits are gone when the layers' backward pass begins") {
  ModelSpec m = plain_gpt(8);
  const ClusterSpec c = plain_cluster(1);
  Strategy s = plain_strategy(1, 1, 1);
  s.recompute = Recompute::kFull;
  const auto [vocab, fullest] = GENERATE(table<std::int64_t, Moment>(
      {{1024, Moment::kLayers}, {51200, Moment::kLayers}, {512000, Moment::kBackward}}));
  CAPTURE(vocab);
  m.vocab_size = vocab;
  const Strategy whole = complete(s, m, c);
  const BlockCosts blocks = block_costs(m, c, whole);
  const BlockCost& layer = blocks[kFirstLayerBlock];
  const PlanCost cost = cost_of(m, c, whole);
  const StageCost& stage = cost.stages[0];
  const Bytes before = layer.saved.full * 8 + blocks.embedding().saved.full;
  const Bytes with_head = before + blocks.head().saved.full + blocks.head().working_set;
  const Bytes of_layer = before + layer.working_set + layer.saved.none - layer.saved.full;
  CHECK(with_head != of_layer);
  CHECK(stage.ledger.fullest == fullest);
  CHECK((of_layer > with_head) == (fullest == Moment::kLayers));
  const Bytes kept =
      stage.memory.persistent - bytes_named(stage.ledger, "fp32 copies of gradients");
  CHECK(stage.memory.activations + stage.memory.buffers - kept == std::max(with_head, of_layer));
}

TEST_CASE("[F-MEM-13] of several microbatches in flight one gives its logits back") {
  const ModelSpec m = plain_gpt(8);
  const ClusterSpec c = plain_cluster(2);
  Strategy s = plain_strategy(1, 2, 1);
  const auto [schedule, vp, held] = GENERATE(table<Schedule, std::int64_t, std::int64_t>(
      {{Schedule::k1f1b, 1, 1}, {Schedule::kInterleaved, 2, 1}, {Schedule::kGpipe, 1, 8}}));
  s.schedule = schedule, s.vp = vp;
  CAPTURE(name_of(schedule));
  const Strategy whole = complete(s, m, c);
  const Bytes head = block_costs(m, c, whole).head().saved.full;
  const PlanCost cost = cost_of(m, c, whole);
  const Ledger& last = cost.stages[1].ledger;
  CHECK(bytes_named(last, "saved by the output layer") == head);
  CHECK(bytes_named(cost.stages[0].ledger, "saved by the output layer") == Bytes{});
  Bytes saved = bytes_named(last, "saved activations");
  const BlockCosts blocks = block_costs(m, c, whole);
  const Bytes layers = blocks[kFirstLayerBlock].saved.none;
  // 1F1B: four layers of a microbatch; two rounds of two layers each hold 3; GPipe all 8.
  const std::int64_t all = schedule == Schedule::kGpipe ? 32 : vp == 2 ? 6 : 4;
  CHECK(saved == layers * all + head * (held - 1));
}

TEST_CASE("[F-MEM-13] logits stay where weight gradients wait") {
  const ModelSpec m = plain_gpt(8);
  const ClusterSpec c = plain_cluster(2);
  Strategy s = plain_strategy(1, 2, 1);
  s.schedule = Schedule::kZbH1;
  const PlanCost cost = cost_of(m, c, complete(s, m, c));
  CHECK(bytes_named(cost.stages[1].ledger, "saved by the output layer") == Bytes{});
}

TEST_CASE("[F-MEM-13] multi-token prediction gives back what it saved with the head") {
  ModelSpec m = plain_gpt(8);
  m.mtp_layers = 1;
  const ClusterSpec c = plain_cluster(1);
  const Strategy s = complete(plain_strategy(1, 1, 1), m, c);
  const BlockCosts blocks = block_costs(m, c, s);
  const PlanCost cost = cost_of(m, c, s);
  const Ledger& ledger = cost.stages[0].ledger;
  CHECK(bytes_named(ledger, "saved by the output layer") ==
        blocks.head().saved.full + blocks.mtp().saved.none);
}
