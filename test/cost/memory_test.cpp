#include "cost/memory.hpp"

#include "cost/step.hpp"
#include "cost/support.hpp"
#include "frameworks/preset.hpp"
#include "model/parameters.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

struct Row {
  const char* name;
  Framework framework;
  Dtype grad;
  int zero;
  double replicated;  // bytes per parameter that every rank holds
  double sharded;     // bytes per parameter divided by the ranks
};

}  // namespace

TEST_CASE("[F-ZERO-2] model states per parameter are those of the ZeRO and Megatron documents") {
  static constexpr auto kZeroPaper = Framework::kDeepspeed;  // 1910.02054 sec. 5, K = 12
  static constexpr auto kMegatron = Framework::kMegatron;    // Megatron-Core dist_optimizer.md
  const auto row = GENERATE(values<Row>({
      {"ZeRO paper, no sharding", kZeroPaper, Dtype::kFp16, 0, 16, 0},
      // DeepSpeed's step adds flat copies of the shard's gradients, 2 + 4 ([F-MEM-3]).
      {"ZeRO-1: 4 + 12/N", kZeroPaper, Dtype::kFp16, 1, 4, 12 + 6},
      {"ZeRO-2: 2 + 14/N", kZeroPaper, Dtype::kFp16, 2, 2, 14 + 6},
      {"ZeRO-3: 16/N", kZeroPaper, Dtype::kFp16, 3, 0, 16},
      {"Megatron, fp32 gradients", kMegatron, Dtype::kFp32, 0, 18, 0},
      {"distributed optimizer: 6 + 12/d", kMegatron, Dtype::kFp32, 1, 6, 12},
      {"Megatron, fp16 gradients", kMegatron, Dtype::kFp16, 0, 20, 0},
      {"distributed optimizer: 4 + 16/d", kMegatron, Dtype::kFp16, 1, 4, 16},
  }));
  CAPTURE(row.name);
  Strategy s = plain_strategy(1, 1, 16);
  s.runtime = framework_preset(row.framework).runtime;
  s.grad_dtype = row.grad;
  s.zero = row.zero;
  const std::int64_t n = 16'000'000;
  const StateBytes bytes = state_bytes(s, BlockParameters{n, 0});
  const double total =
      bytes.weights.si() + bytes.gradients.si() + bytes.optimizer.si() + bytes.update.si();
  CHECK(total / static_cast<double>(n) == Approx(row.replicated + row.sharded / 16));
}

TEST_CASE("[F-ZERO-2] fp32 copies of gradients count where activations leave them no room") {
  const ModelSpec m = plain_gpt(8);
  const ClusterSpec c = plain_cluster(8);
  Strategy s = plain_strategy(1, 1, 8);
  s.recompute = Recompute::kFull;
  s.precision = Precision::kBf16;
  s.zero = 0;
  const auto memory = [&](Dtype grad) {
    s.grad_dtype = grad;
    return cost_of(m, c, complete(s, m, c)).memory();
  };
  const double n = static_cast<double>(parameter_count(m).total);
  const MemoryBreakdown copied = memory(Dtype::kBf16), summed = memory(Dtype::kFp32);
  CHECK(copied.optimizer == summed.optimizer);
  REQUIRE(summed.activations.si() + summed.buffers.si() < 4 * n);
  const Bytes coming = copied.buffers - summed.persistent;
  CHECK(copied.activations.si() + coming.si() == Approx(4 * n).epsilon(1e-6));

  // They are there until the next step begins.
  CHECK((copied.persistent - summed.persistent).si() == Approx(4 * n).epsilon(1e-6));

  s.zero = 1;  // an eighth of the copies: less than the activations, which are gone by then
  CHECK(memory(Dtype::kBf16).buffers == memory(Dtype::kFp32).buffers);
}

TEST_CASE("experts are sharded over their own data-parallel ranks") {
  Strategy s = plain_strategy(2, 1, 16);
  s.ep = 8;
  s.etp = 1;
  s.zero = 1;
  s.grad_dtype = Dtype::kFp32;
  REQUIRE(expert_dp(s) == 4);
  const StateBytes bytes = state_bytes(s, BlockParameters{0, 1'000'000});
  CHECK(bytes.optimizer.count() == 12 * 1'000'000 / 4);
}

TEST_CASE("all ranks together hold every parameter of the model exactly once per replica") {
  const ModelSpec m = plain_gpt(8);
  const ClusterSpec c = plain_cluster(8);
  Strategy s = plain_strategy(1, 4, 2);
  s = complete(s, m, c);
  std::int64_t sum = 0;
  for (const StageCost& stage : cost_of(m, c, s).stages) sum += stage.parameters;
  const std::int64_t table = 51200 * 4096;  // the tied head's copy on the last rank
  CHECK(sum == parameter_count(m).total + table);
}

