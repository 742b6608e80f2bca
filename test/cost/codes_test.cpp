// What tells training codes apart: each key changes the cost that it names and nothing else.
#include "cost/block.hpp"
#include "cost/memory.hpp"
#include "cost/step.hpp"
#include "cost/step_parts.hpp"
#include "cost/support.hpp"
#include "kernels/kernels.hpp"
#include "model/parts.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

PlanCost cost(const ModelSpec& m, std::int64_t gpus, Strategy s) {
  const ClusterSpec c = plain_cluster(gpus);
  return cost_of(m, c, complete(std::move(s), m, c));
}

}  // namespace

TEST_CASE("[F-GEMM-2] attention with head sizes that miss 16 bytes is several times slower") {
  // BLOOM's prequel: 32 heads of 450 against 448 at nearly the same hidden size.
  ModelSpec aligned = plain_gpt(4, 14336, 32), odd = plain_gpt(4, 14400, 32);
  REQUIRE(aligned.head_dim == 448);
  REQUIRE(odd.head_dim == 450);
  const Strategy s = plain_strategy(8, 1, 1);
  const double slower = cost(odd, 8, s).time.compute / cost(aligned, 8, s).time.compute;
  CHECK(slower > 1.1);
  CHECK(slower < 1.6);
}

TEST_CASE("selective recomputation of a fused-attention layer repeats norms and activation only") {
  ModelSpec m = plain_gpt(4);
  m.dropout = 0;
  Strategy s = plain_strategy(1, 1, 1);
  s.flash_attention = true;
  const ClusterSpec c = plain_cluster(1);
  const BlockContext x{m, c, s, local_shape(m, s)};
  const SavedActivations saved = layer_activations(x, layer_spec(m, 0));
  // Two norm outputs of h and the activation's output of 4 h, two bytes each.
  CHECK(saved.none.count() - saved.selective.count() == 2048LL * 4096 * 2 * 6);
  const TimeTerms none = cost(m, 1, s).time;
  s.recompute = Recompute::kSelective;
  const TimeTerms selective = cost(m, 1, s).time;
  CHECK(selective.recompute > Seconds{});
  CHECK(selective.recompute < none.compute * 0.1);
}

TEST_CASE("without sequence parallelism messages may be split over tensor ranks and gathered") {
  const ModelSpec m = plain_gpt(8);
  Strategy s = plain_strategy(8, 2, 1);
  s.overlap.pp = false;
  s.runtime.scatter_gather = true;
  const Seconds split = cost(m, 16, s).time.pp_comm_exposed;
  s.runtime.scatter_gather = false;
  CHECK(split < cost(m, 16, s).time.pp_comm_exposed);
}

TEST_CASE("[F-GAP-1] every collective that a kernel waits for begins with its last rank") {
  const ModelSpec m = plain_gpt(8);
  ClusterSpec c = plain_cluster(8);
  Strategy s = plain_strategy(8, 1, 1);
  s.overlap.tp_backward = false;
  s = complete(s, m, c);
  const Seconds before = cost_of(m, c, s).time.tp_comm_exposed;
  c.device.collective_gap = Seconds{1e-4};
  const Seconds after = cost_of(m, c, s).time.tp_comm_exposed;
  // Four all-reduces a layer, one of the embedding, one of the logits, three of the loss.
  const double collectives = 8 * (4 * 8 + 1 + 1 + 3);
  const double of_four = 1.0 / 2 + 1.0 / 3 + 1.0 / 4;
  const double of_eight = of_four + 1.0 / 5 + 1.0 / 6 + 1.0 / 7 + 1.0 / 8;
  CHECK((after - before).si() == Approx(1e-4 * collectives * of_eight / of_four));
}

TEST_CASE("the backward all-reduce hides behind the weight gradient where the code overlaps it") {
  const ModelSpec m = plain_gpt(8);
  Strategy s = plain_strategy(8, 1, 1);
  s.overlap.tp_backward = true;
  const Seconds hidden = cost(m, 8, s).time.tp_comm_exposed;
  s.overlap.tp_backward = false;
  CHECK(hidden < cost(m, 8, s).time.tp_comm_exposed);
}

TEST_CASE("tensor collectives are pipelined with their products inside NVLink only") {
  const ModelSpec m = plain_gpt(8, 8192, 64);
  Strategy s = plain_strategy(8, 1, 1);
  s.sequence_parallel = true;
  s.overlap.tp = true;
  const Seconds inside = cost(m, 8, s).time.tp_comm_exposed;
  s.overlap.tp = false;
  CHECK(inside < cost(m, 8, s).time.tp_comm_exposed);
  s.tp = 16;
  const Seconds outside = cost(m, 16, s).time.tp_comm_exposed;
  s.overlap.tp = true;
  CHECK(cost(m, 16, s).time.tp_comm_exposed == outside);
}

