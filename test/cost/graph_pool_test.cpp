// What the allocator still counts where CUDA graphs of layers are captured before the first step.
#include "cost/step.hpp"
#include "cost/support.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

Strategy with_graphs(CudaGraphModules modules, std::int64_t warmup) {
  Strategy s = plain_strategy(2, 4, 2);
  s.sequence_parallel = true;
  s.micro_batch = 2;
  s.runtime.cuda_graph = CudaGraph::kLayer;
  s.runtime.cuda_graph_modules = modules;
  s.runtime.cuda_graph_warmup_steps = warmup;
  return s;
}

Bytes at(const Ledger& ledger, Moment moment) {
  for (const MomentBytes& m : ledger.moments) {
    if (m.moment == moment) return m.allocated;
  }
  return {};
}

}  // namespace

TEST_CASE("[F-GRAPH-2] what lies in the graphs' pool is held, but counted at its capture alone") {
  const ModelSpec m = plain_gpt(8);
  const ClusterSpec c = plain_cluster(16);
  const auto cost = [&](CudaGraphModules modules, std::int64_t warmup) {
    return cost_of(m, c, complete(with_graphs(modules, warmup), m, c));
  };
  // A layer of 4096 tokens, half of them on a rank where norms and residuals are split: the mixer
  // saves the input of its norm, which is static, and of its product (b s h / t each), queries,
  // keys and values, attention's output and what the fused kernel keeps; the block's output
  // replaces its input in the pool.
  const PlanCost late = cost({CudaGraphModule::kAttn}, 3);
  const PlanCost early = cost({CudaGraphModule::kAttn}, 0);
  const PlanCost all = cost({}, 0);
  for (std::size_t r = 0; r < 4; ++r) {
    CAPTURE(r);
    const StageCost &before = late.stages[r], &after = early.stages[r], &whole = all.stages[r];
    CHECK(bytes_named(before.ledger, "saved in CUDA graphs") == Bytes{});
    const Bytes pool = bytes_named(after.ledger, "saved in CUDA graphs");
    CHECK(pool > Bytes{});
    CHECK(bytes_named(whole.ledger, "saved in CUDA graphs") > pool);
    // The device needs as much in any case.
    CHECK(after.memory.peak == before.memory.peak);
    CHECK(after.memory.allocated() < before.memory.allocated());
    CHECK(after.memory.persistent == before.memory.persistent);
    CHECK(after.memory.optimizer == before.memory.optimizer);
    // What is not in the pool is what was saved less what is.
    const auto saved = [](const StageCost& stage) {
      return bytes_named(stage.ledger, "saved activations") +
             bytes_named(stage.ledger, "saved by the output layer");
    };
    CHECK(saved(after) == saved(before) - pool);
    // Before the first update there are fp32 weights, but no moments, and no activation is held.
    const MemoryBreakdown& memory = after.memory;
    const Bytes moments = bytes_named(after.ledger, "the optimizer's moments");
    CHECK(moments == Bytes{memory.optimizer.count() / 3 * 2});
    CHECK(at(after.ledger, Moment::kCapture) ==
          at(after.ledger, Moment::kBetweenSteps) - moments -
              bytes_named(after.ledger, "last inputs of chunks") + pool +
              bytes_named(after.ledger, "temporaries in CUDA graphs"));
    Bytes most;
    for (const MomentBytes& moment : after.ledger.moments) most = std::max(most, moment.allocated);
    CHECK(most == memory.allocated());
  }
}

TEST_CASE("[F-GRAPH-2] where scores are materialised, capturing takes the most") {
  ModelSpec m = plain_gpt(8);
  m.num_attention_heads = m.num_query_groups = 128;
  m.head_dim = 32;
  const ClusterSpec c = plain_cluster(16);
  Strategy s = with_graphs({CudaGraphModule::kAttn}, 0);
  s.flash_attention = false;
  s.zero = 1;
  const PlanCost plan = cost_of(m, c, complete(s, m, c));
  const StageCost& first = plan.stages.front();
  CHECK(first.ledger.fullest == Moment::kCapture);
  CHECK(at(first.ledger, Moment::kCapture) == first.memory.allocated());
  // Two tensors of scores of a microbatch, 2 bytes each, beside what is saved: b a/t s^2.
  const std::int64_t scores = s.micro_batch * 128 / s.tp * s.seq_len * s.seq_len;
  CHECK(bytes_named(first.ledger, "temporaries in CUDA graphs") >= Bytes{2 * 2 * scores});
}

TEST_CASE("[F-GRAPH-2] parts of a mixture without attention leave its scores outside") {
  ModelSpec m = plain_gpt(8);
  const ClusterSpec c = plain_cluster(16);
  const PlanCost plan = cost_of(m, c, complete(with_graphs({CudaGraphModule::kMlp}, 0), m, c));
  const PlanCost attention =
      cost_of(m, c, complete(with_graphs({CudaGraphModule::kAttn}, 0), m, c));
  const PlanCost both = cost_of(
      m, c, complete(with_graphs({CudaGraphModule::kAttn, CudaGraphModule::kMlp}, 0), m, c));
  const auto pool = [](const PlanCost& p) {
    return bytes_named(p.stages.front().ledger, "saved in CUDA graphs");
  };
  CHECK(pool(plan) > Bytes{});
  // The input of the layer is static; between the parts nothing is stored twice.
  const std::int64_t residual = 2 * 2048 * 2 / 2 * m.hidden_size;
  const std::int64_t held = plan.stages.front().layers * plan.stages.front().in_flight;
  CHECK(pool(both) == pool(plan) + pool(attention) - Bytes{held * residual});
}
