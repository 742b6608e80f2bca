// The kernels and collectives of a block against what their formulas say, written out by hand.
#include <string_view>

#include "comm/collectives.hpp"
#include "cost/data_parallel.hpp"
#include "cost/memory.hpp"
#include "cost/step.hpp"
#include "cost/step_model.hpp"
#include "cost/support.hpp"
#include "model/flops.hpp"
#include "model/kinds.hpp"
#include "model/parts.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

// 2,048 tokens of width 4,096 on one device: 8,388,608 elements.
constexpr double kElements = 2048.0 * 4096;

struct Bench {
  ModelSpec model = plain_gpt();
  ClusterSpec cluster = plain_cluster(8);
  Strategy strategy = plain_strategy(1, 1, 1);

  [[nodiscard]] BlockContext context() const {
    return {model, cluster, strategy, local_shape(model, strategy)};
  }
  [[nodiscard]] Seconds memory(double bytes, double kernels) const {
    return memory_time(cluster.device, bytes, kernels);
  }
  // With the same window for both passes.
  [[nodiscard]] StepEnd step_end(const BlockParameters& p, Seconds window,
                                 std::vector<CommEntry>* table = nullptr) const {
    const StepEndGroups groups = step_end_groups(model, cluster, strategy);
    return meshplan::step_end(cluster, strategy, rank_end(model, cluster, strategy, groups, p),
                              window, window, table);
  }
};

}  // namespace

TEST_CASE("[F-MEM-1] a memory-bound kernel takes its bytes over the bandwidth and its overhead") {
  const DeviceSpec d = plain_device();  // 2 TB/s, 85 %, 3 us
  CHECK(memory_time(d, 1.7e9, 1).si() == Approx(1e-3 + 3e-6));
  CHECK(memory_time(d, 0, 4).si() == Approx(12e-6));
}

TEST_CASE("[F-NORM-1] a fused norm passes its tensor twice forward and three times backward") {
  Bench b;
  BlockOps ops;
  append_norm(b.context(), "norm", static_cast<std::int64_t>(kElements), ops);
  CHECK(sum(ops, "norm", Pass::kForward).time == b.memory(2 * 2 * kElements, 1));
  CHECK(sum(ops, "norm", Pass::kBackwardInput).time == b.memory(3 * 2 * kElements, 1));
  b.strategy.runtime.fused_norm = false;
  BlockOps layer;  // PyTorch's LayerNorm is one kernel anyway
  append_norm(b.context(), "norm", static_cast<std::int64_t>(kElements), layer);
  CHECK(sum(layer, "norm", Pass::kForward).time == sum(ops, "norm", Pass::kForward).time);
  b.model.norm = Norm::kRmsNorm;
  BlockOps eager;
  append_norm(b.context(), "norm", static_cast<std::int64_t>(kElements), eager);
  CHECK(sum(eager, "norm", Pass::kForward).time == b.memory(36 * kElements, 7));
  CHECK(sum(eager, "norm", Pass::kBackwardInput).time == b.memory(80 * kElements, 14));
}

TEST_CASE("[F-NORM-1] apex and PyTorch read a norm's tensors again for its weights") {
  Bench b;
  const auto weights = [&b] {
    BlockOps ops;
    append_norm(b.context(), "norm", static_cast<std::int64_t>(kElements), ops);
    return sum(ops, "norm weight gradient", Pass::kBackwardInput).time;
  };
  CHECK(weights() == Seconds{});
  b.strategy.runtime.two_pass_layernorm = true;
  CHECK(weights() == b.memory(2 * 2 * kElements, 2));
  b.model.norm = Norm::kRmsNorm;  // flash-attention's kernel
  CHECK(weights() == Seconds{});
}

