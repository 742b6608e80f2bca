// What tells training codes apart: each key changes the cost that it names and nothing else.
#include "cost/activations.hpp"
#include "cost/kernels.hpp"
#include "cost/memory.hpp"
#include "cost/step.hpp"
#include "cost/support.hpp"
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

TEST_CASE("[F-ATT-1] FlashAttention-1 takes twice as long as FlashAttention-2 on Ampere") {
  const DeviceSpec d = plain_device();
  const AttentionShape a{1, 32, 4096, 4096, 128, 128, 0.5};
  const Seconds flash2 = fused_attention_time(d, a, false, AttentionKernel::kFlash2);
  const Seconds flash1 = fused_attention_time(d, a, false, AttentionKernel::kFlash1);
  CHECK(flash2 == fused_attention_time(d, a, false));
  CHECK((flash1 - d.kernel_overhead) / (flash2 - d.kernel_overhead) == Approx(2));
}

TEST_CASE("selective recomputation of a fused-attention layer repeats norms and activation only") {
  ModelSpec m = plain_gpt(4);
  m.dropout = 0;
  Strategy s = plain_strategy(1, 1, 1);
  s.flash_attention = true;
  const ClusterSpec c = plain_cluster(1);
  const BlockContext x{m, c, s, local_shape(m, s)};
  const SavedActivations saved = layer_activations(x, false);
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
  s.kernels.scatter_gather = true;
  const Seconds split = cost(m, 16, s).time.pp_comm_exposed;
  s.kernels.scatter_gather = false;
  CHECK(split < cost(m, 16, s).time.pp_comm_exposed);
}

TEST_CASE("a device's collective gap is paid by every collective that a kernel waits for") {
  const ModelSpec m = plain_gpt(8);
  ClusterSpec c = plain_cluster(8);
  Strategy s = plain_strategy(8, 1, 1);
  s.overlap.tp_backward = false;
  s = complete(s, m, c);
  const Seconds before = cost_of(m, c, s).time.tp_comm_exposed;
  c.device.collective_gap = Seconds{1e-4};
  const Seconds after = cost_of(m, c, s).time.tp_comm_exposed;
  // Four all-reduces a layer, one of the embedding, one of the logits, three of the loss.
  CHECK((after - before).si() == Approx(1e-4 * 8 * (4 * 8 + 1 + 1 + 3)));
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
  s.kernels.contended_launches = 100;
  CHECK_FALSE(pipeline_crosses_nodes(s, plain_cluster(4)));
  s.tp = 8;
  CHECK(pipeline_crosses_nodes(s, plain_cluster(16)));
  const Seconds contended = cost(m, 16, s).time.other;
  s.kernels.contended_launches = 0;
  CHECK(cost(m, 16, s).time.other < contended);
}

TEST_CASE(
    "[F-OPT-2] an eager optimizer takes its host time per tensor, twice with sharded states") {
  const ModelSpec m = plain_gpt(8, 512, 8);
  Strategy s = plain_strategy(1, 1, 2);
  s.zero = 0;
  s.kernels.optimizer_launches = 10;
  const Seconds whole = cost(m, 2, s).time.optimizer;
  CHECK(whole.si() == Approx(8 * 8 * 10 * 5e-6));  // 8 layers, 8 tensors, 5 us a launch
  s.zero = 1;
  CHECK(cost(m, 2, s).time.optimizer == whole * 2);
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
