#include <map>

#include "cost/block.hpp"
#include "cost/data_parallel.hpp"
#include "cost/step.hpp"
#include "cost/support.hpp"
#include "model/parts.hpp"
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
BlockCost dense(const BlockCosts& blocks) { return blocks[kFirstLayerBlock]; }

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
  s.runtime.tp_recompute_allgather = false;  // the gathered inputs were saved
  CHECK(tp_calls(dense(block_costs(m, c, s))) ==
        std::map<Collective, double>{{Collective::kAllGather, 4}, {Collective::kReduceScatter, 4}});
}

TEST_CASE("[F-TP-1] a parallel block reduces attention and MLP together") {
  ModelSpec m = plain_gpt();
  m.parallel_block = true;
  const ClusterSpec c = plain_cluster(8);
  const BlockCosts blocks = block_costs(m, c, plain_strategy(8, 1, 1));
  CHECK(tp_calls(dense(blocks)) == std::map<Collective, double>{{Collective::kAllReduce, 2}});
}

TEST_CASE("[F-FP8-2] Transformer Engine gathers 8 bits and reduces 16") {
  const ModelSpec m = plain_gpt();
  const ClusterSpec c = plain_cluster(8);
  Strategy s = plain_strategy(8, 1, 1);
  s.sequence_parallel = true;
  s.precision = Precision::kFp8;
  const auto bytes = [&](Collective op) {
    std::int64_t most = 0;
    const BlockCosts blocks = block_costs(m, c, s);
    for (const CommEntry& e : blocks[kFirstLayerBlock].communication)
      if (e.dimension == CommDimension::kTp && e.operation == op)
        most = std::max(most, e.bytes.count());
    return most;
  };
  CHECK(bytes(Collective::kAllGather) == 2048LL * 4096);
  CHECK(bytes(Collective::kReduceScatter) == 2LL * 2048 * 4096);
  CHECK(bytes(Collective::kAllReduce) == 4);  // a tensor's largest element, of all ranks
  s.runtime.fp8_recipe = ScalingRecipe::kDelayed;
  CHECK(bytes(Collective::kAllReduce) == 0);
  s.precision = Precision::kNvfp4;  // 4 bits, and 8 for 16 elements
  CHECK(bytes(Collective::kAllGather) == 2048LL * 4096 * 9 / 16);
  CHECK(bytes(Collective::kAllReduce) == 4);
  s.precision = Precision::kFp8;
  s.runtime.transformer_engine = false;
  CHECK(bytes(Collective::kAllGather) == 2LL * 2048 * 4096);
}

namespace {

double forward_bytes(const ModelSpec& m, const Strategy& s, std::string_view name) {
  double bytes = 0;
  const std::vector<BlockOps> blocks = block_ops(m, plain_cluster(8), s);
  for (const KernelOp& op : blocks[kFirstLayerBlock].kernels)
    if (op.name == name && op.pass == Pass::kForward) bytes += op.bytes;
  return bytes;
}

}  // namespace

TEST_CASE("[F-EP-6] what is sent once is put in order once") {
  ModelSpec m = plain_gpt();
  m.moe = MoeSpec{64, 8, 1024, 0, 0, 1, 1.0, false};
  Strategy s = plain_strategy(1, 1, 8);
  s.ep = 8;
  s.runtime.flex_dispatcher = false;
  const double copies = 2048.0 * 8 * 4096 * 2;  // of all tokens, bytes
  CHECK(forward_bytes(m, s, "permute") == Approx(2 * copies));
  const auto behind = [&] {  // the dispatch, before and after the experts
    return forward_bytes(m, s, "sort by expert") + forward_bytes(m, s, "unpermute");
  };
  CHECK(behind() == Approx(4 * copies));
  s.runtime.flex_dispatcher = true;
  CHECK(forward_bytes(m, s, "permute") == 0);
  CHECK(behind() < 4 * copies);
  CHECK(behind() > 2 * copies);
}

TEST_CASE("[F-EP-5] experts with biases clamp their features and add biases in fp32") {
  ModelSpec m = plain_gpt();
  m.moe = MoeSpec{8, 2, 1024, 0, 0, 1, 1.0, false};
  const Strategy s = plain_strategy(1, 1, 1);
  CHECK(forward_bytes(m, s, "expert bias") == 0);
  m.expert_bias = true;
  const double routed = 2048 * 2;
  CHECK(forward_bytes(m, s, "expert clamp") == Approx(8 * 2 * routed * 1024));
  CHECK(forward_bytes(m, s, "expert bias") == Approx(28 * routed * 4096));
}

