// Dispatch of tokens by gathering them: Megatron-Core's MoEAllGatherTokenDispatcher.
#include <map>
#include <utility>

#include "cost/block.hpp"
#include "cost/memory.hpp"
#include "cost/step.hpp"
#include "cost/support.hpp"
#include "model/parts.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

constexpr std::int64_t kExperts = 16, kTokens = 2048, kHidden = 4096;

ModelSpec mixture() {
  ModelSpec m = plain_gpt(4);
  m.moe = MoeSpec{kExperts, 2, 1024, 0, 0, 1, 1.0, false};
  return m;
}

Strategy gathering(std::int64_t tp, std::int64_t ep, std::int64_t etp) {
  Strategy s = plain_strategy(tp, 1, 8 / tp);
  s.ep = ep, s.etp = etp;
  s.sequence_parallel = tp > 1;
  s.runtime.flex_dispatcher = false;
  s.runtime.allgather_dispatcher = true;
  return s;
}

using Calls = std::map<std::pair<Collective, std::int64_t>, double>;  // by bytes

Calls calls_of(const ModelSpec& m, const Strategy& s, bool forward) {
  Calls calls;
  const BlockCosts blocks = block_costs(m, plain_cluster(8), s);
  for (const CommEntry& e : blocks[kFirstLayerBlock].communication) {
    if (e.dimension != CommDimension::kEp || e.forward != forward) continue;
    CHECK(e.group == Group::kEtpEp);
    CHECK(e.group_size == s.ep * s.etp);
    calls[{e.operation, e.bytes.count()}] += e.count_per_step;
  }
  return calls;
}

}  // namespace

TEST_CASE("[F-EP-14] all tokens, their scores and their map are gathered, and outputs reduced") {
  const ModelSpec m = mixture();
  struct Row {
    std::int64_t tp, ep, etp;
  };
  const auto row = GENERATE(Row{1, 8, 1}, Row{1, 2, 1}, Row{2, 4, 2}, Row{4, 1, 4}, Row{2, 8, 1});
  CAPTURE(row.tp, row.ep, row.etp);
  const Strategy s = gathering(row.tp, row.ep, row.etp);
  const std::int64_t tokens = kTokens / row.tp * row.ep * row.etp;  // of all ranks of the group
  const auto gather = Collective::kAllGather, reduce = Collective::kReduceScatter;
  CHECK(calls_of(m, s, true) == Calls{{{gather, 2 * tokens * kHidden}, 1},
                                      {{gather, 2 * tokens * kExperts}, 1},
                                      {{gather, tokens * kExperts}, 1},
                                      {{reduce, 2 * tokens * kHidden}, 1}});
  CHECK(calls_of(m, s, false) == Calls{{{gather, 2 * tokens * kHidden}, 1},
                                       {{reduce, 2 * tokens * kHidden}, 1},
                                       {{reduce, 2 * tokens * kExperts}, 1}});
}

TEST_CASE(
    "[F-EP-14] tokens are sorted where they arrive, and none is where no ranks share experts") {
  const ModelSpec m = mixture();
  const auto bytes = [&](const Strategy& s, std::string_view name) {
    double sum = 0;
    const std::vector<BlockOps> blocks = block_ops(m, plain_cluster(8), s);
    for (const KernelOp& op : blocks[kFirstLayerBlock].kernels) {
      if (op.name == name && op.pass == Pass::kForward) sum += op.bytes;
    }
    return sum;
  };
  Strategy s = gathering(1, 8, 1);
  s.runtime.fused_permute = false;
  const double received = kTokens * 2.0, all = kTokens * 8.0;
  CHECK(bytes(s, "permute") == 0);
  const auto behind = [&] {
    return bytes(s, "sort by expert") + bytes(s, "unpermute") + bytes(s, "token sums");
  };
  CHECK(behind() == Approx(2 * kHidden * (5 * received + all)));
  s.runtime.fused_permute = true;
  CHECK(behind() == Approx(2 * kHidden * (5 * received + all)));
  Strategy alone = gathering(1, 1, 1), sent = alone;
  sent.runtime.allgather_dispatcher = false;
  CHECK(block_costs(m, plain_cluster(8), alone) == block_costs(m, plain_cluster(8), sent));
}