TEST_CASE(
    "[F-HOST-1] hosts that share cores with the network are slower while messages cross nodes") {
  const ModelSpec m = plain_gpt(8, 512, 8);
  Strategy s = plain_strategy(2, 2, 1);
  s.sequence_parallel = true;
  s.runtime.contended_launches = 100;
  CHECK_FALSE(pipeline_crosses_nodes(s, plain_cluster(4)));
  s.tp = 8;
  CHECK(pipeline_crosses_nodes(s, plain_cluster(16)));
  const Seconds contended = cost(m, 16, s).time.other;
  s.runtime.contended_launches = 0;
  CHECK(cost(m, 16, s).time.other < contended);
}

TEST_CASE("[F-ACT-MEM-2] recomputation by operation keeps every second product and attention") {
  ModelSpec m = plain_gpt(4);
  m.num_query_groups = 8;
  m.attention = AttentionKind::kGqa;
  m.gated_mlp = true;
  m.activation = Activation::kSilu;
  m.norm = Norm::kRmsNorm;
  m.position_embedding = PositionEmbedding::kRope;
  m.linear_bias = false;
  m.dropout = 0;
  Strategy s = plain_strategy(1, 1, 1);
  s.flash_attention = true;
  s.runtime.op_recompute = true;
  const ClusterSpec c = plain_cluster(1);
  const BlockOps layer = block_ops(m, c, s)[kFirstLayerBlock];
  double products = 0, repeated = 0;
  for (const KernelOp& op : layer.kernels) {
    if (op.pass != Pass::kForward) continue;
    if (op.attention) CHECK(op.selective == 0);
    if (op.gemm) products += op.flops, repeated += op.flops * op.selective;
    if (!op.gemm && !op.attention) CHECK(op.selective == 1);
  }
  // Keys, attention's output and up of queries, keys, values, output, gate, up and down.
  const double h = 4096, kv = 1024, f = 4 * 4096;
  CHECK(repeated / products ==
        Approx((h * kv + h * h + h * f) / (2 * h * h + 2 * h * kv + 3 * h * f)));

  const BlockContext x{m, c, s, local_shape(m, s)};
  const SavedActivations saved = layer_activations(x, layer_spec(m, 0));
  // Input, queries, values, attention's output and its log-sum-exp, gate and down.
  const double kept = 2048 * (2 * (h + h + kv + h) + 4 * 32 + 2 * (f + h));
  CHECK(saved.selective.si() == Approx(kept));
  s.tp = 2, s.sequence_parallel = true;
  const ClusterSpec two = plain_cluster(2);
  CHECK(block_costs(m, two, s)[kFirstLayerBlock].recompute_selective.tp > Seconds{});
  s.runtime.op_recompute = false;
  CHECK(block_costs(m, two, s)[kFirstLayerBlock].recompute_selective.tp == Seconds{});
}

TEST_CASE(
    "[F-REC-3] a checkpoint that stops early repeats neither the last product nor its reduction") {
  ModelSpec m = plain_gpt(4);
  m.linear_bias = false;
  m.dropout = 0;
  Strategy s = plain_strategy(2, 1, 1);
  s.sequence_parallel = true;
  const ClusterSpec two = plain_cluster(2);
  const auto layer = [&] { return block_costs(m, two, s)[kFirstLayerBlock]; };
  const BlockCost whole = layer();
  CHECK(whole.recompute_full.compute == whole.forward.compute);
  CHECK(whole.recompute_full.tp == whole.forward.tp);
  s.runtime.recompute_early_stop = true;
  const BlockCost early = layer();
  CHECK(early.forward == whole.forward);
  CHECK(early.backward_input == whole.backward_input);
  CHECK(early.saved == whole.saved);
  // 2 m n k operations of the product from 4 h features to h, half of them on each rank.
  const double product = 2.0 * 2048 * 4096 * (4 * 4096 / 2);
  CHECK((whole.recompute_full_flops - early.recompute_full_flops).si() == Approx(product));
  CHECK(early.recompute_full.compute < whole.recompute_full.compute);
  // Two gathers and one reduction of two are repeated, all of a size.
  CHECK(early.recompute_full.tp / whole.recompute_full.tp == Approx(0.75));
  double repeated = 0;
  for (const CommEntry& e : early.communication) repeated += e.repeated ? e.count_per_step : 0;
  CHECK(repeated == 3);

  // Biases of an eager layer are added beside the residual, which saves nothing either.
  m.linear_bias = true, s.runtime.fused_dropout_add = false;
  s.runtime.recompute_early_stop = false;
  const Flops all = layer().recompute_full_flops;
  s.runtime.recompute_early_stop = true;
  CHECK((all - layer().recompute_full_flops).si() == Approx(product));
  // But dropout saves its mask behind the product.
  m.dropout = 0.1;
  CHECK(layer().recompute_full_flops == all);
  m.linear_bias = false, m.dropout = 0;

  // Behind a norm, which reads the product, only the addition is left out.
  m.sandwich_norm = true;
  const BlockCost behind = layer();
  s.runtime.recompute_early_stop = false;
  CHECK(layer().recompute_full_flops == behind.recompute_full_flops);
  m.sandwich_norm = false;
  // Beside an adapter the frozen product has run before the adapter saves anything.
  s.lora.rank = 16;
  s.lora.targets = {LoraTarget::kFc2};
  const BlockCost adapted = layer();
  s.runtime.recompute_early_stop = true;
  CHECK(adapted.recompute_full_flops == layer().recompute_full_flops);
}