TEST_CASE("[F-EP-5] biases of experts take the host what plain modules take it") {
  ModelSpec m = plain_gpt();
  m.moe = MoeSpec{8, 2, 1024, 0, 0, 1, 1.0, false};
  m.expert_bias = true;
  Strategy s = plain_strategy(1, 1, 1);
  const auto host = [&](double factor) {
    s.runtime.host_factor = factor;
    double launches = 0;
    const std::vector<BlockOps> blocks = block_ops(m, plain_cluster(8), s);
    for (const KernelOp& op : blocks[kFirstLayerBlock].kernels) {
      if (op.name == "expert bias") launches += op.launches;
    }
    return launches * factor;
  };
  CHECK(host(1) == Approx(8 * 8 + 4));
  CHECK(host(2 * kPlainHostFactor) == Approx(8 * 8 * kPlainHostFactor + 4 * 2 * kPlainHostFactor));
}

TEST_CASE("[F-EP-9] probabilities that weigh what experts made keep it and read it again") {
  ModelSpec m = plain_gpt();
  m.moe = MoeSpec{8, 2, 1024, 0, 0, 1, 1.0, false};
  const ClusterSpec c = plain_cluster(1);
  Strategy s = plain_strategy(1, 1, 1);
  const auto kept = [&] {
    const BlockContext x{m, c, s, local_shape(m, s)};
    return layer_activations(x, layer_spec(m, 0)).none.si();
  };
  const double features = kept();
  CHECK(forward_bytes(m, s, "expert weights") == 0);
  s.runtime.weighted_expert_outputs = true;
  const double copies = 2048.0 * 2 * 4096;  // elements of all tokens' copies
  CHECK(kept() - features == Approx(2 * copies));
  CHECK(forward_bytes(m, s, "expert weights") == Approx(2 * 2 * copies));
}

namespace {

// Of each of the layer's exchanges between experts' ranks, in the order of the step.
std::vector<CommEntry> exchanges(const ModelSpec& m, const ClusterSpec& c, const Strategy& s) {
  std::vector<CommEntry> all;
  const BlockCosts blocks = block_costs(m, c, s);
  for (const CommEntry& e : blocks[kFirstLayerBlock].communication) {
    if (e.dimension == CommDimension::kEp) all.push_back(e);
  }
  return all;
}

}  // namespace

TEST_CASE("[F-EP-11] a proxy takes its time for every token that leaves the node") {
  ModelSpec m = plain_gpt();
  m.moe = MoeSpec{16, 16, 4096, 0, 0, 1, 1.0, false};  // a token goes to each of the two nodes
  ClusterSpec c = plain_cluster(16);
  Strategy s = plain_strategy(1, 1, 16);
  s.ep = 16;
  s.runtime.flex_dispatcher = true;
  const Seconds links = exchanges(m, c, s).front().time_each;
  c.levels.back().token_message = Seconds{1.4e-6};
  CHECK(exchanges(m, c, s).front().time_each.si() == Approx(2e-3 + 2048 * 1.4e-6));
  s.runtime.dispatch_nvshmem = true;
  CHECK(exchanges(m, c, s).front().time_each.si() == Approx(1.5e-3 + 0.56 * 2048 * 1.4e-6));
  c.levels.back().token_message = Seconds{1e-12};
  c.levels.back().bandwidth = c.levels.back().bandwidth / 100;
  CHECK(exchanges(m, c, s).front().time_each > links);  // never faster than the links
  CHECK(exchanges(m, c, s).front().time_each.si() > 1.6e-3);
  s.runtime.flex_dispatcher = false;
  c.levels.back().token_message = Seconds{1};
  CHECK(exchanges(m, c, s).front().time_each < Seconds{1});
}

TEST_CASE("[F-EP-12] counts and probabilities travel beside copies that travel one by one") {
  ModelSpec m = plain_gpt();
  m.moe = MoeSpec{8, 2, 4096, 0, 0, 1, 1.0, false};
  Strategy s = plain_strategy(1, 1, 8);
  s.ep = 8;
  const auto calls = [&](std::int64_t bytes) {
    double n = 0;
    for (const CommEntry& e : exchanges(m, plain_cluster(8), s)) {
      if (e.bytes == Bytes{bytes}) n += e.count_per_step;
    }
    return n;
  };
  constexpr std::int64_t kCounts = 8LL * 8 * 8, kProbabilities = 4LL * 2 * 2048;
  s.runtime.flex_dispatcher = false;
  CHECK(calls(kCounts) == 1);
  CHECK(calls(kProbabilities) == 2);
  s.runtime.weighted_expert_outputs = true;
  CHECK(calls(kCounts) == 1);
  CHECK(calls(kProbabilities) == 0);
  s.runtime.weighted_expert_outputs = false;
  s.runtime.flex_dispatcher = true;
  CHECK(calls(kCounts) == 0);
  CHECK(calls(kProbabilities) == 0);
}

