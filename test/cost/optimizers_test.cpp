// States and updates of optimizers, and the reference model of preferences.
#include "spec/optimizers.hpp"

#include "cost/block.hpp"
#include "cost/data_parallel.hpp"
#include "cost/memory.hpp"
#include "cost/step.hpp"
#include "frameworks/preset.hpp"
#include "search/cases.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

ModelSpec model() { return small_model(8, 2048); }
ClusterSpec cluster(std::int64_t gib = 80) { return small_cluster(1, 8, Bytes{gib * kGiB}); }

Strategy strategy(Optimizer o = Optimizer::kAdam) {
  Strategy s = framework_preset(Framework::kFsdp);
  s.dp = 8, s.global_batch = 64, s.seq_len = 2048, s.zero = 0, s.optimizer = o;
  s.micro_batch = 2;
  return s;
}

PlanCost cost(const Strategy& s, std::int64_t gib = 80) {
  const ClusterSpec c = cluster(gib);
  return cost_of(model(), c, complete(s, model(), c));
}

}  // namespace

TEST_CASE("[F-OPT-3] bytes of states per parameter") {
  const auto each = [](Optimizer o) { return optimizer_states(strategy(o), 4096).each; };
  CHECK(each(Optimizer::kAdam) == 8);
  CHECK(each(Optimizer::kPagedAdam) == 8);
  CHECK(each(Optimizer::kAdam8bit) == 2.03125);
  CHECK(each(Optimizer::kPagedAdam8bit) == 2.03125);
  CHECK(each(Optimizer::kSgd) == 4);
  CHECK(each(Optimizer::kMuon) == 4);
  CHECK(each(Optimizer::kAdafactor) < 0.01);
  // The embedding's table stays in 32 bits; Muon leaves tables to Adam.
  CHECK(optimizer_states(strategy(Optimizer::kAdam8bit), 4096).embedding == 8 - 2.03125);
  CHECK(optimizer_states(strategy(Optimizer::kMuon), 4096).head == 4);
}

TEST_CASE("[F-OPT-3] a plan's states are those of its parameters") {
  const PlanCost adam = cost(strategy());
  const auto saved = [&](Optimizer o) {
    return (adam.memory().optimizer - cost(strategy(o)).memory().optimizer).si();
  };
  const auto trained = static_cast<double>(adam.stages.front().trained_parameters);
  const double table = static_cast<double>(padded_vocab(model(), strategy()) * 2048);
  const double layers = trained - table;
  CHECK(saved(Optimizer::kAdam8bit) == Approx((8 - 2.03125) * layers).epsilon(1e-6));
  CHECK(saved(Optimizer::kMuon) ==
        Approx(4 * (layers - (model().tied_embeddings ? 0 : table))).epsilon(1e-3));
  CHECK(saved(Optimizer::kSgd) == Approx(4 * trained).epsilon(1e-6));
  Strategy sharded = strategy(Optimizer::kAdam8bit), whole = sharded;
  sharded.zero = 2;
  CHECK(cost(sharded).memory().optimizer.si() ==
        Approx(cost(whole).memory().optimizer.si() / 8).epsilon(1e-3));
}

TEST_CASE("[F-OPT-6] paged states leave the device only where there is no room") {
  const PlanCost adam = cost(strategy()), paged = cost(strategy(Optimizer::kPagedAdam));
  const Bytes states = adam.memory().optimizer - paged.memory().optimizer;
  CHECK(states > Bytes{});
  // With room for all of them nothing moves.
  CHECK(paged.time.other.si() == Approx(adam.time.other.si()));
  const DeviceSpec d = cluster().device;
  CHECK(page_time(d, Bytes{kGiB}, d.memory - Bytes{2 * kGiB}) == Seconds{});
  CHECK(page_time(d, Bytes{3 * kGiB}, d.memory - Bytes{2 * kGiB}).si() ==
        Approx(2.0 * kGiB / d.host_link.si()));
  CHECK(page_time(d, Bytes{kGiB}, d.memory).si() == Approx(2.0 * kGiB / d.host_link.si()));
  // A device that holds all but the states: they come and go once a step.
  ClusterSpec small = cluster();
  small.device.memory = paged.memory().peak;
  const Verdict v = evaluate(model(), small, strategy(Optimizer::kPagedAdam));
  REQUIRE(v.feasible());
  CHECK((v.cost().time.other - adam.time.other).si() ==
        Approx(2 * states.si() / small.device.host_link.si()).epsilon(1e-6));
  CHECK_FALSE(evaluate(model(), small, strategy()).feasible());
}

