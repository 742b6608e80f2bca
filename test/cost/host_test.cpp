// What the host takes to issue a layer, and what CUDA graphs leave of it.
#include <algorithm>
#include <cmath>

#include "cost/block.hpp"
#include "cost/step.hpp"
#include "cost/support.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

// What a device and a host make of a layer's forward pass again and again, kernel by kernel: each
// starts once it is issued and the one before has ended, and the host waits once a layer.
Seconds two_clocks(const BlockOps& ops, const Strategy& s, const ClusterSpec& c) {
  const Seconds each = c.device.launch_gap * s.runtime.host_factor;
  const std::size_t wait = ops.host_wait.value().place;
  const bool queued = ops.host_wait->queued > Seconds{};
  Seconds issued, ended, told, before;
  constexpr int kLayers = 6;
  for (int layer = 0; layer < kLayers; ++layer) {
    before = ended;
    for (std::size_t i = 0; i <= ops.kernels.size(); ++i) {
      if (i == wait) issued = std::max(issued, queued ? told : ended);
      for (const CommOp& op : ops.comm) {
        if (op.pass != Pass::kForward || op.place != i) continue;
        issued += each * (op.count * s.runtime.collective_launches);
        ended = std::max(ended, issued) + op.time_each * op.count;
      }
      if (queued && i + 2 == wait) told = ended;  // tokens are sorted behind what tells the counts
      if (i == ops.kernels.size() || ops.kernels[i].pass != Pass::kForward) continue;
      const double n = std::max(1.0, std::round(ops.kernels[i].launches));
      for (double k = 0; k < n; ++k) {
        issued += each * (ops.kernels[i].launches / n);
        ended = std::max(ended, issued) + ops.kernels[i].time * (1 / n);
      }
    }
  }
  return ended - before;
}

TEST_CASE("[F-HOST-2] after its wait the host has to catch up with an idle device") {
  ModelSpec m = plain_gpt(8, 8192, 64);
  m.moe = MoeSpec{64, 2, 256, 0, 0, 1, 1.0, false};
  const ClusterSpec c = plain_cluster(8);
  const auto ranks = GENERATE(1, 8);
  const double factor = GENERATE(0.5, 2.0, 8.0, 100.0);
  CAPTURE(ranks, factor);
  Strategy s = plain_strategy(1, 1, ranks);
  s.ep = ranks;
  s.runtime.flex_dispatcher = false;
  s.runtime.transformer_engine = false;  // each expert by a call of its own
  s.runtime.host_factor = 0;
  CHECK(block_costs(m, c, s)[kFirstLayerBlock].forward.launch == Seconds{});
  s.runtime.host_factor = factor;
  const BlockCost layer = block_costs(m, c, s)[kFirstLayerBlock];
  const BlockOps ops = block_ops(m, c, s)[kFirstLayerBlock];
  CHECK(layer.forward.total().si() == Approx(two_clocks(ops, s, c).si()).epsilon(0.02));
  s.overlap.ep = true;  // the other microbatch's kernels are in the queue
  if (factor < 1 && ranks > 1) {
    CHECK(block_costs(m, c, s)[kFirstLayerBlock].forward.launch == Seconds{});
  }
}

