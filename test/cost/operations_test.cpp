// The lists of a step's operations are what its predicted time is the sum of, and measured times
// take the place of formulas everywhere.
#include "cost/operations.hpp"

#include "comm/collectives.hpp"
#include "cost/llama.hpp"
#include "cost/step.hpp"
#include "support/catch.hpp"
#include "support/presets.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

ModelSpec experts_model() {
  ModelSpec m = llama_like(8);
  m.moe = MoeSpec{8, 2, 4096, 0, 1, 2, 1.0, false};
  return m;
}

Seconds sum(const std::vector<KernelCall>& calls) {
  Seconds total;
  for (const KernelCall& call : calls) total += call.per_step;
  return total;
}

Seconds exposed(const PlanCost& plan) {
  Seconds total;
  for (const CommEntry& e : plan.communication) total += e.exposed;
  return total;
}

}  // namespace

TEST_CASE("kernels and exposed collectives of a step add up to its terms, for every kind of plan") {
  struct Row {
    const char* what;
    bool experts;
    Strategy s;
  };
  Strategy full = modern_strategy(2, 4, 2), selective = modern_strategy(2, 2, 4),
           layers = modern_strategy(1, 4, 4);
  full.recompute = Recompute::kFull;
  selective.recompute = Recompute::kSelective;
  layers.recompute_layers = {2, 1, 0, 0};
  Strategy interleaved = modern_strategy(2, 4, 2), dual = modern_strategy(2, 4, 2),
           sharded = modern_strategy(2, 1, 8), hybrid = modern_strategy(1, 1, 16),
           context = modern_strategy(2, 2, 2), expert = modern_strategy(2, 1, 8),
           eager = modern_strategy(2, 2, 4), offloaded = modern_strategy(1, 1, 16);
  interleaved.schedule = Schedule::kInterleaved;
  interleaved.vp = 2;
  dual.schedule = Schedule::kDualPipe;
  dual.vp = 2;
  sharded.zero = 3;
  hybrid.zero = 3;
  hybrid.zero_group = 8;
  context.cp = 2;
  context.etp = 1;
  expert.ep = 8;
  eager.flash_attention = false;
  eager.runtime = shipped_strategy("nanotron").runtime;
  offloaded.offload.optimizer = true;
  const auto row = GENERATE_COPY(values<Row>({{"full recomputation", false, full},
                                              {"selective recomputation", false, selective},
                                              {"some layers recomputed", false, layers},
                                              {"interleaved", false, interleaved},
                                              {"dualpipe", false, dual},
                                              {"zero 3", false, sharded},
                                              {"zero 3 in groups", false, hybrid},
                                              {"context parallel", false, context},
                                              {"experts", true, expert},
                                              {"eager", false, eager},
                                              {"offloaded optimizer", false, offloaded}}));
  CAPTURE(row.what);
  const ModelSpec m = row.experts ? experts_model() : plain_gpt();
  ClusterSpec c = plain_cluster(16);
  c.device.variability = 0.05;
  const Strategy s = complete(row.s, m, c);
  const PlanCost plan = cost_of(m, c, s);
  const TimeTerms& t = plan.time;
  const std::vector<KernelCall> calls =
      step_kernels(m, c, s, static_cast<std::int64_t>(plan.last_stage));
  // The optimizer term is that of the slowest pipeline rank, the list's that of the last to finish.
  const Seconds optimizer =
      calls.back().op.name == "optimizer step" ? calls.back().op.time : Seconds{};
  CHECK(optimizer <= t.optimizer);
  CHECK((sum(calls) - optimizer).si() == Approx((t.compute + t.recompute).si()));
  const Seconds communication = t.tp_comm_exposed + t.cp_comm_exposed + t.ep_comm_exposed +
                                t.pp_comm_exposed + t.dp_comm_exposed;
  CHECK(exposed(plan).si() == Approx(communication.si()));
}

TEST_CASE("full recomputation repeats the collectives of the forward pass") {
  const ModelSpec m = plain_gpt(8);
  const ClusterSpec c = plain_cluster(2);
  Strategy s = modern_strategy(2, 1, 1);
  s.global_batch = 4;
  const auto gathers = [&] {
    double n = 0;
    for (const CommEntry& e : cost_of(m, c, complete(s, m, c)).communication) {
      if (e.dimension == CommDimension::kTp && e.operation == Collective::kAllGather &&
          e.group_size == 2) {
        n += e.count_per_step;
      }
    }
    return n;
  };
  const double once = gathers();
  s.recompute = Recompute::kFull;
  // Two of a layer's all-gathers are of its forward pass: 4 microbatches x 8 layers x 2.
  CHECK(gathers() == once + 64);
}