TEST_CASE("[F-OPT-4] Muon's products by hand") {
  // A projection of 2,048 x 2,048 takes 5 (4 + 2) 2,048^3 operations.
  const BlockCosts blocks = block_costs(model(), cluster(), strategy(Optimizer::kMuon));
  const double h = 2048, r = h;
  const auto flops = [](double a, double b) { return 5 * (4 * a * a * b + 2 * a * a * a); };
  // Queries, keys and values of 8 and 4 heads of 256; output; a gated or plain MLP of 8,192.
  double wanted = flops(r, h + 2 * 1024) + flops(h, h);
  wanted += model().gated_mlp ? flops(h, 2 * 8192) + flops(h, 8192) : 2 * flops(h, 8192);
  Strategy s = strategy(Optimizer::kMuon);
  s.runtime.split_projections = false;
  CHECK(block_costs(model(), cluster(), s)[kFirstLayerBlock].parameters.orthogonalisation ==
        Approx(wanted));
  // Each matrix by itself where the framework has them so: a key's is smaller than a square.
  s = strategy(Optimizer::kMuon);
  wanted =
      flops(r, h) + 2 * flops(1024, h) + flops(h, h) + (model().gated_mlp ? 3 : 2) * flops(h, 8192);
  CHECK(blocks[kFirstLayerBlock].parameters.orthogonalisation == Approx(wanted));
  const BlockParameters p = blocks[kFirstLayerBlock].parameters;
  const DeviceSpec d = cluster().device;
  BlockParameters none = p;
  none.orthogonalisation = 0;
  CHECK((optimizer_time(d, s, p) - optimizer_time(d, s, none)).si() ==
        Approx(wanted / (300e12 * 0.8)));
}

TEST_CASE("[F-OPT-5] sharded momenta are gathered for Muon") {
  Strategy s = strategy(Optimizer::kMuon);
  s.zero = 1;
  const PlanCost muon = cost(s);
  s.optimizer = Optimizer::kSgd;
  const PlanCost sgd = cost(s);
  CHECK(muon.time.optimizer > sgd.time.optimizer);
  Strategy alone = strategy(Optimizer::kMuon);
  // Shards share the products: all of them take longer than an eighth and its gather.
  CHECK(muon.time.optimizer < cost(alone).time.optimizer);
}

TEST_CASE("[F-DPO-1] a reference model adds a forward pass, without a backward pass") {
  const PlanCost lm = cost(strategy());
  Strategy s = strategy();
  s.loss = Loss::kDpo;
  const PlanCost dpo = cost(s);
  CHECK((dpo.stages.front().forward / lm.stages.front().forward) == Approx(2).epsilon(1e-9));
  CHECK(dpo.stages.front().backward == lm.stages.front().backward);
  CHECK(dpo.memory().activations == lm.memory().activations);
  CHECK(dpo.model_flops.si() == Approx(lm.model_flops.si() * 4 / 3));
  // Recomputation repeats the trained model's pass alone.
  Strategy full = s, plain = strategy();
  full.recompute = plain.recompute = Recompute::kFull;
  CHECK(cost(full).time.recompute.si() == Approx(cost(plain).time.recompute.si()));
  // Gathered weights are gathered for both.
  full.zero = plain.zero = 3;
  const auto gathers = [](const PlanCost& plan) {
    double n = 0;
    for (const CommEntry& e : plan.communication) {
      if (e.operation == Collective::kAllGather) n += e.count_per_step;
    }
    return n;
  };
  CHECK(gathers(cost(full)) > gathers(cost(plain)));
}

TEST_CASE(
    "[F-DPO-2] the reference model's weights are held, beside frozen weights there is one copy") {
  Strategy s = strategy();
  const Bytes own = cost(s).memory().weights;
  s.loss = Loss::kDpo;
  CHECK(cost(s).memory().weights == own * 2);
  CHECK(cost(s).memory().optimizer == cost(strategy()).memory().optimizer);
  s.lora.rank = 16;
  const Bytes adapted = cost(s).memory().weights;
  s.loss = Loss::kLm;
  CHECK(adapted == cost(s).memory().weights);
}

TEST_CASE("optimizers and losses that do not go with what is stated are refused") {
  const ClusterSpec c = cluster();
  const auto refused = [&](const auto& change) {
    Strategy s = strategy();
    change(s);
    return !evaluate(model(), c, s).feasible();
  };
  CHECK_FALSE(refused([](Strategy&) {}));
  CHECK(refused([](Strategy& s) { s.loss = Loss::kDpo, s.micro_batch = 1; }));
  CHECK(refused(
      [](Strategy& s) { s.optimizer = Optimizer::kAdam8bit, s.optimizer_dtype = Dtype::kBf16; }));
  CHECK(refused([](Strategy& s) {
    s.optimizer = Optimizer::kPagedAdam, s.zero = 1, s.offload.optimizer = true;
  }));
}

TEST_CASE("[F-MEM-16] an Adam of a kernel per operation copies one moment") {
  // A batch so small that the update is the step's fullest moment.
  Strategy fused = strategy(), foreach = strategy();
  fused.micro_batch = foreach.micro_batch = 1;
  fused.seq_len = foreach.seq_len = 128;
  foreach
    .runtime.fused_optimizer = false;
  const PlanCost before = cost(fused), after = cost(foreach);
  const auto trained = static_cast<double>(before.stages.front().trained_parameters);
  const auto updating = [](const PlanCost& plan) {
    for (const MomentBytes& m : plan.stages.front().ledger.moments) {
      if (m.moment == Moment::kUpdate) return m.allocated.si();
    }
    return 0.0;
  };
  CHECK(updating(after) - updating(before) == Approx(4 * trained).epsilon(1e-6));
  CHECK(after.memory().persistent == before.memory().persistent);
  foreach
    .optimizer = Optimizer::kAdam8bit;
  Strategy eight = strategy(Optimizer::kAdam8bit);
  eight.micro_batch = 1, eight.seq_len = 128;
  CHECK(updating(cost(foreach)) == updating(cost(eight)));
}
