// What the host takes to issue a layer, and what CUDA graphs leave of it.
#include "cost/block.hpp"
#include "cost/step.hpp"
#include "cost/support.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

TEST_CASE("[F-HOST-2] the host is never ahead of the experts' products") {
  ModelSpec m = plain_gpt(8, 8192, 64);
  m.moe = MoeSpec{64, 2, 256, 0, 0, 1, 1.0, false};
  const ClusterSpec c = plain_cluster(1);
  Strategy s = plain_strategy(1, 1, 1);
  s.runtime.host_factor = 0;
  s.runtime.transformer_engine = false;  // each by a call of its own
  CHECK(block_costs(m, c, s)[kFirstLayerBlock].forward.launch == Seconds{});
  s.runtime.host_factor = 2;
  const BlockCost layer = block_costs(m, c, s)[kFirstLayerBlock];
  Seconds device;
  double launches = 0, all = 0;
  const auto ops = block_ops(m, c, s);
  for (const KernelOp& op : ops[kFirstLayerBlock].kernels) {
    if (op.pass != Pass::kForward) continue;
    all += op.launches;
    if (op.awaited) device += op.time, launches += op.launches;
  }
  CHECK(launches == 2 * 64 + 1);  // products, and an activation
  const double each = 2 * 5e-6;
  // The whole pass would hide its launches: attention alone takes longer.
  REQUIRE(layer.forward.compute.si() > all * each);
  CHECK(layer.forward.launch.si() == Approx(launches * each - device.si()));
}

ModelSpec small_mixture() {
  ModelSpec m = plain_gpt(8, 1024, 16);
  m.moe = MoeSpec{8, 2, 512, 0, 0, 1, 1.0, false};
  return m;
}
// Its experts on eight ranks, whose host is slower than the device.
Strategy slow_host() {
  Strategy s = plain_strategy(1, 1, 8);
  s.ep = 8;
  s.runtime.host_factor = 10;
  return s;
}

TEST_CASE("[F-HOST-4] overlapped dispatch calls four nodes of a layer from the host") {
  const ModelSpec m = small_mixture();
  const ClusterSpec c = plain_cluster(8);
  Strategy s = slow_host();
  s.runtime.node_launches = 20;
  const auto launch = [&] { return block_costs(m, c, s)[kFirstLayerBlock].forward.total().si(); };
  const double plain = launch();
  s.overlap.ep = true;
  const double overlapped = launch();
  CHECK(overlapped - plain == Approx(4 * 20 * 10 * 5e-6));
  s.runtime.node_launches = 0;
  CHECK(launch() == Approx(plain));
}

TEST_CASE("[F-HOST-5] a CUDA graph leaves the host nothing of a layer to issue") {
  const ModelSpec m = small_mixture();
  const ClusterSpec c = plain_cluster(8);
  Strategy s = slow_host();
  s.runtime.optimizer_launches = 1000;
  const PlanCost eager = cost_of(m, c, complete(s, m, c));
  CHECK(eager.time.other > Seconds{});
  const BlockCost issued = block_costs(m, c, s)[kFirstLayerBlock];
  CHECK(issued.forward.launch > Seconds{});
  for (const CudaGraph graph : {CudaGraph::kLayer, CudaGraph::kFullIteration}) {
    s.runtime.cuda_graph = graph;
    const BlockCost replayed = block_costs(m, c, s)[kFirstLayerBlock];
    CHECK(replayed.forward.launch == Seconds{});
    CHECK(replayed.forward.compute == issued.forward.compute);
    const PlanCost plan = cost_of(m, c, complete(s, m, c));
    CHECK(plan.time.other == Seconds{});
    CHECK(plan.step_time < eager.step_time);
    CHECK(plan.time.optimizer == eager.time.optimizer);  // it is not captured
  }
}