TEST_CASE("[F-EP-1] a mixture-of-experts layer dispatches and combines forward and backward") {
  ModelSpec m = plain_gpt();
  m.moe = MoeSpec{8, 2, 4096, 0, 0, 1, 1.0, false};
  const ClusterSpec c = plain_cluster(8);
  Strategy s = plain_strategy(1, 1, 8);
  s.ep = 8;
  s.runtime.flex_dispatcher = false;
  const BlockCosts blocks = block_costs(m, c, s);
  double calls = 0;
  for (const CommEntry& e : blocks[kFirstLayerBlock].communication) {
    if (e.dimension != CommDimension::kEp || e.bytes < Bytes{kMiB}) continue;
    calls += e.count_per_step;
    CHECK(e.operation == Collective::kAllToAll);
    CHECK(e.bytes.count() == 2LL * 2 * 2048 * 4096);  // top 2, two bytes each
  }
  CHECK(calls == 4);
}

namespace {

CommEntry first_dispatch(const ModelSpec& m, std::int64_t ep) {
  Strategy s = plain_strategy(1, 1, ep);
  s.ep = ep;
  const BlockCosts blocks = block_costs(m, plain_cluster(ep), s);
  for (const CommEntry& e : blocks[kFirstLayerBlock].communication) {
    if (e.dimension == CommDimension::kEp) return e;
  }
  FAIL("no dispatch");
  return {};
}

}  // namespace

TEST_CASE("[F-EP-2] a flexible dispatcher sends a token once to every rank or node that needs it") {
  ModelSpec m = plain_gpt();
  const double token = 2.0 * 2048 * 4096;
  // 8 experts, 2 of them: of 28 pairs 15 miss a given quarter, so 4 x 13 / 28 quarters get a copy.
  m.moe = MoeSpec{8, 2, 4096, 0, 0, 1, 1.0, false};
  CHECK(first_dispatch(m, 4).bytes.si() == Approx(token * 4 * 13 / 28));
  // An expert per rank: both copies travel.
  CHECK(first_dispatch(m, 8).bytes.si() == Approx(token * 2));
  // 16 ranks on 2 nodes: of 120 pairs 28 miss a given node.
  m.moe->num_experts = 16;
  CHECK(first_dispatch(m, 16).bytes.si() == Approx(token * 2 * 92 / 120));
}

