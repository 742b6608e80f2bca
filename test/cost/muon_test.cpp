// Muon beside tensor parallelism, experts and owners of whole matrices; optimizers_test.cpp has its
// states and products.
#include "comm/collectives.hpp"
#include "cost/data_parallel.hpp"
#include "cost/step.hpp"
#include "cost/support.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

Strategy with_muon(std::int64_t tp, std::int64_t dp) {
  Strategy s = plain_strategy(tp, 1, dp);
  s.optimizer = Optimizer::kMuon;
  s.zero = 1;
  s.sequence_parallel = tp > 1;
  return s;
}

BlockParameters muon_layer(const ModelSpec& m, const Strategy& s) {
  return block_costs(m, plain_cluster(num_gpus(s)), s)[kFirstLayerBlock].parameters;
}

double flops(double rows, double columns) {
  const double r = std::min(rows, columns), c = std::max(rows, columns);
  return 5 * (4 * r * r * c + 2 * r * r * r);
}

}  // namespace

TEST_CASE("[F-OPT-7] tensor-parallel ranks multiply the whole matrices that they share") {
  const ModelSpec m = plain_gpt();
  const double h = 4096;
  const double whole = flops(h, 3 * h) + flops(h, h) + 2 * flops(h, 4 * h);
  for (const std::int64_t tp : {1, 2, 8}) {
    const BlockParameters p = muon_layer(m, with_muon(tp, 8 / tp));
    CHECK(p.orthogonalisation == Approx(whole));
    CHECK(p.largest_orthogonalisation == Approx(flops(h, 4 * h)));
    CHECK(p.largest_matrix == 4 * 4096 * 4096 / tp);
  }
}

TEST_CASE("[F-OPT-7] what they share of the momentum is gathered first") {
  const ModelSpec m = plain_gpt();
  const ClusterSpec c = plain_cluster(8);
  Strategy s = with_muon(2, 4);
  s.runtime.layer_wise_optimizer = true;
  const StepEndGroups groups = step_end_groups(m, c, s);
  CHECK(groups.tensor.size == 2);
  BlockParameters p = muon_layer(m, s);
  const auto optimizer = [&](const BlockParameters& of) {
    return rank_end(m, c, s, groups, of).optimizer - optimizer_time(c.device, s, of);
  };
  const Bytes gathered{4 * (p.dense / 4) * 2};
  CHECK(optimizer(p).si() ==
        Approx(collective_time(c, Collective::kAllGather, gathered, groups.tensor).total.si()));
  p.embedding = p.dense;  // Adam's
  CHECK(optimizer(p).si() < 1e-4);
  s.runtime.layer_wise_optimizer = false;  // from the ranks that share the states too
  p.embedding = 0;
  const Bytes halves{2 * p.dense};
  CHECK(optimizer(p).si() ==
        Approx(collective_time(c, Collective::kAllGather, gathered, groups.tensor).total.si() +
               collective_time(c, Collective::kAllGather, halves, groups.shard).total.si()));
}

TEST_CASE("[F-OPT-4] experts' products are shared by their own replicas alone") {
  ModelSpec m = plain_gpt();
  m.moe = MoeSpec{16, 2, 1024, 0, 0, 1, 1.0, false};
  Strategy s = with_muon(1, 8);
  s.ep = 8;
  const BlockParameters p = muon_layer(m, s);
  CHECK(p.expert_orthogonalisation == Approx(2 * 2 * flops(4096, 1024)));  // two experts a rank
  CHECK(p.largest_expert == 4096 * 1024);
  BlockParameters without = p;
  without.expert_orthogonalisation = 0;
  const DeviceSpec d = plain_device();
  const auto time = [&] { return (optimizer_time(d, s, p) - optimizer_time(d, s, without)).si(); };
  const double alone = time();
  CHECK(alone == Approx(p.expert_orthogonalisation / (312e12 * 0.8)));
  s.ep = 4;
  CHECK(time() == Approx(alone / 2));
}

TEST_CASE("[F-MEM-18] [F-OPT-4] a matrix of one owner is its whole, however many ranks there are") {
  const ModelSpec m = plain_gpt(2);
  const auto states = [&](std::int64_t dp, bool owners) {
    Strategy s = with_muon(1, dp);
    s.global_batch = dp;
    s.runtime.layer_wise_optimizer = owners;
    const ClusterSpec c = plain_cluster(dp);
    const PlanCost cost = cost_of(m, c, complete(s, m, c));
    return std::pair(cost.memory().optimizer.si(), cost.time.optimizer.si());
  };
  CHECK(states(1, true).first == states(1, false).first);
  CHECK(states(4, true).first == Approx(states(4, false).first).epsilon(1e-6));
  // Fp32 weights and momentum of a matrix of 4 h x h, and a share of the tables'.
  const double matrix = 8.0 * 4 * 4096 * 4096;
  CHECK(states(64, true).first > matrix);
  CHECK(states(64, true).first < 1.3 * matrix);
  CHECK(states(64, false).first < 0.5 * matrix);
  CHECK(states(64, true).second > 0.9 * flops(4096, 4 * 4096) / (312e12 * 0.8));
}

TEST_CASE("[F-OPT-10] every matrix of a rank takes the host its operators") {
  ModelSpec m = plain_gpt();
  m.moe = MoeSpec{16, 2, 1024, 0, 0, 1, 1.0, false};
  ClusterSpec c = plain_cluster(8);
  c.device.launch_gap = Seconds(1);
  Strategy s = with_muon(1, 8);
  s.ep = 4;
  s.runtime.host_factor = 10;  // modules that check their arguments, which Muon's are not
  const StepEndGroups groups = step_end_groups(m, c, s);
  const BlockParameters p = muon_layer(m, s);
  CHECK(p.expert_matrices == 2 * 4);  // four experts a rank
  BlockParameters other = p;
  const auto time = [&] { return rank_end(m, c, s, groups, other).optimizer.si(); };
  const double whole = time();
  other.expert_matrices = 0;
  const double without_experts = time();
  CHECK(whole - without_experts == Approx(2.9 * 26 * p.expert_matrices / 2));
  CHECK(without_experts == Approx(2.9 * 26 * p.matrices / 8));
  s.runtime.host_factor = 0;  // captured in a graph
  other = p;
  CHECK(time() < 1);
}