TEST_CASE("[F-NORM-1] a norm before attention or MLP adds the residual's gradient") {
  Bench b;
  const LocalShape& l = b.context().shape;
  BlockOps ops;
  append_residual_norm(b.context(), "norm", ops);
  const double n = static_cast<double>(l.norm_tokens * l.hidden);
  CHECK(sum(ops, "norm", Pass::kBackwardInput).time == b.memory(3 * 2 * n, 1));
  CHECK(sum(ops, "gradient sum", Pass::kBackwardInput).time == b.memory(3 * 2 * n, 1));
  // The bytes of eager and of fp32 norms hold the addition.
  b.strategy.runtime.fused_norm = false, b.model.norm = Norm::kRmsNorm;
  BlockOps eager;
  append_residual_norm(b.context(), "norm", eager);
  CHECK(sum(eager, "gradient sum", Pass::kBackwardInput).time == Seconds{});
}

TEST_CASE("[F-LIN-1] a linear layer is three products of the same work") {
  Bench b;
  BlockOps ops;
  const LinearTimes t = append_linear(b.context(), "linear", 2048, 1024, 4096, false, ops);
  for (const Pass pass : {Pass::kForward, Pass::kBackwardInput, Pass::kBackwardWeight}) {
    CHECK(sum(ops, "linear", pass).flops == 2.0 * 2048 * 1024 * 4096);
  }
  CHECK(t.backward_weight == sum(ops, "linear", Pass::kBackwardWeight).time);
  // A gradient that is not added in the product's epilogue passes once more: fp16 in, fp32 in and
  // out for every weight.
  b.strategy.runtime.fused_grad_accumulation = false;
  b.strategy.grad_dtype = Dtype::kFp32;
  BlockOps apart;
  append_linear(b.context(), "linear", 2048, 1024, 4096, false, apart);
  CHECK(sum(apart, "gradient accumulation", Pass::kBackwardWeight).time ==
        b.memory(1024.0 * 4096 * (2 + 2 * 4), 1));
}

TEST_CASE("[F-LIN-1] matrices that read one input are one product or several") {
  Bench b;
  constexpr std::array<Projection, 3> kParts{{{"query", 1024}, {"key", 256}, {"value", 256}}};
  const auto appended = [&b, &kParts] {
    BlockOps ops;
    append_split_linear(b.context(), "qkv", kParts, 2048, 4096, false, ops, {});
    return ops;
  };
  const BlockOps one = appended();
  b.strategy.runtime.split_projections = true;
  const BlockOps three = appended();
  for (const Pass pass : {Pass::kForward, Pass::kBackwardInput, Pass::kBackwardWeight}) {
    CHECK(sum(one, "qkv", pass).flops == 2.0 * 2048 * 1536 * 4096);
    CHECK(sum(three, "qkv", pass).flops == 0);
    CHECK(sum(three, "query", pass).flops == 2.0 * 2048 * 1024 * 4096);
    CHECK(sum(three, "key", pass).flops == sum(three, "value", pass).flops);
  }
  // Three gradients of the input are added up in two passes.
  CHECK(sum(three, "gradient sum", Pass::kBackwardInput).time ==
        2 * b.memory(3 * 2 * 2048 * 4096, 1));
  CHECK(sum(one, "gradient sum", Pass::kBackwardInput).time == Seconds{});
}

TEST_CASE("[F-LIN-1] [F-EP-13] experts' products are launched one by one or as one kernel") {
  Bench b;
  const auto products = [&b] {
    BlockOps ops;
    append_linear(b.context(), "experts", 64, 1024, 4096, false, ops, 16);
    return std::pair{sum(ops, "experts", Pass::kForward).launches,
                     sum(ops, "products one by one", Pass::kForward).time};
  };
  const Seconds overhead = b.context().cluster.device.kernel_overhead;
  CHECK(products().first == Approx(1 + 0.2 * 15));
  CHECK(products().second.si() == Approx(8 * 15 * overhead.si()));
  b.strategy.runtime.transformer_engine = false;
  CHECK(products() == std::pair{16.0, Seconds{}});
  b.strategy.runtime.transformer_engine = true;
  b.strategy.runtime.grouped_kernel = true;
  CHECK(products() == std::pair{1.0, Seconds{}});
  b.strategy.runtime.grouped_kernel = false;
  b.strategy.runtime.cuda_graph = CudaGraph::kFullIteration;
  CHECK(products() == std::pair{1.0, Seconds{}});
}

