// Plans against a machine whose times are known multiples of the predictions.
#include "validate/validate.hpp"

#include "support/catch.hpp"
#include "validate/case.hpp"

using namespace meshplan;
using namespace meshplan::test;

TEST_CASE("a machine that is as fast as predicted changes nothing") {
  Case t(8);
  t.add(plain(2, 1, 4));
  t.add(plain(8, 1, 1));
  t.add(plain(2, 2, 2));
  const Machine machine = fake_machine(8, 8);
  const Validation v = validate(t, machine, SlowMachine(t, machine));
  REQUIRE(v.plans.size() == 3);
  CHECK(v.failures.empty());
  CHECK(v.samples > 20);
  CHECK(v.within_tolerance());
  for (const PlanCheck& plan : v.plans) {
    CHECK(plan.step_time.si() == Approx(plan.predicted.si()));
    CHECK(plan.extrapolated == 0);
    // Embedding, cross entropy, layout changes and what the host takes are not benchmarked.
    CHECK(plan.coverage > 0.7);
    CHECK(plan.coverage < 1);
    CHECK(plan.coverage + plan.unmeasured == Approx(1));
    for (const OperationCheck& op : plan.operations) {
      CAPTURE(op.planned.part, op.planned.name, op.subset.reason);
      CHECK(op.ratio() == Approx(1));
      CHECK(op.measured.has_value() == (op.subset.fidelity != Fidelity::kPredicted));
      CHECK(op.measured.has_value() == op.subset.reason.empty());
      if (is_collective(op)) CHECK(op.subset.fidelity == Fidelity::kMeasured);
    }
  }
}

TEST_CASE("ratios are measured over predicted, and the step grows by what is measured of it") {
  Case t(8);
  Strategy s = plain(2, 1, 4);
  s.sequence_parallel = false;  // its repeated all-gather would hide behind a product
  s.runtime.host_factor = 0;    // slower kernels would hide launches
  t.add(s);
  const Machine machine = fake_machine(8, 8);
  SlowMachine slow(t, machine);
  slow.kernels = 1.5;
  slow.collectives = 3;
  const Validation v = validate(t, machine, slow);
  const PlanCheck& plan = v.plans.front();
  const PlanCost before = t.cost(0);
  double kernels = 0, collectives = 0;  // seconds of the predicted step that were measured
  for (const OperationCheck& op : plan.operations) {
    if (!op.measured) continue;
    CHECK(op.ratio() == Approx(is_collective(op) ? 3 : 1.5));
    const double seconds = (op.planned.predicted * op.planned.count_per_step).si();
    (is_collective(op) ? collectives : kernels) += seconds;
  }
  REQUIRE(kernels > 0);
  REQUIRE(collectives > 0);
  const double wanted = before.step_time.si() + 0.5 * kernels + 2 * collectives;
  CHECK(plan.step_time.si() == Approx(wanted));
  CHECK(plan.deviation() == Approx(wanted / before.step_time.si() - 1));
}

TEST_CASE("large products and attention are measured at the rate that lasts") {
  Case t(8);
  t.add(plain(2, 1, 4));
  const Machine machine = fake_machine(8, 8);
  const SlowMachine slow(t, machine);
  const auto measured = [&](const std::optional<SteadyLimits>& steady,
                            const std::optional<Seconds>& budget) {
    FakeBackend backend(
        machine, [&](const Operation& op) { return slow.time(op); },
        [&](const Operation& op, Seconds) { return slow.time(op).value() * 1.25; });
    ValidateRequest request = t.request;
    request.measure.steady = steady;
    request.budget = budget;
    return validate_plans(t.m, t.c, request, backend);
  };
  const SteadyLimits limits{Seconds{0.5}, Seconds{1}};
  const Validation steady = measured(limits, std::nullopt);
  int lasting = 0;
  for (const OperationCheck& op : steady.plans.front().operations) {
    if (!op.measured) continue;
    const bool large = op.planned.kernel && op.ratio() > 1.1;
    CHECK(op.ratio() == Approx(large ? 1.25 : 1));
    lasting += large ? 1 : 0;
  }
  CHECK(lasting > 4);
  // Not where nobody asked for it, nor where it would not be done in time.
  CHECK(measured(std::nullopt, std::nullopt).plans.front().deviation() == Approx(0).margin(1e-9));
  CHECK(measured(limits, Seconds{0.9}).plans.front().deviation() == Approx(0).margin(1e-9));
}