TEST_CASE("[F-PP-SEND-2] messages are read off the curve of their direction") {
  const ModelSpec m = plain_gpt();
  ClusterSpec c = plain_cluster(16);
  Strategy s = complete(modern_strategy(2, 2, 4), m, c);
  const auto send = [&] {
    for (const CommEntry& e : cost_of(m, c, s).communication) {
      if (e.dimension == CommDimension::kPp) return e;
    }
    return CommEntry{};
  };
  const std::string& level = c.levels[group_shape(s, c, Group::kPpNeighbour).level].name;
  const auto curve = [&](double seconds, bool both) {
    CollectiveFit fit{Collective::kSendRecv, level, 2, 2, {{Bytes{1}, Seconds{seconds}}}};
    fit.points.emplace_back(Bytes{std::int64_t{1} << 40}, Seconds{seconds});
    fit.bidirectional = both;
    return fit;
  };
  c.collectives = {curve(0.25, false)};
  CHECK(send().time_each == Seconds{0.25});
  c.collectives.push_back(curve(0.5, true));
  CHECK(send().time_each == Seconds{0.5});  // 1F1B: gradients come back meanwhile
  s.schedule = Schedule::kGpipe;
  CHECK(send().time_each == Seconds{0.25});
  CHECK_FALSE(send().bidirectional);
}

TEST_CASE("every collective names the group it joins and the type it moves") {
  const ModelSpec m = plain_gpt();
  const ClusterSpec c = plain_cluster(16);
  const Strategy s = complete(modern_strategy(2, 2, 4), m, c);
  const PlanCost plan = cost_of(m, c, s);
  REQUIRE(plan.communication.size() >= 6);
  for (const CommEntry& e : plan.communication) {
    CAPTURE(name_of(e.dimension), name_of(e.operation), e.bytes.count());
    const GroupShape g = group_shape(s, c, e.group);
    CHECK(g.size == e.group_size);
    CHECK(g.level == e.level);
    CHECK(collective_time(c, e.operation, e.bytes, g, e.bidirectional).total == e.time_each);
    CHECK(e.bidirectional == (e.operation == Collective::kSendRecv));
    const bool fp32 = e.dimension == CommDimension::kLoss ||
                      e.dimension == CommDimension::kEmbedding ||
                      (e.dimension == CommDimension::kDp && e.operation != Collective::kAllGather);
    CHECK(e.dtype == (fp32 ? Dtype::kFp32 : Dtype::kBf16));
  }
}

TEST_CASE("a measured kernel stands in place of its formula, in every pass that runs it") {
  const ModelSpec m = experts_model();
  ClusterSpec c = plain_cluster(2);
  const Strategy s = complete(modern_strategy(2, 1, 1), m, c);
  const PlanCost before = cost_of(m, c, s);
  const std::vector<KernelCall> calls = step_kernels(m, c, s, 0);
  Seconds added;
  std::size_t measurable = 0;
  for (const KernelCall& call : calls) {
    const auto key = exact_key(call.op);
    if (!key || c.device.exact_kernels.contains(*key)) continue;
    // Every call of the shape takes twice as long: attention's time is of all its calls.
    c.device.exact_kernels[*key] = call.op.time * (2 / call.op.calls);
    ++measurable;
  }
  CHECK(measurable > 15);
  for (const KernelCall& call : calls) {
    if (exact_key(call.op)) added += call.per_step;
  }
  const PlanCost after = cost_of(m, c, s);
  CHECK((after.time.compute + after.time.optimizer).si() ==
        Approx((before.time.compute + before.time.optimizer + added).si()));
}

TEST_CASE("a measured collective stands in place of its formula for its group alone") {
  const ModelSpec m = plain_gpt();
  ClusterSpec c = plain_cluster(16);
  Strategy s = modern_strategy(2, 1, 8);
  s.overlap = {};
  s.overlap.tp_backward = false;
  s = complete(s, m, c);
  const PlanCost before = cost_of(m, c, s);
  for (const CommEntry& e : before.communication) {
    if (e.dimension != CommDimension::kDp) continue;
    c.exact_collectives[exact_key(e.operation, e.bytes, group_shape(s, c, e.group),
                                  e.bidirectional)] = e.time_each * 3;
  }
  const PlanCost after = cost_of(m, c, s);
  CHECK(after.time.dp_comm_exposed.si() == Approx(3 * before.time.dp_comm_exposed.si()));
  CHECK(after.time.tp_comm_exposed == before.time.tp_comm_exposed);
}
