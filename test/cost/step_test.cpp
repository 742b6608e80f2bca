#include "cost/step.hpp"

#include <cmath>

#include "cost/chunks.hpp"
#include "cost/memory.hpp"
#include "cost/support.hpp"
#include "frameworks/preset.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

// A deep model with light ends, so that stages are equal.
ModelSpec even_model() {
  ModelSpec m = plain_gpt(32);
  m.vocab_size = 128;
  m.tied_embeddings = false;
  return m;
}

PlanCost cost(const ModelSpec& m, std::int64_t gpus, Strategy s) {
  const ClusterSpec c = plain_cluster(gpus);
  return cost_of(m, c, complete(std::move(s), m, c));
}

Seconds busy(const TimeTerms& t) {
  return t.compute + t.recompute + t.tp_comm_exposed + t.cp_comm_exposed + t.ep_comm_exposed +
         t.other;
}

}  // namespace

TEST_CASE("a chunk costs what its own type of device takes") {
  const ModelSpec m = plain_gpt(4);
  const ClusterSpec c = plain_cluster(2);
  Strategy s = plain_strategy(1, 2, 1);
  s.global_batch = 8;
  s = complete(std::move(s), m, c);
  const BlockCosts one = block_costs(m, c, s);
  BlockCosts both(one.size(), 2);
  for (std::size_t k = 0; k < one.size(); ++k) {
    both.of(k, 0) = both.of(k, 1) = one[k];
    for (PassTime* pass : {&both.of(k, 1).forward, &both.of(k, 1).backward_input})
      *pass = *pass * 2;
    both.of(k, 1).saved.none = one[k].saved.none * 3;
  }
  std::vector<Chunk> chunks = chunk_plan(m, s);
  for (Chunk& chunk : chunks) {
    const ChunkCost first = chunk_cost(chunk, both, Recompute::kNone);
    const Bytes saved = saved_bytes(chunk, saved_rates(both, Recompute::kNone, 0)).whole;
    CHECK(first.time.forward == chunk_cost(chunk, one, Recompute::kNone).time.forward);
    chunk.device = 1;
    const ChunkCost second = chunk_cost(chunk, both, Recompute::kNone);
    CHECK(second.time.forward.si() == Approx(2 * first.time.forward.si()));
    CHECK(second.time.backward_weight == first.time.backward_weight);
    CHECK(saved_bytes(chunk, saved_rates(both, Recompute::kNone, 1)).whole == saved * 3);
  }
}

TEST_CASE("the idle share of 1F1B is (p - 1) / m of ideal time, and v times less interleaved") {
  // Narayanan et al. 2104.04473 sec. 2.2.1 and 2.2.2.
  Strategy s = plain_strategy(1, 8, 1);
  s.global_batch = 32;
  s.runtime.inplace_cross_entropy = true;  // the shortest loss: stages are nearly even
  const TimeTerms plain = cost(even_model(), 8, s).time;
  CHECK(plain.pp_bubble / busy(plain) == Approx(7.0 / 32).epsilon(0.03));
  s.schedule = Schedule::kInterleaved;
  s.vp = 4;
  const TimeTerms interleaved = cost(even_model(), 8, s).time;
  CHECK(interleaved.pp_bubble / busy(interleaved) == Approx(7.0 / 32 / 4).epsilon(0.08));
}

TEST_CASE("terms are non-negative, finite and add up to the step time") {
  ModelSpec m = even_model();
  const auto schedule = GENERATE(Schedule::kGpipe, Schedule::k1f1b, Schedule::kInterleaved,
                                 Schedule::kZbH1, Schedule::kZbV, Schedule::kDualPipe);
  const auto recompute = GENERATE(Recompute::kNone, Recompute::kSelective, Recompute::kFull);
  const auto tp = GENERATE(1, 2);
  Strategy s = plain_strategy(tp, 4, 2);
  s.schedule = schedule;
  s.vp = schedule == Schedule::kInterleaved || schedule == Schedule::kZbV ||
                 schedule == Schedule::kDualPipe
             ? 2
             : 1;
  s.recompute = recompute;
  s.sequence_parallel = tp > 1;
  s.global_batch = 32;
  const PlanCost plan = cost(m, 8 * tp, s);
  const TimeTerms& t = plan.time;
  for (const Seconds term :
       {t.compute, t.recompute, t.tp_comm_exposed, t.cp_comm_exposed, t.ep_comm_exposed,
        t.pp_comm_exposed, t.pp_bubble, t.dp_comm_exposed, t.optimizer, t.uneven, t.other}) {
    CHECK(std::isfinite(term.si()));
    CHECK(term.si() >= 0);
  }
  CHECK(plan.step_time == total(t));
  CHECK(plan.mfu > 0);
  CHECK(plan.mfu < 1);
  CHECK(plan.hfu >= plan.mfu);
}