TEST_CASE("[F-REC-3] what brings experts' outputs back is not repeated where it saves nothing") {
  ModelSpec m = plain_gpt(4);
  m.dropout = 0;
  m.moe = MoeSpec{.num_experts = 8, .top_k = 2, .expert_ffn_hidden_size = 2048};
  Strategy s = plain_strategy(1, 1, 8);
  s.ep = 8;
  s.runtime.flex_dispatcher = false;
  s.runtime.recompute_early_stop = true;
  const ClusterSpec eight = plain_cluster(8);
  const auto repeated = [&] {
    const BlockCost layer = block_costs(m, eight, s)[kFirstLayerBlock];
    return std::pair(layer.recompute_full.ep / layer.forward.ep, layer.recompute_full_flops.si());
  };
  const auto [all, products] = repeated();
  CHECK(all == Approx(1));
  s.runtime.flex_dispatcher = true;
  const auto [half, same] = repeated();
  CHECK(half < 0.75);
  CHECK(half > 0.25);
  CHECK(same == products);  // experts' outputs are put in order behind their last product
}

TEST_CASE("[F-OPT-2] an eager optimizer takes its host time per tensor, and per part of one") {
  const ModelSpec m = plain_gpt(8, 512, 8);
  Strategy s = plain_strategy(1, 1, 16);
  s.runtime.host_factor = 1;
  s.zero = 0;
  s.runtime.optimizer_launches = 10;
  const Seconds whole = cost(m, 16, s).time.optimizer;
  CHECK(whole.si() == Approx(8 * 8 * 10 * 5e-6));  // 8 layers, 8 tensors, 5 us a launch
  s.zero = 1;
  CHECK(cost(m, 16, s).time.optimizer == whole);
  s.runtime.shard_launches = 0.5;  // of each of 16 ranks' parts
  CHECK(cost(m, 16, s).time.optimizer.si() == Approx(8 * 8 * (10 + 8) * 5e-6));
}

TEST_CASE("[F-DP-4] DDP's buckets are reduced one by one, the last one exposed") {
  ModelSpec m = plain_gpt(4, 4096, 32);
  Strategy s = plain_strategy(1, 1, 64);
  s.zero = 0;
  s.overlap.grad_reduce = true;
  s.runtime.bucket_mib = 25;
  const PlanCost plan = cost(m, 64, s);
  double count = 0;
  for (const CommEntry& e : plan.communication) {
    if (e.dimension == CommDimension::kDp) count += e.count_per_step;
  }
  // Of a layer the three products larger than 25 MiB, the fourth being filled by its neighbour:
  // 4 h h twice, h h and 3 h h of two bytes; and the table.
  CHECK(count == 4 * 4 + 1);
  s.runtime.bucket_mib = 1e5;
  double once = 0;
  for (const CommEntry& e : cost(m, 64, s).communication) {
    if (e.dimension == CommDimension::kDp) once += e.count_per_step;
  }
  CHECK(once == 1);
}