TEST_CASE("peak memory is the sum of its stored parts") {
  const ModelSpec m = plain_gpt(8);
  const ClusterSpec c = plain_cluster(16);
  const PlanCost plan = cost_of(m, c, complete(plain_strategy(2, 4, 2), m, c));
  for (const StageCost& stage : plan.stages) {
    const MemoryBreakdown& k = stage.memory;
    CHECK(k.peak == k.weights + k.gradients + k.optimizer + k.activations + k.buffers + k.reserved);
    CHECK(k.reserved == k.communicators + k.context + k.fragmentation);
  }
  CHECK(plan.stages.front().memory.activations > plan.stages[2].memory.activations);
  CHECK(plan.stages.front().in_flight == 4);
  CHECK(plan.stages.back().in_flight == 1);
}

TEST_CASE("[F-MEM-20] segments that grow lose less between blocks") {
  const ModelSpec m = plain_gpt(8);
  const ClusterSpec c = plain_cluster(16);
  Strategy s = complete(plain_strategy(2, 4, 2), m, c);
  const MemoryBreakdown fixed = cost_of(m, c, s).memory();
  s.runtime.expandable_segments = true;
  const MemoryBreakdown growing = cost_of(m, c, s).memory();
  const double moved = (fixed.activations + fixed.buffers).si();
  CHECK(fixed.fragmentation.si() <= 0.06 * moved + 1);  // buffers that are kept are no part
  CHECK(growing.fragmentation.si() / fixed.fragmentation.si() == Approx(0.014 / 0.06));
  CHECK(fixed.peak - growing.peak == fixed.fragmentation - growing.fragmentation);
}

TEST_CASE("interleaving holds (1 + (p-1)/(p v)) times the activations on the first rank") {
  // Narayanan et al. 2104.04473 sec. 2.2 and 2205.05198 sec. 4.2.3.
  ModelSpec m = plain_gpt(16);
  m.vocab_size = 128;  // the ends do not weigh
  const ClusterSpec c = plain_cluster(16);
  Strategy s = plain_strategy(2, 4, 2);
  s.global_batch = 64;
  const PlanCost plain = cost_of(m, c, complete(s, m, c));
  s.schedule = Schedule::kInterleaved;
  s.vp = 4;
  const PlanCost interleaved = cost_of(m, c, complete(s, m, c));
  const double ratio =
      interleaved.stages[0].memory.activations.si() / plain.stages[0].memory.activations.si();
  CHECK(ratio == Approx(1 + 3.0 / 16).epsilon(0.01));
}

TEST_CASE("ZeRO-3 replaces stored weights by the gathered working set of two blocks") {
  const ModelSpec m = plain_gpt(8);
  const ClusterSpec c = plain_cluster(16);
  Strategy s = plain_strategy(1, 1, 16);
  s.zero = 3;
  s.grad_dtype = Dtype::kFp16;
  const PlanCost plan = cost_of(m, c, complete(s, m, c));
  const MemoryBreakdown& k = plan.memory();
  const double n = static_cast<double>(parameter_count(m).total);
  CHECK(k.weights.si() == Approx(2 * n / 16).epsilon(1e-6));
  const double block = 12.0 * 4096 * 4096;  // matrices of a layer
  CHECK(k.buffers.si() > block * 6);
}