TEST_CASE("[F-HOST-2] the wait is where the dispatcher of tokens needs the counts") {
  ModelSpec m = plain_gpt(8, 1024, 16);
  m.moe = MoeSpec{8, 2, 512, 0, 0, 1, 1.0, false};
  Strategy s = plain_strategy(1, 1, 8);
  s.ep = 8;
  const auto ops_of = [&] { return block_ops(m, plain_cluster(8), s)[kFirstLayerBlock]; };
  const auto sent_before = [](const BlockOps& ops) {
    int n = 0;
    for (const CommOp& op : ops.comm) {
      const bool tokens = op.dimension == CommDimension::kEp && op.pass == Pass::kForward;
      n += tokens && op.place < ops.host_wait.value().place ? 1 : 0;
    }
    return n;
  };
  s.runtime.flex_dispatcher = false;
  CHECK(ops_of().kernels.at(ops_of().host_wait.value().place - 2).name == "permute");
  CHECK(ops_of().host_wait->queued > Seconds{});
  CHECK(sent_before(ops_of()) == 1);  // what ranks tell each other
  s.runtime.cuda_graph = CudaGraph::kLayer;
  s.runtime.cuda_graph_modules = {CudaGraphModule::kMoeRouter, CudaGraphModule::kMoePreprocess};
  CHECK(ops_of().host_wait->queued == Seconds{});
  s.runtime.cuda_graph = CudaGraph::kNone, s.runtime.cuda_graph_modules = {};
  s.runtime.flex_dispatcher = true;
  CHECK(ops_of().host_wait->queued == Seconds{});
  CHECK(sent_before(ops_of()) == 0);
  s.runtime.allgather_dispatcher = true;
  CHECK(sent_before(ops_of()) == 3);  // tokens, scores and the map; outputs come back later
  s.runtime.grouped_kernel = true;
  CHECK(ops_of().host_wait.has_value());
  s.ep = 1;  // kernels read the counts on the device
  CHECK_FALSE(ops_of().host_wait.has_value());
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
  CHECK(overlapped - plain == Approx(4 * 20 * 10 * 5e-6).epsilon(0.01));
  s.runtime.node_launches = 0;
  CHECK(launch() == Approx(plain).epsilon(0.01));
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
  CHECK(router - before ==
        Approx(kernels * c.device.launch_gap.si() * s.runtime.host_factor).epsilon(0.01));
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
  CHECK(passes().first - before.first == Approx(2e-3).epsilon(0.01));
  CHECK(passes().second == Approx(before.second));
  s.runtime.dispatch_nvshmem = true;
  CHECK(passes().first - before.first == Approx(1.5e-3).epsilon(0.01));
}

TEST_CASE("[F-HOST-6] choosing experts and sorting tokens to them, operator by operator or fused") {
  ModelSpec m = small_mixture();  // 8 experts
  Strategy s = slow_host();
  s.runtime.flex_dispatcher = s.runtime.fused_router = s.runtime.fused_permute = false;
  s.runtime.host_factor = 2 * kPlainHostFactor;  // an operator is half a kernel
  CHECK(launches_of(m, s, "routing") == std::pair{16.0, 12.0});
  CHECK(launches_of(m, s, "permute").first == Approx((20 + 12) / 2.0));
  CHECK(launches_of(m, s, "token counts").first == 5);
  CHECK(launches_of(m, s, "sort by expert").first == Approx(0.08 * 8 / 2));
  CHECK(launches_of(m, s, "unpermute").first == Approx((5 + 0.08 * 8) / 2 + 20));
  CHECK(launches_of(m, s, "unpermute").second == Approx((5 + 0.08 * 8) / 2 + 20));
  s.runtime.flex_dispatcher = true;  // all of it where tokens arrive, by local expert alone
  CHECK(launches_of(m, s, "permute") == std::pair{0.0, 0.0});
  CHECK(launches_of(m, s, "token counts").first == 2);
  CHECK(launches_of(m, s, "sort by expert") == std::pair{10.0, 0.0});
  CHECK(launches_of(m, s, "unpermute") == std::pair{2.5 + 20, 12.5 + 20});
  s.runtime.flex_dispatcher = false;
  s.runtime.allgather_dispatcher = true;  // nothing of the dispatcher's but collectives
  CHECK(launches_of(m, s, "token counts").first == 5);
  CHECK(launches_of(m, s, "sort by expert").first == 10);
  CHECK(launches_of(m, s, "unpermute") == std::pair{2.5, 12.5});
  s.runtime.allgather_dispatcher = false;
  m.moe->router_bias = true;
  CHECK(launches_of(m, s, "routing") == std::pair{21.5, 17.5});
  s.runtime.fused_router = s.runtime.fused_permute = true;
  CHECK(launches_of(m, s, "routing") == std::pair{7.0, 5.0});
  CHECK(launches_of(m, s, "permute") == std::pair{2.0 + 6, 2.0});
  CHECK(launches_of(m, s, "sort by expert").first == 1);
  CHECK(launches_of(m, s, "unpermute") == std::pair{22.0, 23.0});
  s.runtime.grouped_kernel = true;  // it takes the tokens of each expert from the device
  CHECK(launches_of(m, s, "token counts").first == 5);  // but not those of each rank
  s.ep = 1, s.dp = 8;                                   // nothing is dispatched
  CHECK(launches_of(m, s, "token counts").first == 0);
  CHECK(launches_of(m, s, "unpermute") == std::pair{2.0, 3.0});
}