TEST_CASE("[F-DP-1] ZeRO-1 of a whole reduction all-reduces after everything, then gathers") {
  const ModelSpec m = plain_gpt(4);
  Strategy s = plain_strategy(1, 1, 64);
  s.zero = 1;
  s.overlap.grad_reduce = true;
  const Seconds scattered = cost(m, 64, s).time.dp_comm_exposed;
  s.runtime.whole_reduction = true;
  const PlanCost plan = cost(m, 64, s);
  bool reduces = false, gathers = false;
  for (const CommEntry& e : plan.communication) {
    if (e.dimension != CommDimension::kDp) continue;
    reduces |= e.operation == Collective::kAllReduce && e.exposed == e.time_each;
    gathers |= e.operation == Collective::kAllGather;
  }
  CHECK(reduces);
  CHECK(gathers);
  CHECK(plan.time.dp_comm_exposed > scattered);
}

TEST_CASE("[F-PP-SEND-1] Megatron-Core waits for the messages of plain 1F1B, not of interleaving") {
  const ModelSpec m = plain_gpt(32);
  Strategy s = plain_strategy(1, 8, 1);
  const ClusterSpec c = plain_cluster(8);
  s.overlap.pp = true;
  const auto send = [&] { return boundary_send(m, c, s, Placement(m, c, s)).time; };
  CHECK(send().sender_busy >= send().transfer);
  s.schedule = Schedule::kInterleaved;
  s.vp = 2;
  CHECK(send().sender_busy == Seconds{});
  s.overlap.pp = false;
  CHECK(send().sender_busy >= send().transfer);
}

TEST_CASE("[F-NCCL-MEM-1] every communicator of a job holds its channels' buffers") {
  const ModelSpec m = plain_gpt(8);
  Strategy s = plain_strategy(8, 1, 1);
  const ClusterSpec node = plain_cluster(8);
  // World and tensor-parallel group: 24 channels, ring and two tree peers, 9.19 MiB each.
  const double connection = 8.0 * 512 * 8 * 16 + 120.0 * 640 * 8 * 8 + 4 * 1024 * 1024;
  CHECK(communicator_bytes(m, node, s).si() == Approx(2 * 24 * 3 * connection));
  s = plain_strategy(8, 2, 2);
  CHECK(communicator_bytes(m, plain_cluster(32), s) >
        communicator_bytes(m, node, plain_strategy(8, 1, 1)));
  // The first and the last pipeline rank share the embedding's gradient: if the head's weights are
  // the embedding's, and for multi-token prediction.
  ModelSpec untied = m;
  untied.tied_embeddings = false;
  ModelSpec predicts = untied;
  predicts.mtp_layers = 1;
  const ClusterSpec nodes = plain_cluster(32);
  CHECK(communicator_bytes(untied, nodes, s) < communicator_bytes(m, nodes, s));
  CHECK(communicator_bytes(predicts, nodes, s) == communicator_bytes(m, nodes, s));
}

TEST_CASE("interleaved schedules hide the gradient reduction behind several microbatches") {
  ModelSpec m = plain_gpt(32, 8192, 64);
  m.tied_embeddings = false;
  Strategy s = plain_strategy(8, 4, 8);
  s.global_batch = 8 * 16;
  s.overlap.grad_reduce = s.overlap.param_gather = true;
  const Seconds plain = cost(m, 256, s).time.dp_comm_exposed;
  s.schedule = Schedule::kInterleaved;
  s.vp = 4;
  CHECK(cost(m, 256, s).time.dp_comm_exposed <= plain);
}

TEST_CASE("[F-NORM-1] norms and the loss of fp32 copies take longer") {
  const ModelSpec m = plain_gpt(8);
  Strategy s = plain_strategy(1, 1, 1);
  const Seconds plain = cost(m, 1, s).time.compute;
  s.runtime.fp32_copies = true;
  const Seconds copied = cost(m, 1, s).time.compute;
  CHECK(copied > plain);
  CHECK(copied < plain * 1.1);
}

TEST_CASE("[F-LOSS-1] gathered logits cost a gather, and memory on every tensor rank") {
  ModelSpec m = plain_gpt(4);
  m.vocab_size = 128000;
  Strategy s = plain_strategy(8, 1, 1);
  const ClusterSpec c = plain_cluster(8);
  const auto head = [&] { return block_costs(m, c, s).head(); };
  const BlockCost split = head();
  s.runtime.gathered_logits = true;
  const BlockCost whole = head();
  // 2,048 tokens; two bytes, fp32 logarithms and two fp32 gradients.
  const double inputs = 2048.0 * 4096 * 2 * 3;
  CHECK((whole.saved.none + whole.working_set).si() == Approx(2048.0 * 128000 * 14 + inputs));
  CHECK(whole.saved.none - Bytes{2LL * 2048 * 4096 * 2} >
        (split.saved.none - Bytes{2LL * 2048 * 4096 * 2}) * 7);
  CHECK(whole.forward.tp > split.forward.tp);
  CHECK(whole.forward.compute > split.forward.compute);
}