TEST_CASE("[F-LIN-2] DeepSpeed's bf16 optimizer casts gradients to fp32 before it adds them") {
  Bench b;
  b.strategy.runtime.fused_grad_accumulation = false;
  b.strategy.runtime.cast_grad_accumulation = true;
  const auto bytes_each = [&b](Precision p, Dtype sums) {
    b.strategy.precision = p, b.strategy.grad_dtype = sums;
    BlockOps ops;
    append_linear(b.context(), "linear", 2048, 1024, 4096, false, ops);
    const Seconds t = sum(ops, "gradient accumulation", Pass::kBackwardWeight).time;
    return t / b.memory(1024.0 * 4096, 0);
  };
  const double overhead = b.memory(0, 1) / b.memory(1024.0 * 4096, 0);
  CHECK(bytes_each(Precision::kBf16, Dtype::kFp32) == Approx(18 + 2 * overhead));
  CHECK(bytes_each(Precision::kBf16, Dtype::kBf16) == Approx(6 + overhead));
  CHECK(bytes_each(Precision::kFp16, Dtype::kFp16) == Approx(6 + overhead));
}

TEST_CASE("[F-FP8-1] fp8 products cast their input forward and their output gradient backward") {
  Bench b;
  b.cluster.device.peak[static_cast<std::size_t>(Precision::kFp8)] = FlopsPerSecond{624e12};
  b.cluster.device.gemm.sustained[static_cast<std::size_t>(Precision::kFp8)] = 0.7;
  b.strategy.precision = Precision::kFp8;
  b.strategy.runtime.fp8_recipe = ScalingRecipe::kDelayed;
  BlockOps ops;
  append_linear(b.context(), "linear", 2048, 1024, 4096, false, ops);
  CHECK(sum(ops, "fp8 cast", Pass::kForward).time == b.memory(4 * 2048.0 * 4096, 1));
  CHECK(sum(ops, "fp8 cast", Pass::kBackwardInput).time == b.memory(4 * 2048.0 * 1024, 1));
}

TEST_CASE("[F-ACT-1] a gated activation reads two halves and writes one") {
  Bench b;
  b.model.gated_mlp = true;
  BlockOps ops;
  append_activation(b.context(), 1e8, ops);
  CHECK(sum(ops, "activation", Pass::kForward).time == b.memory(3 * 2 * 1e8, 1));
  CHECK(sum(ops, "activation", Pass::kBackwardInput).time == b.memory(5 * 2 * 1e8, 1));
  b.model.gated_mlp = false;
  BlockOps plain;
  append_activation(b.context(), 1e8, plain);
  CHECK(sum(plain, "activation", Pass::kForward).time == b.memory(2 * 2 * 1e8, 1));
}

TEST_CASE("[F-DROP-1] bias, dropout and residual read two tensors and write one and a mask") {
  const Bench b;
  BlockOps ops;
  append_residual(b.context(), ops);
  CHECK(sum(ops, "residual", Pass::kForward).time == b.memory((3 * 2 + 1) * kElements, 1));
  CHECK(sum(ops, "residual", Pass::kBackwardInput).time == b.memory((2 * 2 + 1) * kElements, 1));
}

TEST_CASE("[F-ROPE-1] an eager rotary embedding passes queries and keys nine times") {
  Bench b;
  b.model.position_embedding = PositionEmbedding::kRope;
  b.strategy.flash_attention = true;
  BlockOps fused;
  append_mixer(b.context(), layer_spec(b.model, 0).mixer, fused);
  CHECK(sum(fused, "rotary", Pass::kForward).time == b.memory(2 * 2 * 2 * kElements, 2));
  b.strategy.runtime.fused_rope = false;
  BlockOps eager;
  append_mixer(b.context(), layer_spec(b.model, 0).mixer, eager);
  CHECK(sum(eager, "rotary", Pass::kForward).time == b.memory(9 * 2 * 2 * kElements, 10));
}