TEST_CASE("zero-bubble schedules idle less than 1F1B") {
  Strategy s = plain_strategy(1, 8, 1);
  s.global_batch = 32;
  const Seconds plain = cost(even_model(), 8, s).time.pp_bubble;
  s.schedule = Schedule::kZbH1;
  CHECK(cost(even_model(), 8, s).time.pp_bubble < plain * 0.6);
}

TEST_CASE("full recomputation adds one forward pass to every microbatch") {
  Strategy s = plain_strategy(1, 1, 1);
  const TimeTerms none = cost(even_model(), 1, s).time;
  s.recompute = Recompute::kFull;
  const TimeTerms full = cost(even_model(), 1, s).time;
  CHECK(full.compute.si() == Approx(none.compute.si()));
  CHECK(full.recompute / none.compute == Approx(1.0 / 3).margin(0.06));
  s.recompute_layers = {16};
  CHECK(cost(even_model(), 1, s).time.recompute.si() == Approx(full.recompute.si() / 2));
}

TEST_CASE("[F-EMB-2] tied embeddings are reduced between the first and the last pipeline rank") {
  ModelSpec m = plain_gpt(8);
  const auto rows = [&] {
    double n = 0;
    for (const CommEntry& e : cost(m, 8, plain_strategy(2, 4, 1)).communication) {
      if (e.dimension == CommDimension::kEmbedding) n += e.count_per_step;
    }
    return n;
  };
  CHECK(rows() == 1);
  m.tied_embeddings = false;
  CHECK(rows() == 0);
}

TEST_CASE("[F-HOST-1] a tiny model is bound by the host's launch rate") {
  ModelSpec m = plain_gpt(4, 256, 4);
  Strategy s = plain_strategy(1, 1, 1);
  s.seq_len = 128;
  CHECK(cost(m, 1, s).time.other > Seconds{});
  s.runtime.host_factor = 0;
  CHECK(cost(m, 1, s).time.other == Seconds{});
}

TEST_CASE("a plan that does not fit says by how much and what would make it fit") {
  const ModelSpec m = plain_gpt(48, 12288, 96);  // 87 billion parameters
  const ClusterSpec c = plain_cluster(8);
  Strategy s = plain_strategy(8, 1, 0);  // dp is what the cluster leaves
  s.global_batch = 8;
  const Verdict v = evaluate(m, c, s);
  REQUIRE_FALSE(v.feasible());
  CHECK(v.infeasible().reason == InfeasibleReason::kModelStates);
  CHECK(v.infeasible().shortfall == v.stages[0].memory.peak - v.stages[0].memory.capacity);
  REQUIRE_FALSE(v.infeasible().remedies.empty());
}

TEST_CASE("what few devices can do instead is said for programs that can do it") {
  const ModelSpec m = plain_gpt(32, 4096, 32);
  ClusterSpec c = plain_cluster(1);
  c.device.memory = Bytes{20 * kGiB};
  const auto said = [&](Framework framework, std::string_view what) {
    Strategy s = framework_preset(framework);
    s.zero = 0, s.seq_len = 512, s.micro_batch = 1, s.global_batch = 2;
    const Verdict v = evaluate(m, c, s);
    REQUIRE_FALSE(v.feasible());
    const std::vector<std::string>& all = v.infeasible().remedies;
    return std::any_of(all.begin(), all.end(), [&](const std::string& text) {
      return text.find(what) != std::string::npos;
    });
  };
  CHECK(said(Framework::kFsdp,
             "micro_batch=2, master_weights=false, grad_dtype=bf16, optimizer_dtype=fp32, "
             "optimizer=paged_adam8bit, runtime.optimizer_in_backward=true, "
             "kernels.loss_chunks=8"));
  CHECK(said(Framework::kFsdp, "--task lora"));
  CHECK_FALSE(said(Framework::kFsdp, "--task qlora"));  // not needed
  CHECK_FALSE(said(Framework::kMegatron, "--task"));
}

TEST_CASE("an illegal strategy is told every broken rule") {
  const ModelSpec m = plain_gpt();
  const ClusterSpec c = plain_cluster(24);
  Strategy s = plain_strategy(3, 1, 8);  // 32 heads on 3 tensor ranks
  s.global_batch = 7;
  const Verdict v = evaluate(m, c, s);
  REQUIRE_FALSE(v.feasible());
  CHECK(v.infeasible().reason == InfeasibleReason::kIllegal);
  CHECK(v.infeasible().messages.size() >= 2);
}