TEST_CASE("[F-EP-3] overlapped dispatch hides behind the layer's kernels as far as these last") {
  ModelSpec m = plain_gpt();
  m.moe = MoeSpec{8, 2, 4096, 0, 0, 1, 1.0, false};
  ClusterSpec c = plain_cluster(8);
  Strategy s = plain_strategy(1, 1, 8);
  s.ep = 8;
  const auto moe = [&] { return block_costs(m, c, s)[kFirstLayerBlock]; };
  const auto exposed = [](const BlockCost& b) { return b.forward.ep + b.backward_input.ep; };
  const BlockCost apart = moe();
  s.overlap.ep = true;
  CHECK(exposed(moe()).si() == 0);
  CHECK(moe().forward.compute == apart.forward.compute);
  // On links a thousand times slower the messages outlast the kernels by far: what is left is
  // their difference, but for the kernels behind the combination of tokens.
  c.levels[0].bandwidth = BytesPerSecond{300e6};
  s.overlap.ep = false;
  const BlockCost slow = moe();
  const Seconds kernels =
      slow.forward.compute + slow.backward_input.compute + slow.backward_weight.compute;
  s.overlap.ep = true;
  CHECK(exposed(moe()) > exposed(slow) - kernels);
  CHECK(exposed(moe()).si() == Approx((exposed(slow) - kernels).si()).epsilon(1e-3));
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

TEST_CASE("[F-FP8-5] weights that are stored in 8 or 4 bits are gathered so, but for MXFP8's") {
  const ModelSpec m = plain_gpt();
  const ClusterSpec c = plain_cluster(16);
  Strategy s = plain_strategy(1, 1, 16);
  s.zero = 1;
  const BlockParameters p{.dense = 1'000'000, .embedding = 100'000, .head = 100'000};
  const auto gathered = [&] {
    const RankEnd end = rank_end(m, c, s, step_end_groups(m, c, s), p);
    REQUIRE(end.weights.count == 1);
    return end.weights.all[0].bytes;
  };
  s.precision = Precision::kFp8;
  CHECK(gathered() == 2'000'000);
  s.runtime.fp8_param_gather = true;
  CHECK(gathered() == 800'000 + 2 * 200'000);
  s.runtime.fp8_recipe = ScalingRecipe::kMxfp8;
  CHECK(gathered() == 2'000'000);
  s.precision = Precision::kNvfp4;
  CHECK(gathered() == 800'000 * 9 / 16 + 2 * 200'000);
}

TEST_CASE("[F-FP8-5] ZeRO-3 gathers a layer's weights in 8 bits and its tables in 16") {
  ModelSpec m = plain_gpt();
  m.tied_embeddings = false;
  const ClusterSpec c = plain_cluster(16);
  Strategy s = plain_strategy(1, 1, 16);
  s.zero = 3, s.precision = Precision::kFp8;
  const auto gathered = [&](std::size_t block) {
    const BlockCosts blocks = block_costs(m, c, s);
    for (const CommEntry& e : blocks[block].communication) {
      if (e.operation == Collective::kAllGather) return e.bytes;
    }
    return Bytes{};
  };
  const std::size_t head = block_costs(m, c, s).size() - 1;
  const Bytes layer = gathered(kFirstLayerBlock), ends = gathered(head);
  const Bytes buffers = cost_of(m, c, complete(s, m, c)).stages[0].memory.buffers;
  s.runtime.fp8_param_gather = true;
  CHECK(gathered(kFirstLayerBlock).count() * 2 == layer.count());
  CHECK(gathered(head) == ends);
  CHECK(cost_of(m, c, complete(s, m, c)).stages[0].memory.buffers <= buffers);
  s.runtime.fp8_recipe = ScalingRecipe::kMxfp8;
  CHECK(gathered(kFirstLayerBlock) == layer);
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

TEST_CASE("[F-DP-10] gradients of 16 bits that are reduced in fp32 take twice the bytes") {
  const ModelSpec m = plain_gpt(4);
  Strategy s = plain_strategy(1, 1, 64);
  s.grad_dtype = Dtype::kBf16;
  const ClusterSpec c = plain_cluster(64);
  const auto reduced = [&](int zero, bool in_fp32) {
    s.zero = zero;
    s.runtime.fp32_reduction = in_fp32;
    const PlanCost plan = cost_of(m, c, complete(s, m, c));
    double bytes = 0;
    for (const CommEntry& e : plan.communication) {
      const bool gradients =
          e.operation == Collective::kReduceScatter || e.operation == Collective::kAllReduce;
      if (e.dimension == CommDimension::kDp && gradients) bytes += e.count_per_step * e.bytes.si();
    }
    return bytes;
  };
  for (const int zero : {0, 1}) CHECK(reduced(zero, true) == Approx(2 * reduced(zero, false)));
}

TEST_CASE("[F-DP-6] DeepSpeed gathers the weights of ZeRO-1 and 2 before anything goes on") {
  const ModelSpec m = plain_gpt(8);
  Strategy s = plain_strategy(1, 1, 64);
  s.overlap.grad_reduce = s.overlap.param_gather = true;
  const ClusterSpec c = plain_cluster(64);
  const auto cost = [&] { return cost_of(m, c, complete(s, m, c)); };
  const auto gathered = [&] {
    const PlanCost plan = cost();
    for (const CommEntry& e : plan.communication) {
      if (e.dimension == CommDimension::kDp && e.operation == Collective::kAllGather) return e;
    }
    FAIL("weights are not gathered");
    return CommEntry{};
  };
  for (const int zero : {1, 2}) {
    s.zero = zero;
    s.runtime.late_weight_gather = false;
    const CommEntry beside = gathered();
    CHECK(beside.exposed < beside.time_each * beside.count_per_step);
    s.runtime.late_weight_gather = true;
    CHECK(gathered().exposed == beside.time_each * gathered().count_per_step);
  }
  // What is gathered layer by layer is another matter.
  s.zero = 3;
  const Seconds late = cost().step_time;
  s.runtime.late_weight_gather = false;
  CHECK(cost().step_time == late);
}