TEST_CASE(
    "[F-EMB-1] the embedding's gradient is dense: zeroed, scattered and added to the main one") {
  const Bench b;
  BlockOps ops;
  append_embedding(b.context(), ops);
  const double table = 51200.0 * 4096;
  const double grad = size_of(b.strategy.grad_dtype);
  CHECK(sum(ops, "embedding", Pass::kBackwardInput).time ==
        b.memory(3 * 2 * kElements + table * (2 * 2 + 2 * grad), 4));
}

TEST_CASE("[F-LOSS-1] the vocabulary-parallel loss reduces three numbers per token") {
  Bench b;
  b.strategy = plain_strategy(8, 1, 1);
  b.strategy.runtime.fused_cross_entropy = false;
  BlockOps ops;
  append_head(b.context(), ops);
  double calls = 0;
  for (const CommOp& op : ops.comm) {
    if (op.dimension != CommDimension::kLoss) continue;
    calls += op.count;
    CHECK(op.bytes == Bytes{4 * 2048});
  }
  CHECK(calls == 3);
  const double logits = 2048.0 * 51200 / 8;
  CHECK(sum(ops, "cross entropy", Pass::kForward).time == b.memory(38 * logits, 10));
  CHECK(sum(ops, "cross entropy", Pass::kBackwardInput).time == b.memory(22 * logits, 4));
}

TEST_CASE("[F-LOSS-1] PyTorch's loss reads logits three times, in fp32 or as they are") {
  Bench b;
  b.strategy.runtime.fused_cross_entropy = false;
  b.strategy.runtime.torch_cross_entropy = true;
  const double logits = 2048.0 * 51200;
  const auto time = [&b](Pass pass) {
    BlockOps ops;
    append_head(b.context(), ops);
    return sum(ops, "cross entropy", pass).time;
  };
  CHECK(time(Pass::kForward) == b.memory((2 + 4 + 4 * 4) * logits, 3));
  CHECK(time(Pass::kBackwardInput) == b.memory((6 * 4 + 4 + 2) * logits, 4));
  b.strategy.runtime.bf16_cross_entropy = true;
  CHECK(time(Pass::kForward) == b.memory(4 * 2 * logits, 2));
  CHECK(time(Pass::kBackwardInput) == b.memory(6 * 2 * logits, 3));
}

TEST_CASE("[F-LOSS-1] Megatron-Core's fused loss passes one fp32 copy, the one in place none") {
  Bench b;
  const double logits = 2048.0 * 51200;
  const auto times = [&] {
    BlockOps ops;
    append_head(b.context(), ops);
    return std::pair(sum(ops, "cross entropy", Pass::kForward).time,
                     sum(ops, "cross entropy", Pass::kBackwardInput).time);
  };
  b.strategy.runtime.inplace_cross_entropy = false;
  CHECK(times() == std::pair(b.memory(22 * logits, 5), b.memory(6 * logits, 2)));
  b.strategy.runtime.inplace_cross_entropy = true;
  CHECK(times() == std::pair(b.memory(4 * logits, 3), b.memory(4 * logits, 2)));
}

TEST_CASE("[F-MTP-1] multi-token prediction projects two hidden states to one") {
  const Bench b;
  BlockOps ops;
  append_mtp_projection(b.context(), ops);
  CHECK(sum(ops, "mtp projection", Pass::kForward).flops == 2.0 * 2048 * 4096 * 2 * 4096);
}

TEST_CASE("[F-MTP-2] the projection's output is gathered whole over tensor ranks") {
  Bench b;
  b.strategy = plain_strategy(8, 1, 1);
  const auto messages = [&] {
    BlockOps ops;
    append_mtp_projection(b.context(), ops);
    std::vector<std::tuple<Pass, Collective, Bytes>> all;
    for (const CommOp& op : ops.comm) all.emplace_back(op.pass, op.operation, op.bytes);
    return all;
  };
  using enum Collective;
  using enum Pass;
  const Bytes output{2LL * 2048 * 4096}, input = output * 2;
  b.strategy.sequence_parallel = false;
  CHECK(messages() == std::vector{std::tuple(kForward, kAllGather, output),
                                  std::tuple(kBackwardInput, kAllReduce, input)});
  b.strategy.sequence_parallel = true;
  CHECK(messages() == std::vector{std::tuple(kForward, kAllGather, input),
                                  std::tuple(kForward, kAllGather, output),
                                  std::tuple(kBackwardInput, kAllGather, output),
                                  std::tuple(kBackwardInput, kAllGather, input),
                                  std::tuple(kBackwardInput, kReduceScatter, input)});
}