TEST_CASE("[F-EP-16] PyTorch adds copies to their tokens element by element, a kernel at once") {
  const ModelSpec m = mixture();
  ClusterSpec c = plain_cluster(8);
  c.device.multiprocessors = 100;
  Strategy s = gathering(1, 8, 1);
  s.runtime.allgather_dispatcher = s.runtime.fused_permute = false;
  const auto sums = [&](Pass pass) {
    double time = 0;
    const std::vector<BlockOps> blocks = block_ops(m, c, s);
    for (const KernelOp& op : blocks[kFirstLayerBlock].kernels) {
      if (op.name != "token sums" || op.pass != pass) continue;
      CHECK(op.launches == 0);
      time += op.time.si();
    }
    return time;
  };
  const double copies = kTokens * 2.0 * kHidden, each = copies / (0.8e9 * 100);
  CHECK(sums(Pass::kForward) == Approx(each));
  CHECK(sums(Pass::kBackwardInput) == Approx(each));
  c.device.multiprocessors = 1'000'000;  // then memory is slower
  CHECK(sums(Pass::kForward) ==
        Approx(memory_time(c.device, KernelKind::kOther, false, 6 * copies, 1).si()));
  s.runtime.fused_permute = true;
  CHECK(sums(Pass::kForward) == 0);
}

TEST_CASE("[F-EP-17] features that operators weigh are kept before and after") {
  const ModelSpec m = mixture();
  const ClusterSpec c = plain_cluster(8);
  Strategy s = gathering(1, 8, 1);
  s.runtime.transformer_engine = true;
  s.runtime.weighted_expert_outputs = s.runtime.fused_activation = false;
  const double features = kTokens * 2.0 * 1024;
  const auto of = [&](const Strategy& own) {
    const std::vector<BlockOps> blocks = block_ops(m, c, own);
    double bytes = 0;
    for (const KernelOp& op : blocks[kFirstLayerBlock].kernels) {
      if (op.name == "feature weights" && op.pass == Pass::kForward) bytes += op.bytes;
    }
    return std::pair(bytes, block_costs(m, c, own)[kFirstLayerBlock].saved.none.si());
  };
  Strategy outputs = s, fused = s;
  outputs.runtime.weighted_expert_outputs = true;
  fused.runtime.fused_activation = true;
  CHECK(of(s).first == Approx(12 * features));
  CHECK(of(fused).first == 0);
  CHECK(of(outputs).first == 0);
  // Of a plain activation function there is nothing else that fusing it would spare.
  CHECK(of(s).second - of(fused).second == Approx(2 * features).epsilon(0.1));
  // Module moe_act makes both again.
  Strategy again = s, spared = fused;
  for (Strategy* one : {&again, &spared}) {
    one->recompute = Recompute::kSelective;
    one->recompute_modules = {RecomputeModule::kMoeAct};
  }
  const auto left = [&](const Strategy& own) {
    return block_costs(m, c, own)[kFirstLayerBlock].saved.selective.si();
  };
  CHECK(left(again) == Approx(left(spared)));
}

// The published CI runs hold it between steps: 32 MiB with 8 ranks of 4 x 1,024 tokens of 512.
TEST_CASE(
    "[F-MEM-8] what tokens are gathered into stays, the larger of it and other layers' input") {
  const ModelSpec m = mixture();
  const ClusterSpec c = plain_cluster(8);
  const auto kept = [&](Strategy s) {
    s.runtime.kept_gather_buffer = s.runtime.transformer_engine = true;
    const PlanCost cost = cost_of(m, c, complete(s, m, c));
    return bytes_named(cost.stages.back().ledger, "gathered input").count();
  };
  CHECK(kept(gathering(1, 8, 1)) == 2 * 8 * kTokens * kHidden);
  CHECK(kept(gathering(2, 4, 2)) == 2 * 4 * kTokens * kHidden);
  CHECK(kept(gathering(4, 1, 1)) == 2 * kTokens * kHidden);  // of the output layer alone
  Strategy sent = gathering(1, 8, 1);
  sent.runtime.allgather_dispatcher = false;
  CHECK(kept(sent) == 0);
}

// Published runs with plain layers and experts hold 4 MiB more since 2025-06 on A100, 32 on H100.
TEST_CASE("[F-MEM-7] a router of Transformer Engine's brings its workspace to plain layers") {
  ModelSpec m = mixture();
  ClusterSpec c = plain_cluster(8);
  Strategy s = gathering(1, 8, 1);
  s.runtime.transformer_engine = s.runtime.engine_router = false;
  const auto workspace = [&] {
    const PlanCost cost = cost_of(m, c, complete(s, m, c));
    return bytes_named(cost.stages.front().ledger, "Transformer Engine workspace").count();
  };
  CHECK(workspace() == 0);
  s.runtime.engine_router = true;
  CHECK(workspace() == 4 * kMiB);
  c.device.architecture = Architecture::kHopper;
  CHECK(workspace() == 32 * kMiB);
  m.moe.reset(), s.ep = 1;
  CHECK(workspace() == 0);
}