TEST_CASE("plans are ranked anew by their step times with measurements") {
  Case t(8);
  Strategy data = plain(1, 1, 8), tensor = plain(8, 1, 1);
  data.global_batch = tensor.global_batch = 64;
  tensor.sequence_parallel = false;  // all-reduces only
  t.add(data);
  t.add(tensor);
  REQUIRE(t.cost(0).step_time < t.cost(1).step_time);
  const Machine machine = fake_machine(8, 8);
  SlowMachine slow(t, machine);
  CHECK(validate(t, machine, slow).plans[0].new_rank == 1);
  // One reduce-scatter a step; slow enough, it costs twice the distance of the two plans.
  Seconds scatter;
  for (const PlannedOperation& p : planned_operations(t.m, t.c, t.cost(0))) {
    if (p.part == "dp" && p.name == "reduce-scatter") scatter = p.predicted;
  }
  REQUIRE(scatter > Seconds{});
  const Seconds apart = t.cost(1).step_time - t.cost(0).step_time;
  slow.one[Collective::kReduceScatter] = 1 + 2 * (apart / scatter);
  const Validation v = validate(t, machine, slow);
  CHECK(v.plans[0].step_time.si() == Approx((t.cost(0).step_time + apart * 2).si()));
  CHECK(v.plans[1].step_time.si() == Approx(t.cost(1).step_time.si()));
  CHECK(v.plans[0].rank == 1);
  CHECK(v.plans[0].new_rank == 2);
  CHECK(v.plans[1].new_rank == 1);
}

TEST_CASE("[F-VAL-1] coverage is the measured share of the step outside of the bubble") {
  Case t(8);
  t.add(plain(2, 2, 2));
  // Without an accelerator only communication is measured.
  const Machine machine = cpu_machine(8, 8);
  const Validation v = validate(t, machine, SlowMachine(t, machine));
  const PlanCheck& plan = v.plans.front();
  const TimeTerms time = t.cost(0).time;
  const Seconds step = t.cost(0).step_time;
  const Seconds exposed = time.tp_comm_exposed + time.pp_comm_exposed + time.dp_comm_exposed;
  REQUIRE(time.pp_bubble > Seconds{});
  CHECK(plan.coverage == Approx(exposed / (step - time.pp_bubble)));
  CHECK(plan.unmeasured == Approx(1 - exposed / (step - time.pp_bubble)));
  for (const OperationCheck& op : plan.operations) {
    if (!is_collective(op)) CHECK_FALSE(op.subset.reason.empty());
  }
}

TEST_CASE("the tolerance is of the step time, both ways") {
  Case t(8);
  t.add(plain(2, 1, 4));
  const Machine machine = fake_machine(8, 8);
  SlowMachine slow(t, machine);
  slow.kernels = slow.collectives = GENERATE(0.5, 0.9, 1.1, 1.4);
  const Validation v = validate(t, machine, slow);
  const bool far = slow.kernels < 0.8 || slow.kernels > 1.2;
  CHECK(v.within_tolerance() == !far);
}

TEST_CASE("a group that is too large is measured at the size there is, and carried over") {
  Case t(64);  // eight nodes
  t.add(plain(8, 1, 8));
  const Machine machine = fake_machine(16, 8);  // two of them
  SlowMachine slow(t, machine);
  slow.one[Collective::kReduceScatter] = 2;
  const Validation v = validate(t, machine, slow);
  const PlanCheck& plan = v.plans.front();
  std::size_t carried = 0;
  for (const OperationCheck& op : plan.operations) {
    if (!is_collective(op)) continue;
    CAPTURE(op.planned.part, op.planned.name, op.subset.reason);
    const CollectiveOperation& run = std::get<CollectiveOperation>(*op.subset.operation);
    if (op.planned.part != "dp") {
      CHECK(op.subset.fidelity == Fidelity::kMeasured);
      CHECK(run.group == RankGroup{8, 1, 0, true});
      continue;
    }
    ++carried;
    CHECK(op.subset.fidelity == Fidelity::kExtrapolated);
    CHECK(op.subset.reason == "2 ranks instead of 8 ranks");
    CHECK(run.group == RankGroup{2, 8, 0, true});  // one device of each node, as planned
    const double wanted = run.collective == Collective::kReduceScatter ? 2 : 1;
    CHECK(op.ratio() == Approx(wanted));
    CHECK(op.believed().si() == Approx(wanted * op.planned.predicted.si()));
  }
  CHECK(carried == 2);
  CHECK(plan.extrapolated > 0);
  CHECK(plan.coverage + plan.extrapolated + plan.unmeasured == Approx(1));
}

TEST_CASE("what crosses nodes is not measured inside of one") {
  Case t(16);
  t.add(plain(8, 1, 2));
  const Machine machine = fake_machine(8, 8);
  const Validation v = validate(t, machine, SlowMachine(t, machine));
  for (const OperationCheck& op : v.plans.front().operations) {
    if (op.planned.part == "dp") {
      CHECK(op.subset.fidelity == Fidelity::kPredicted);
      CHECK(op.subset.reason == "it crosses nodes, and there is one node here");
    } else if (op.planned.part == "tp") {
      CHECK(op.subset.fidelity == Fidelity::kMeasured);
    }
  }
}

TEST_CASE("nodes that are cut in another way than the planned ones are not taken for them") {
  Case t(16);
  t.add(plain(8, 1, 2));
  const Machine machine = fake_machine(16, 4);  // planned: eight devices per node
  const Validation v = validate(t, machine, SlowMachine(t, machine));
  for (const OperationCheck& op : v.plans.front().operations) {
    if (op.planned.part != "tp" || !is_collective(op)) continue;
    CHECK(op.subset.fidelity == Fidelity::kExtrapolated);
    CHECK(op.subset.reason == "4 ranks instead of 8 ranks");
  }
}