TEST_CASE("[F-HOST-7] what is logged each step is added to it, graphs or not") {
  const ModelSpec m = small_mixture();
  const ClusterSpec c = plain_cluster(8);
  for (const CudaGraph graph : {CudaGraph::kNone, CudaGraph::kFullIteration}) {
    Strategy s = slow_host();
    s.runtime.cuda_graph = graph;
    const PlanCost quiet = cost_of(m, c, complete(s, m, c));
    s.runtime.step_launches = 300;
    const PlanCost logged = cost_of(m, c, complete(s, m, c));
    const double launches = 300 * s.runtime.host_factor;
    CHECK((logged.step_time - quiet.step_time).si() == Approx(launches * c.device.launch_gap.si()));
    CHECK((logged.time.other - quiet.time.other).si() ==
          Approx(launches * c.device.launch_gap.si()));
  }
}

TEST_CASE("[F-OPT-2] each expert has two tensors of its own") {
  const ModelSpec m = small_mixture();
  const ClusterSpec c = plain_cluster(8);
  Strategy s = slow_host();
  s.ep = 1, s.dp = 8;
  s.zero = 0;
  s.runtime.host_factor = 1;
  const auto with = [&](double launches) {
    s.runtime.optimizer_launches = launches;
    return cost_of(m, c, complete(s, m, c)).time.optimizer.si();
  };
  const auto tensors =
      static_cast<double>(8 * m.num_layers + 2 * num_moe_layers(m) * m.moe->num_experts);
  const double many = 1e4;  // the host is slower than the device
  CHECK(with(many) == Approx(tensors * many * 5e-6));
}

TEST_CASE("[F-HOST-5] graphs of parts of a layer leave the host the others' launches") {
  const ModelSpec m = small_mixture();
  const ClusterSpec c = plain_cluster(8);
  Strategy s = slow_host();
  s.runtime.flex_dispatcher = false;
  s.runtime.fused_router = s.runtime.fused_permute = true;
  s.runtime.host_factor = 1000;  // the host is the slower one of whatever it issues itself
  const auto launch = [&](CudaGraphModules modules) {
    s.runtime.cuda_graph = modules.empty() ? CudaGraph::kNone : CudaGraph::kLayer;
    s.runtime.cuda_graph_modules = modules;
    return block_costs(m, c, s)[kFirstLayerBlock].forward.total().si();
  };
  using enum CudaGraphModule;
  const double eager = launch({}), attention = launch({kAttn}), router = launch({kMoeRouter});
  const double both = launch({kAttn, kMoeRouter}), before = launch({kMoeRouter, kMoePreprocess});
  CHECK(attention < eager);
  CHECK(router < eager);
  CHECK(eager - both == Approx((eager - attention) + (eager - router)));
  // Before the dispatch two kernels permute the tokens, and 12 operators of plain modules sum how
  // many; there is a launch_gap of host_factor each.
  const double kernels = 2 + 12 * kPlainHostFactor / s.runtime.host_factor;
  CHECK(router - before == Approx(kernels * c.device.launch_gap.si() * s.runtime.host_factor));
  CHECK(launch({kMlp}) == Approx(eager));  // no layer is dense
  s.runtime.host_factor = 0;
  const double device = launch({});
  s.runtime.host_factor = 1000;
  CHECK(launch({kAttn, kMoe}) == Approx(device));
  // A norm and the router's product with its three kernels are issued by one call.
  CHECK(eager - router >= Approx(5 * c.device.launch_gap.si() * s.runtime.host_factor));
}

TEST_CASE("[F-HOST-5] a graph replays checkpoints inside of it") {
  const ModelSpec m = small_mixture();
  const ClusterSpec c = plain_cluster(8);
  Strategy s = slow_host();
  s.recompute = Recompute::kSelective;
  s.recompute_modules = {RecomputeModule::kCoreAttn, RecomputeModule::kLayernorm};
  const int eager = block_ops(m, c, s)[kFirstLayerBlock].checkpoints;
  s.runtime.cuda_graph = CudaGraph::kLayer;
  s.runtime.cuda_graph_modules = {CudaGraphModule::kAttn};
  const int outside = block_ops(m, c, s)[kFirstLayerBlock].checkpoints;
  CHECK(outside > 0);
  CHECK(outside < eager);
}