TEST_CASE("[F-LIN-1] the output layer computes in bf16 where the rest is fp8") {
  const ModelSpec m = plain_gpt(8);
  ClusterSpec c = plain_cluster(1);
  c.device.peak[static_cast<std::size_t>(Precision::kFp8)] =
      c.device.peak[static_cast<std::size_t>(Precision::kBf16)] * 2;
  c.device.gemm.sustained[static_cast<std::size_t>(Precision::kFp8)] =
      c.device.gemm.sustained[static_cast<std::size_t>(Precision::kBf16)];
  Strategy s = plain_strategy(1, 1, 1);
  s.precision = Precision::kBf16;
  const BlockCosts bf16 = block_costs(m, c, s);
  s.precision = Precision::kFp8;
  const BlockCosts fp8 = block_costs(m, c, s);
  CHECK(fp8.head().forward.compute == bf16.head().forward.compute);
  CHECK(fp8[kFirstLayerBlock].forward.compute < bf16[kFirstLayerBlock].forward.compute);
}

TEST_CASE("[F-DP-3] whole tensors per rank are reduced and broadcast one by one along the ring") {
  const ModelSpec m = plain_gpt(4);
  Strategy s = plain_strategy(1, 1, 64);
  s.zero = 1;
  s.runtime.whole_tensor_shards = true;
  const PlanCost plan = cost(m, 64, s);
  double owners = 0;
  for (const CommEntry& e : plan.communication) {
    if (e.dimension != CommDimension::kDp) continue;
    CHECK(e.operation == Collective::kBroadcast);
    owners = e.count_per_step;
  }
  CHECK(owners == 4 * 8);  // 4 layers of 8 tensors: fewer than ranks
  s.runtime.whole_tensor_shards = false;
  CHECK(plan.time.dp_comm_exposed > cost(m, 64, s).time.dp_comm_exposed);
}

TEST_CASE("[F-ZERO-3] weights gathered into lists of all ranks' parts cost the host their number") {
  const ModelSpec m = plain_gpt(4);
  Strategy s = plain_strategy(1, 1, 64);
  s.zero = 3;
  s.runtime.host_factor = 1;
  const Seconds before = cost(m, 64, s).time.dp_comm_exposed;
  s.runtime.shard_launches = 3;
  const Seconds after = cost(m, 64, s).time.dp_comm_exposed;
  // Layers, embedding and head: two gathers and a scatter of four weights, 5 us a launch, in each
  // of eight microbatches.
  CHECK((after - before).si() == Approx(8 * (4 + 2) * 3 * 4 * 64 * 3 * 5e-6));
}

TEST_CASE(
    "[F-ALLOC-1] a plan beyond the device's memory lives on retries, one that fits does not") {
  const ModelSpec m = plain_gpt(8);
  ClusterSpec c = plain_cluster(2);
  const Strategy plain = complete(plain_strategy(1, 2, 1), m, c);
  Strategy s = plain;
  s.runtime.retry_stall = 0.25;
  CHECK(cost_of(m, c, s).step_time == cost_of(m, c, plain).step_time);
  c.device.memory = ceil_bytes(cost_of(m, c, s).memory().peak.si() / 1.2);
  const double each = static_cast<double>(num_microbatches(s));
  // Two stages: one message sent, one received.
  CHECK((cost_of(m, c, s).step_time - cost_of(m, c, plain).step_time).si() ==
        Approx(0.25 * 2 * each));
}

TEST_CASE(
    "[F-MEM-3] [F-MEM-4] DeepSpeed's fp16 step and pipeline engine hold what Megatron frees") {
  Strategy s = plain_strategy(1, 1, 4);
  s.runtime.flat_grad_copies = true;
  s.grad_dtype = Dtype::kFp16;
  s.zero = 1;
  s.precision = Precision::kFp16;
  const BlockParameters p{1'000'000, 0};
  const Bytes fp16 = state_bytes(s, p).optimizer;
  s.precision = Precision::kBf16;
  CHECK(fp16 - state_bytes(s, p).optimizer == Bytes{6 * 1'000'000 / 4});
  const ModelSpec m = plain_gpt(8);
  s = plain_strategy(1, 4, 1);
  s.global_batch = 16;
  const ClusterSpec c = plain_cluster(4);
  const Bytes freed = memory_rates(m, c, s).messages;
  s.runtime.deallocate_pipeline_outputs = false;
  const LocalShape l = local_shape(m, s);
  CHECK(memory_rates(m, c, s).messages - freed == Bytes{4 * l.tokens * l.hidden * l.bytes});
}