TEST_CASE("times of ranks that share a device are never taken for bandwidth") {
  Case t(8);
  t.add(plain(8, 1, 1));
  Machine machine = fake_machine(8, 8);
  machine.time_sliced = true;
  const Validation v = validate(t, machine, SlowMachine(t, machine));
  for (const OperationCheck& op : v.plans.front().operations) {
    if (is_collective(op)) CHECK(op.subset.fidelity == Fidelity::kPredicted);
  }
}

TEST_CASE("a lost machine keeps what was measured before, and says what failed") {
  Case t(8);
  t.add(plain(2, 1, 4));
  const Machine machine = fake_machine(8, 8);
  const SlowMachine slow(t, machine);
  FakeBackend* lost = nullptr;
  std::int64_t done = 0;
  FakeBackend backend(machine, [&](const Operation& op) -> Result<Seconds> {
    if (++done < 6) return slow.time(op);
    lost->lose_rank();
    return error("rank 3 on node0 died during " + describe(op));
  });
  lost = &backend;
  const Validation v = validate_plans(t.m, t.c, t.request, backend);
  REQUIRE(v.failures.size() == 1);
  CHECK(v.failures[0].message.find("rank 3 on node0 died during") == 0);
  CHECK(v.samples == 5);
  CHECK(done == 6);
  const PlanCheck& plan = v.plans.front();
  CHECK(plan.coverage > 0);
  CHECK(plan.coverage ==
        Approx(share(plan, [](const auto& op) { return op.measured.has_value(); })));
  std::size_t after = 0;
  for (const OperationCheck& op : plan.operations) {
    if (op.subset.reason == "the machine was lost before it") ++after;
  }
  CHECK(after > 0);
}

TEST_CASE("an operation that the device cannot run is not measured, and nothing failed") {
  Case t(8);
  t.add(plain(2, 1, 4));
  const Machine machine = fake_machine(8, 8);
  const SlowMachine slow(t, machine);
  FakeBackend backend(machine, [&](const Operation& op) -> Result<Seconds> {
    if (!std::holds_alternative<AttentionOperation>(op)) return slow.time(op);
    Diagnostic refused = error("rank 0 on node0 cannot run " + describe(op) + ": no kernel");
    refused.severity = Severity::kWarning;
    return refused;
  });
  const Validation v = validate_plans(t.m, t.c, t.request, backend);
  CHECK(v.failures.empty());
  CHECK(v.samples > 0);
  std::size_t refused = 0;
  for (const OperationCheck& op : v.plans.front().operations) {
    if (op.subset.reason == "it cannot run here: no kernel") ++refused;
  }
  CHECK(refused == 2);  // forward and backward
  CHECK(v.plans.front().unmeasured > 0);
}

TEST_CASE("one operation that fails leaves the others") {
  Case t(8);
  t.add(plain(2, 1, 4));
  const Machine machine = fake_machine(8, 8);
  const SlowMachine slow(t, machine);
  FakeBackend backend(machine, [&](const Operation& op) -> Result<Seconds> {
    const CollectiveOperation* c = collective_of(op);
    if (c != nullptr && c->collective == Collective::kReduceScatter) return error("out of memory");
    return slow.time(op);
  });
  const Validation v = validate_plans(t.m, t.c, t.request, backend);
  CHECK(v.failures.size() == 2);  // of tensor and of data parallelism
  for (const OperationCheck& op : v.plans.front().operations) {
    if (!is_collective(op)) continue;
    CHECK(op.measured.has_value() == (op.planned.name != "reduce-scatter"));
  }
}

TEST_CASE("the busiest operations are measured first, each once for all plans") {
  Case t(8);
  t.add(plain(2, 1, 4));
  t.add(plain(2, 1, 4));
  const Machine machine = fake_machine(8, 8);
  const SlowMachine slow(t, machine);
  std::vector<Operation> order;
  FakeBackend backend(machine, [&](const Operation& op) {
    order.push_back(op);
    return slow.time(op);
  });
  const Validation v = validate_plans(t.m, t.c, t.request, backend);
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) CHECK_FALSE(order[i] == order[j]);
  }
  double most = 0;
  const OperationCheck* busiest = nullptr;
  for (const OperationCheck& op : v.plans.front().operations) {
    if (op.measured && op.share > most) most = op.share, busiest = &op;
  }
  REQUIRE(busiest != nullptr);
  CHECK(order.front() == *busiest->subset.operation);
  t.request.budget = Seconds{0};
  FakeBackend none(machine, [&](const Operation& op) { return slow.time(op); });
  const Validation stopped = validate_plans(t.m, t.c, t.request, none);
  CHECK(stopped.samples <= 1);
  CHECK(stopped.plans[0].unmeasured > 0.5);
}