TEST_CASE("[F-OPT-1] Adam reads and writes weight, moments and gradient once") {
  Bench b;
  Strategy& s = b.strategy;
  s.zero = 0;
  s.grad_dtype = Dtype::kFp32;
  // Per parameter: gradient thrice (norm, update, zeroing is apart) 12, moments 16, fp32 weight 8,
  // fp16 copy 2, and 4 for zeroing.
  CHECK(optimizer_time(b.cluster.device, s, BlockParameters{1'000'000'000, 0}) ==
        b.memory(1e9 * (12 + 16 + 10 + 4), 12));
  s.runtime.fused_optimizer = false;
  CHECK(optimizer_time(b.cluster.device, s, BlockParameters{1'000'000'000, 0}) ==
        b.memory(1e9 * (3 * (12 + 16 + 10) + 4), 12));
}

TEST_CASE("[F-OFF-1] an offloaded optimizer costs host copies and the host's Adam") {
  Bench b;
  b.strategy = plain_strategy(1, 1, 4);
  b.strategy.zero = 1;
  b.strategy.grad_dtype = Dtype::kFp32;
  b.strategy.offload.optimizer = true;
  const StepEnd end = b.step_end(BlockParameters{4'000'000'000, 0}, Seconds{1});
  // A quarter each: 4 bytes down and 2 up at 25 GB/s, 28 bytes through Adam at 18.5 GB/s.
  const double copies = 1e9 * (4 + 2) / 25e9, update = 1e9 * 28 / 18.5e9;
  CHECK(end.offload.si() == Approx(copies + update));
  CHECK(end.optimizer == Seconds{});
  // Without ZeRO every rank's host updates all of them.
  b.strategy.zero = 0;
  CHECK(b.step_end(BlockParameters{4'000'000'000, 0}, Seconds{1}).offload.si() ==
        Approx(4 * (copies + update)));
  // Beside the update its copies hide.
  b.strategy.zero = 1;
  b.strategy.offload.overlap_copies = true;
  CHECK(b.step_end(BlockParameters{4'000'000'000, 0}, Seconds{1}).offload.si() == Approx(update));
}

TEST_CASE("[F-OFF-2] offloaded activations show where the host link is slower than the passes") {
  const DeviceSpec d = plain_device();  // 25 GB/s
  CHECK(activation_offload_time(d, Bytes{25'000'000'000}, Seconds{0.4}, Seconds{0.9}).si() ==
        Approx(0.6 + 0.1));
  CHECK(activation_offload_time(d, Bytes{25'000'000}, Seconds{0.4}, Seconds{0.9}) == Seconds{});
}

TEST_CASE("[F-OFF-8] activations of some layers leave the rest on the device") {
  Bench b;
  b.model.num_layers = 10;
  b.strategy = plain_strategy(1, 1, 8);
  b.strategy.offload.activations = true;
  const BlockCosts blocks = block_costs(b.model, b.cluster, b.strategy);
  const auto on_host = [&](std::int64_t layers) {
    Strategy s = b.strategy;
    s.offload.activation_layers = layers;
    s = complete(s, b.model, b.cluster);
    return OneStep(b.model, b.cluster, s, blocks).model().evaluate(s);
  };
  const double layer = blocks[kFirstLayerBlock].saved.none.si();
  CHECK((on_host(4).host - on_host(3).host).si() == Approx(8 * layer));
  const double fragmentation = (on_host(5).peak - on_host(6).peak).si() / layer;
  CHECK(fragmentation >= 1);
  CHECK(fragmentation < 1.1);
  CHECK((on_host(3).peak - on_host(4).peak).si() == Approx(fragmentation * layer));
  CHECK(on_host(10).peak == on_host(0).peak);
  CHECK(on_host(9).peak == on_host(0).peak);  // a layer in use and one on its way
  CHECK(on_host(10).host == on_host(0).host);
  CHECK(on_host(3).step_time <= on_host(4).step_time);
  CHECK(on_host(0).step_time.si() >= on_host(9).step_time.si());
}

TEST_CASE("[F-OFF-8] when the loss is there all copies to the host are done") {
  // Of 10 layers 4 leave: 4 less beside a large loss, 3 less where layers' backward pass is fuller.
  const auto saved_by = [](std::int64_t vocabulary) {
    Bench b;
    b.model.num_layers = 10, b.model.vocab_size = vocabulary;
    b.strategy = complete(plain_strategy(1, 1, 8), b.model, b.cluster);
    const BlockCosts blocks = block_costs(b.model, b.cluster, b.strategy);
    const Bytes all =
        OneStep(b.model, b.cluster, b.strategy, blocks).model().evaluate(b.strategy).peak;
    b.strategy.offload.activations = true, b.strategy.offload.activation_layers = 4;
    const Bytes less =
        OneStep(b.model, b.cluster, b.strategy, blocks).model().evaluate(b.strategy).peak;
    return (all - less).si() / 1.06 / blocks[kFirstLayerBlock].saved.none.si();
  };
  CHECK(saved_by(4'000'000) == Approx(4).epsilon(0.01));
  CHECK(saved_by(128) == Approx(3).epsilon(0.01));
}

TEST_CASE("[F-OFF-3] a node's host holds the offloaded states of all its devices") {
  Bench b;
  b.strategy = plain_strategy(1, 1, 8);
  b.strategy.zero = 1;
  const Strategy kept = complete(b.strategy, b.model, b.cluster);
  Strategy s = kept;
  s.offload.optimizer = true;
  const BlockCosts blocks = block_costs(b.model, b.cluster, s);
  const Bytes on_device = cost_of(b.model, b.cluster, kept, blocks).memory().optimizer;
  CHECK(OneStep(b.model, b.cluster, s, blocks).model().evaluate(s).host == on_device * 8);
}

TEST_CASE("[F-DP-2] of an overlapped reduction at least the last bucket stays exposed") {
  Bench b;
  b.strategy = plain_strategy(1, 1, 8);
  b.strategy.zero = 0;
  b.strategy.overlap.grad_reduce = true;
  // 100 M parameters in buckets of 40 M: with all the time in the world 0.4 of it shows.
  std::vector<CommEntry> table;
  const StepEnd end = b.step_end(BlockParameters{100'000'000, 0}, Seconds{100}, &table);
  REQUIRE(table.size() == 1);
  CHECK(end.exposed.si() == Approx(0.4 * table[0].time_each.si()));
}

TEST_CASE(
    "[F-PP-SEND-1] a pipeline message is a microbatch's hidden states, split by tensor ranks") {
  Bench b;
  b.cluster = plain_cluster(16);
  b.strategy = plain_strategy(4, 4, 1);
  b.strategy.sequence_parallel = true;
  const PlanCost plan = cost_of(b.model, b.cluster, complete(b.strategy, b.model, b.cluster));
  bool found = false;
  for (const CommEntry& e : plan.communication) {
    if (e.dimension != CommDimension::kPp) continue;
    found = true;
    CHECK(e.bytes.count() == 2LL * 2048 * 4096 / 4);
  }
  CHECK(found);
}

TEST_CASE("[F-MFU-1] utilisation is the model's work over the devices' peak for the step") {
  const Bench b;
  const PlanCost plan = cost_of(b.model, b.cluster, complete(b.strategy, b.model, b.cluster));
  const double work = model_flops(b.model, 2048, 8.0 * 2048).si();
  CHECK(plan.mfu == Approx(work / (312e12 * plan.step_time.si())));
  CHECK(plan.hfu == Approx(plan.mfu));
  const double causal = model_flops(b.model, 2048, 8.0 * 2048, AttentionCount::kCausal).si();
  CHECK(plan.mfu_causal == Approx(causal / (312e12 * plan.step_time.si())));
}