// Launches of a layer's operations of that name: forward, backward.
std::pair<double, double> launches_of(const ModelSpec& m, const Strategy& s,
                                      std::string_view name) {
  const auto ops = block_ops(m, plain_cluster(8), s);
  std::pair<double, double> n;
  for (const KernelOp& op : ops[kFirstLayerBlock].kernels) {
    if (op.name == name) (op.pass == Pass::kForward ? n.first : n.second) += op.launches;
  }
  return n;
}

TEST_CASE("[F-EP-11] the host waits through the start of a forward dispatch through a proxy") {
  ModelSpec m = small_mixture();
  m.moe->num_experts = 16;
  ClusterSpec c = plain_cluster(16);  // two nodes
  Strategy s = plain_strategy(1, 1, 16);
  s.ep = 16;
  s.runtime.flex_dispatcher = true;
  s.runtime.host_factor = 1000;  // the host is the slower one
  const auto passes = [&] {
    const BlockCosts blocks = block_costs(m, c, s);
    const BlockCost& b = blocks[kFirstLayerBlock];
    return std::pair{b.forward.total().si(), b.backward_input.total().si()};
  };
  const auto before = passes();
  c.levels.back().token_message = Seconds{1e-9};
  CHECK(passes().first - before.first == Approx(2e-3));
  CHECK(passes().second == Approx(before.second));
  s.runtime.dispatch_nvshmem = true;
  CHECK(passes().first - before.first == Approx(1.5e-3));
}

TEST_CASE("[F-HOST-6] choosing experts and sorting tokens to them, operator by operator or fused") {
  ModelSpec m = small_mixture();  // 8 experts
  Strategy s = slow_host();
  s.runtime.flex_dispatcher = s.runtime.fused_router = s.runtime.fused_permute = false;
  s.runtime.host_factor = 2 * kPlainHostFactor;  // an operator is half a kernel
  CHECK(launches_of(m, s, "routing") == std::pair{16.0, 12.0});
  CHECK(launches_of(m, s, "permute").first == Approx((20 + 12 + 0.08 * 8) / 2));
  CHECK(launches_of(m, s, "unpermute").first == Approx((5 + 0.08 * 8) / 2 + 5 + 20));
  CHECK(launches_of(m, s, "unpermute").second == Approx((5 + 0.08 * 8) / 2 + 20));
  s.runtime.flex_dispatcher = true;  // all of it where tokens arrive, by local expert alone
  CHECK(launches_of(m, s, "permute") == std::pair{0.0, 0.0});
  CHECK(launches_of(m, s, "unpermute") == std::pair{12.5 + 5 + 20, 12.5 + 20});
  s.runtime.flex_dispatcher = false;
  s.runtime.allgather_dispatcher = true;  // nothing of the dispatcher's but collectives
  CHECK(launches_of(m, s, "unpermute") == std::pair{12.5 + 5, 12.5});
  s.runtime.allgather_dispatcher = false;
  m.moe->router_bias = true;
  CHECK(launches_of(m, s, "routing") == std::pair{21.5, 17.5});
  s.runtime.fused_router = s.runtime.fused_permute = true;
  CHECK(launches_of(m, s, "routing") == std::pair{7.0, 5.0});
  CHECK(launches_of(m, s, "permute") == std::pair{2.0 + 6, 2.0});
  CHECK(launches_of(m, s, "unpermute") == std::pair{28.0, 23.0});
  s.runtime.grouped_kernel = true;  // it takes the tokens of each expert from the device
  CHECK(launches_of(m, s, "unpermute") == std::pair{23.0, 23.0});
  s.ep = 1, s.dp = 8;  // nothing is dispatched
  CHECK(launches_of(m, s, "unpermute") == std::pair{3.0, 3.0});
}
