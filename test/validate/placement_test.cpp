// Groups that are not evenly spaced, rings over nodes, and a step that waits for the host.
#include <algorithm>

#include "frameworks/target.hpp"
#include "support/catch.hpp"
#include "validate/case.hpp"

using namespace meshplan;
using namespace meshplan::test;

TEST_CASE("groups in runs are measured as planned, and carried over from fewer ranks") {
  Case t(16);
  Strategy s = plain(2, 2, 2);
  s.cp = 2;
  s.order = kPipelineInsideOrder;  // the pipeline lies between context and data parallelism
  t.add(s);
  const auto reduction = [](const PlanCheck& plan) -> const OperationCheck& {
    return *std::find_if(plan.operations.begin(), plan.operations.end(), [](const auto& op) {
      return op.planned.part == "dp" && op.planned.name == "reduce-scatter";
    });
  };
  const Machine whole = fake_machine(16, 8);
  const Validation full = validate(t, whole, SlowMachine(t, whole));
  const OperationCheck& as_planned = reduction(full.plans.front());
  CHECK(as_planned.subset.fidelity == Fidelity::kMeasured);
  const RankGroup planned{.size = 4, .stride = 2, .run = 2, .jump = 8};
  CHECK(std::get<CollectiveOperation>(*as_planned.subset.operation).group == planned);
  CHECK(as_planned.planned.ranks == std::vector<std::int64_t>{0, 2, 8, 10});
  CHECK(full.plans.front().coverage > 0.8);
  // One rank of each run and node is missing: a run of two on each of two nodes needs them all.
  const Machine half = fake_machine(8, 8);
  const Validation less = validate(t, half, SlowMachine(t, half));
  const OperationCheck& kept = reduction(less.plans.front());
  CHECK(kept.subset.fidelity == Fidelity::kPredicted);
  CHECK(kept.subset.reason == "it crosses nodes, and there is one node here");
}

TEST_CASE("a smaller machine runs fewer runs of the same kind") {
  Case t(32);
  Strategy s = plain(2, 2, 4);
  s.cp = 2;
  s.order = kPipelineInsideOrder;
  t.add(s);
  const Machine machine = fake_machine(16, 8);
  const Validation v = validate(t, machine, SlowMachine(t, machine));
  std::size_t runs = 0;
  for (const OperationCheck& op : v.plans.front().operations) {
    if (op.planned.part != "dp" || op.planned.group->size != 8) continue;
    ++runs;
    CHECK(op.subset.fidelity == Fidelity::kExtrapolated);
    CHECK(op.subset.reason == "4 ranks instead of 8 ranks");
    CHECK(std::get<CollectiveOperation>(*op.subset.operation).group ==
          RankGroup{.size = 4, .stride = 2, .run = 2, .jump = 8});
  }
  CHECK(runs > 0);
}

TEST_CASE("a group that zero_group cuts out of an axis is carried over from an even one") {
  Case t(6);
  Strategy s = plain(1, 1, 2);
  s.cp = 3;
  s.zero = 3;
  s.zero_group = 2;
  t.add(s);
  const Machine machine = fake_machine(8, 8);
  const Validation v = validate(t, machine, SlowMachine(t, machine));
  std::size_t cut = 0;
  for (const OperationCheck& op : v.plans.front().operations) {
    if (!op.planned.approximate) continue;
    ++cut;
    CHECK(op.subset.fidelity == Fidelity::kExtrapolated);
    CHECK(op.subset.reason == "evenly spaced ranks instead of those that zero_group cuts out");
  }
  CHECK(cut > 0);
}

TEST_CASE("a ring over two nodes is measured as one, its attention in halves") {
  Case t(16);
  Strategy s = plain(1, 1, 1);
  s.cp = 16;
  s.cp_kind = CpKind::kRing;
  s.seq_len = 32768;
  t.add(s);
  const Machine machine = fake_machine(16, 8);
  SlowMachine slow(t, machine);
  slow.one[Collective::kSendRecv] = 3;
  const Validation v = validate(t, machine, slow);
  std::size_t rings = 0, halves = 0;
  for (const OperationCheck& op : v.plans.front().operations) {
    CAPTURE(op.planned.part, op.planned.name, op.subset.reason);
    if (op.planned.part == "cp") {
      ++rings;
      CHECK(op.subset.fidelity == Fidelity::kMeasured);
      CHECK(op.ratio() == Approx(3));
      CHECK(op.subset.group->blocks[0] == 2);
    }
    if (op.planned.name.find("half") == std::string::npos) continue;
    ++halves;
    CHECK(op.subset.fidelity == Fidelity::kMeasured);
  }
  CHECK(rings == 2);
  CHECK(halves == 4);  // forward and backward
  // Fewer ranks of each node make another ring.
  const Machine four = fake_machine(4, 2);
  const Validation fewer = validate(t, four, SlowMachine(t, four));
  for (const OperationCheck& op : fewer.plans[0].operations) {
    if (op.planned.part == "cp") CHECK(op.subset.fidelity != Fidelity::kMeasured);
  }
}

TEST_CASE("the first and the last stage reduce tied embeddings in groups of their own") {
  Case t(8);
  t.m.tied_embeddings = true;
  t.add(plain(2, 4, 1));
  const Machine machine = fake_machine(8, 8);
  const Validation v = validate(t, machine, SlowMachine(t, machine));
  bool seen = false;
  for (const OperationCheck& op : v.plans.front().operations) {
    if (op.planned.part != "embedding") continue;
    seen = true;
    CHECK(op.subset.fidelity == Fidelity::kMeasured);
    CHECK(std::get<CollectiveOperation>(*op.subset.operation).group ==
          RankGroup{.size = 2, .stride = 6, .period = 8});
    CHECK(op.planned.groups_at_once == 2);
  }
  CHECK(seen);
}

TEST_CASE("[F-VAL-3] what launches hide of slower operations is said") {
  Case t(8);
  Strategy s = plain(2, 1, 4);
  s.runtime.host_factor = 50;  // the host takes far longer than the device
  t.add(s);
  const Machine machine = fake_machine(8, 8);
  SlowMachine slow(t, machine);
  slow.collectives = 4;
  const Validation v = validate(t, machine, slow);
  const PlanCheck& bound = v.plans.front();
  CHECK(std::abs(bound.deviation()) < 0.15);
  CHECK(bound.is_host_bound());
  // Without launches the same measurements add three times what these collectives take.
  Case free = t;
  free.c.device.launch_gap = Seconds{};
  const Validation seen = validate(free, machine, slow);
  const PlanCheck& device = seen.plans.front();
  CHECK(bound.host.si() == Approx((bound.predicted - device.predicted).si()));
  const Seconds slower = device.step_time - device.predicted;
  CHECK(slower > Seconds{});
  CHECK(bound.hidden.si() == Approx((slower - (bound.step_time - bound.predicted)).si()));
  CHECK(device.hidden.si() == Approx(0).margin(1e-12));
  CHECK_FALSE(device.is_host_bound());
}