TEST_CASE("[F-GRAPH-1] graphs of layers keep inputs and masks of what is in flight") {
  const ModelSpec m = plain_gpt(8);
  const ClusterSpec c = plain_cluster(16);
  Strategy s = plain_strategy(2, 4, 2);
  s.sequence_parallel = true;
  s.micro_batch = 2;
  const PlanCost plain = cost_of(m, c, complete(s, m, c));
  s.runtime.cuda_graph = CudaGraph::kLayer;
  const std::int64_t input = s.micro_batch * s.seq_len / s.tp * m.hidden_size * 2;
  const std::int64_t mask = s.micro_batch * s.seq_len * s.seq_len;
  const auto check = [&](std::int64_t mask_each, std::int64_t input_each) {
    const PlanCost graphs = cost_of(m, c, complete(s, m, c));
    for (std::size_t r = 0; r < 4; ++r) {
      CAPTURE(r);
      const std::int64_t held = plain.stages[r].layers * plain.stages[r].in_flight;
      const MemoryBreakdown &with = graphs.stages[r].memory, &without = plain.stages[r].memory;
      CHECK(with.persistent == without.persistent + Bytes{held * (mask_each + input_each)});
      CHECK(with.allocated() == without.allocated() + Bytes{held * mask_each});
      const Ledger& ledger = graphs.stages[r].ledger;
      Bytes entry, most;
      for (const LedgerEntry& e : ledger.entries) {
        if (e.name == "inputs of CUDA graphs") entry = e.bytes;
      }
      for (const MomentBytes& moment : ledger.moments) most = std::max(most, moment.allocated);
      CHECK(entry == Bytes{held * (mask_each + input_each)});
      CHECK(most == with.allocated());
    }
  };
  SECTION("of whole layers") { check(mask, input); }
  SECTION("of attention") {
    s.runtime.cuda_graph_modules = {CudaGraphModule::kAttn};
    check(mask, input);
  }
  SECTION("without attention there is no mask") {
    s.runtime.cuda_graph_modules = {CudaGraphModule::kMlp};
    check(0, input);
  }
  SECTION("of parts that the model lacks") {
    s.runtime.cuda_graph_modules = {CudaGraphModule::kMamba, CudaGraphModule::kMoeRouter};
    check(0, 0);
  }
  SECTION("a graph of the whole iteration is another matter") {
    s.runtime.cuda_graph = CudaGraph::kFullIteration;
    check(0, 0);
  }
}

TEST_CASE("[F-EP-4] overlapped dispatch holds one layer more, not one microbatch") {
  ModelSpec m = plain_gpt(8);
  m.moe = MoeSpec{};
  m.moe->num_experts = 8;
  m.moe->top_k = 2;
  m.moe->expert_ffn_hidden_size = 4096;
  m.vocab_size = 1024;  // the logits are not the largest buffer
  const ClusterSpec c = plain_cluster(8);
  Strategy s = plain_strategy(1, 1, 8);
  s.ep = 8;
  s.grad_dtype = Dtype::kFp32;
  const auto memory = [&] { return cost_of(m, c, complete(s, m, c)).memory(); };
  const MemoryBreakdown plain = memory();
  s.overlap.ep = true;
  const MemoryBreakdown ahead = memory();
  CHECK(ahead.activations == plain.activations);
  const BlockCosts blocks = block_costs(m, c, complete(s, m, c));
  const Bytes layer = blocks[block_table(m).of_layer.back()].saved.none;
  CHECK(ahead.buffers - plain.buffers == layer);
}

TEST_CASE("[F-MEM-6] nanotron holds gathered inputs that the host has run past") {
  const ModelSpec m = plain_gpt();
  const ClusterSpec c = plain_cluster(16);
  const auto buffers = [&](bool held, std::int64_t tp, std::int64_t pp, std::int64_t batch) {
    Strategy s = complete(plain_strategy(tp, pp, 8 / (tp * pp)), m, c);
    if (held) s.runtime.held_gathers = 46, s.runtime.held_gathers_one_microbatch = 20;
    s.sequence_parallel = tp > 1;
    s.global_batch = batch * s.micro_batch * s.dp;
    const Chunk all = chunk_plan(m, s).front();
    return buffer_bytes(memory_rates(m, c, s), block_costs(m, c, s), all, s.recompute).layers;
  };
  const Bytes gathered = Bytes{2} * m.hidden_size * plain_strategy(1, 1, 1).seq_len;
  const auto more = [&](std::int64_t tp, std::int64_t pp, std::int64_t batch) {
    return buffers(true, tp, pp, batch) - buffers(false, tp, pp, batch);
  };
  CHECK(more(4, 1, 4) == gathered * 46);
  CHECK(more(8, 1, 4) == gathered * 46);
  CHECK(more(4, 1, 1) == gathered * 20);
  CHECK(more(4, 2, 4) == Bytes{0});  // pipeline messages make the host wait
  CHECK(more(2, 1, 4) == Bytes{0});
}

TEST_CASE("[F-MEM-2] DeepSpeed's ZeRO-1 holds three buckets of 5e8 elements") {
  const ModelSpec m = plain_gpt();
  const ClusterSpec c = plain_cluster(8);
  Strategy s = complete(plain_strategy(1, 1, 8), m, c);
  s.zero = 1;
  const auto buffers = [&] {
    const BlockCosts blocks = block_costs(m, c, s);
    const Chunk all = chunk_plan(m, s).front();
    return kept_buffers(memory_rates(m, c, s), blocks, all)[Kept::kReductionBuckets].count();
  };
  const std::int64_t without = buffers();
  s.runtime.zero_bucket_size = 500'000'000;
  CHECK(buffers() - without == 3'000'000'000);  // 1.5e9 elements of two bytes
  s.zero = 0;
  CHECK(buffers() == without);
}
