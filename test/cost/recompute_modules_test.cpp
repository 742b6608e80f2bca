// What each module of selective recomputation drops and repeats.
#include "cost/block.hpp"
#include "cost/memory.hpp"
#include "cost/step.hpp"
#include "cost/support.hpp"
#include "frameworks/preset.hpp"
#include "model/kinds.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;
using enum RecomputeModule;

namespace {

constexpr std::int64_t kTokens = 2048, kHidden = 1024, kHeads = 8, kFfn = 4096;
constexpr std::int64_t kExperts = 8, kTopK = 2, kExpertFfn = 512, kShared = 256;

ModelSpec dense() {
  ModelSpec m = plain_gpt(2, kHidden, kHeads);
  m.linear_bias = m.tied_embeddings = false;
  m.dropout = 0;
  m.norm = Norm::kRmsNorm;
  m.gated_mlp = true, m.activation = Activation::kSilu;
  return m;
}

ModelSpec experts() {
  ModelSpec m = dense();
  m.moe = MoeSpec{.num_experts = kExperts,
                  .top_k = kTopK,
                  .expert_ffn_hidden_size = kExpertFfn,
                  .shared_expert_ffn_hidden_size = kShared};
  return m;
}

ModelSpec latent() {
  ModelSpec m = experts();
  m.attention = AttentionKind::kMla;
  m.mla = MlaSpec{.q_lora_rank = 256,
                  .kv_lora_rank = 128,
                  .qk_nope_head_dim = 64,
                  .qk_rope_head_dim = 32,
                  .v_head_dim = 64};
  return m;
}

// bf16 and fused attention.
Strategy strategy() {
  Strategy s = framework_preset(Framework::kMegatron);
  s.tp = s.pp = s.dp = s.etp = 1;
  s.micro_batch = 1, s.global_batch = 4, s.seq_len = kTokens;
  s.recompute = Recompute::kSelective;
  return s;
}

struct Costs {
  BlockCost layer;
  std::int64_t dropped = 0;  // bytes
};

Costs costs(const ModelSpec& m, Strategy s, RecomputeModules modules) {
  s.recompute_modules = modules;
  const ClusterSpec c = plain_cluster(num_gpus(s));
  Costs result{block_costs(m, c, s)[kFirstLayerBlock], 0};
  result.dropped = (result.layer.saved.none - result.layer.saved.selective).count();
  return result;
}

std::vector<RecomputeModules> all_lists() {
  std::vector<RecomputeModules> all;
  constexpr auto& rows = NameTable<RecomputeModule>::rows;
  for (std::uint32_t bits = 0; bits < (1U << rows.size()); ++bits) {
    RecomputeModules modules;
    for (const auto& row : rows) {
      if ((bits >> static_cast<unsigned>(row.value) & 1U) != 0) modules.add(row.value);
    }
    all.push_back(modules);
  }
  return all;
}

}  // namespace

TEST_CASE("[F-REC-2] a dense MLP's module drops all between its norm's input and its output") {
  const Costs mlp = costs(dense(), strategy(), {kMlp});
  // Both gated halves and their product, and the norm's output, of two bytes.
  CHECK(mlp.dropped == kTokens * 2 * (3 * kFfn + kHidden));
  CHECK(mlp.layer.repeated_set.count() == mlp.dropped);
  // All of its products again, and nothing of attention's.
  const double flops = 2.0 * kTokens * kHidden * kFfn * 3;
  CHECK(mlp.layer.recompute_selective_flops.si() == Approx(flops));

  // Where the norm is a module of its own, its output is the MLP's input, and stays.
  Strategy apart = strategy();
  apart.runtime.transformer_engine = false;
  CHECK(costs(dense(), apart, {kMlp}).dropped == kTokens * 2 * 3 * kFfn);
  CHECK(costs(dense(), apart, {kMlp, kLayernorm}).dropped ==
        kTokens * 2 * (3 * kFfn + 2 * kHidden));
  CHECK(costs(dense(), apart, {kLayernorm}).dropped == kTokens * 2 * 2 * kHidden);
  // Inside of Transformer Engine's layers no list names it.
  CHECK(costs(dense(), strategy(), {kLayernorm}).dropped == 0);
  CHECK(costs(dense(), strategy(), {kLayernorm}).layer.recompute_selective.total() == Seconds{});
}

TEST_CASE("[F-REC-2] attention's core keeps its inputs and output: scores are all that it drops") {
  // The logarithm of each row's sum, in fp32.
  const Costs fused = costs(dense(), strategy(), {kCoreAttn});
  CHECK(fused.dropped == kTokens * kHeads * 4);
  CHECK(fused.layer.recompute_selective.compute > Seconds{});
  Strategy s = strategy();
  s.flash_attention = false;
  const Costs unfused = costs(dense(), s, {kCoreAttn});
  CHECK(unfused.dropped >= kTokens * kTokens * kHeads * 2);
  // As when nothing is listed.
  const Costs unlisted = costs(dense(), s, {});
  CHECK(unfused.dropped == unlisted.dropped);
  CHECK(unfused.layer.recompute_selective.compute.si() ==
        Approx(unlisted.layer.recompute_selective.compute.si()));
  CHECK(costs(dense(), s, {kMlp}).dropped == kTokens * 2 * (3 * kFfn + kHidden));
}

TEST_CASE("[F-REC-2] a mixture's modules are its activation, its shared experts, and all of it") {
  const Costs act = costs(experts(), strategy(), {kMoeAct});
  CHECK(act.dropped == kTokens * kTopK * kExpertFfn * 2);  // the product of the gated halves
  CHECK(act.layer.recompute_selective_flops.si() == 0);
  const Costs shared = costs(experts(), strategy(), {kSharedExperts});
  CHECK(shared.dropped == kTokens * 3 * kShared * 2);
  CHECK(shared.layer.recompute_selective_flops.si() ==
        Approx(2.0 * kTokens * kHidden * kShared * 3));
  const Costs both = costs(experts(), strategy(), {kMoeAct, kSharedExperts});
  CHECK(both.dropped == act.dropped + shared.dropped);
  CHECK(both.layer.repeated_set.count() == std::max(act.dropped, shared.dropped));
  // The norm's output is the whole mixture's input.
  const Costs all = costs(experts(), strategy(), {kMoe});
  const std::int64_t routed = kTokens * kTopK * (kHidden + 3 * kExpertFfn) * 2;
  CHECK(all.dropped == routed + kTokens * kExperts * 8 + shared.dropped);
  CHECK(costs(experts(), strategy(), {kMoe, kLayernorm}).dropped ==
        all.dropped + kTokens * kHidden * 2);
  CHECK(costs(experts(), strategy(), {kMoe, kMoeAct, kSharedExperts}).dropped == all.dropped);
}

TEST_CASE("[F-REC-2] all of a mixture again sends its tokens again") {
  Strategy s = strategy();
  s.ep = s.dp = 8;
  s.global_batch = 32;
  const Costs all = costs(experts(), s, {kMoe}), act = costs(experts(), s, {kMoeAct});
  CHECK(act.layer.recompute_selective.ep == Seconds{});
  CHECK(all.layer.recompute_selective.ep.si() == Approx(all.layer.forward.ep.si()));
  const auto dispatches = [&](RecomputeModules modules) {
    s.recompute_modules = modules;
    const ModelSpec m = experts();
    const ClusterSpec c = plain_cluster(8);
    double count = 0;
    for (const CommEntry& e : cost_of(m, c, complete(s, m, c)).communication) {
      if (e.dimension == CommDimension::kEp) count += e.count_per_step;
    }
    return count;
  };
  CHECK(dispatches({kMoe}) == Approx(1.5 * dispatches({kMoeAct})));
}

TEST_CASE("[F-REC-2] latent attention's up-projections, and the norm before it") {
  const Costs up = costs(latent(), strategy(), {kMlaUpProj});
  CHECK(up.dropped == kTokens * kHeads * (2 * (64 + 32) + 64) * 2);
  CHECK(up.layer.recompute_selective_flops.si() ==
        Approx(2.0 * kTokens * kHeads * (256.0 * (64 + 32) + 128.0 * (64 + 64))));
  // Of attention and of the experts.
  CHECK(costs(latent(), strategy(), {kLayernorm}).dropped == 2 * kTokens * kHidden * 2);
}

TEST_CASE("[F-REC-2] a longer list saves no more and repeats no less") {
  const ModelSpec m = latent();
  for (const RecomputeModules& list : all_lists()) {
    if (list.empty()) continue;
    const Costs some = costs(m, strategy(), list);
    // A layer's input is always kept.
    CHECK(some.layer.saved.selective >= some.layer.saved.full);
    CHECK(some.layer.repeated_set.count() <= some.dropped);
    CHECK(some.layer.recompute_selective.compute <= some.layer.forward.compute * (1 + 1e-9));
    for (const auto& row : NameTable<RecomputeModule>::rows) {
      RecomputeModules longer = list;
      longer.add(row.value);
      const Costs more = costs(m, strategy(), longer);
      CAPTURE(key_text(list), row.name);
      CHECK(more.dropped >= some.dropped);
      CHECK(more.layer.recompute_selective.compute.si() >=
            some.layer.recompute_selective.compute.si() * (1 - 1e-12));
    }
  }
}

TEST_CASE("[F-REC-1] each checkpoint costs the host, beside the kernels that are issued again") {
  Strategy s = strategy();
  s.seq_len = 16;  // waits for the host
  const Costs none = costs(latent(), s, {});
  const auto launch = [&](RecomputeModules modules) {
    return costs(latent(), s, modules).layer.recompute_selective.launch.si();
  };
  CHECK(none.layer.recompute_selective.launch == Seconds{});
  CHECK(launch({kMoeAct}) > 0);
  // Two norms are two checkpoints of a kernel each, the experts' activation one.
  CHECK(launch({kLayernorm}) > 1.5 * launch({kMoeAct}));
  s.runtime.host_factor = 0;  // CUDA graphs
  CHECK(launch({kLayernorm}) == 0);
}

TEST_CASE("[F-REC-2] what is not saved is not in the ledger, and takes time") {
  const ModelSpec m = dense();
  const ClusterSpec c = plain_cluster(1);
  Strategy s = strategy();
  s.recompute = Recompute::kNone;
  const PlanCost none = cost_of(m, c, complete(s, m, c));
  s.recompute = Recompute::kSelective, s.recompute_modules = {kMlp};
  const PlanCost mlp = cost_of(m, c, complete(s, m, c));
  CHECK((none.memory().activations - mlp.memory().activations).count() ==
        m.num_layers * kTokens * 2 * (3 * kFfn + kHidden));
  CHECK(mlp.step_time > none.step_time);
  CHECK(mlp.time.recompute > Seconds{});
  CHECK(mlp.hfu / mlp.mfu > none.hfu / none.mfu);
}

TEST_CASE("[F-OFF-1] a part of the optimizer on the host is that part of memory and of time") {
  const ModelSpec m = dense();
  const ClusterSpec c = plain_cluster(1);
  Strategy s = strategy();
  s.recompute = Recompute::kNone;
  const auto cost = [&](bool offload, double fraction) {
    s.offload.optimizer = offload, s.offload.optimizer_fraction = fraction;
    return cost_of(m, c, complete(s, m, c));
  };
  const PlanCost device = cost(false, 1), quarter = cost(true, 0.25), host = cost(true, 1);
  const double all = device.memory().optimizer.si();
  CHECK(host.memory().optimizer == Bytes{});
  CHECK(quarter.memory().optimizer.si() == Approx(0.75 * all));
  const auto part = [](double fraction, Seconds without, Seconds with) {
    return (without + (with - without) * fraction).si();
  };
  CHECK(quarter.time.optimizer.si() == Approx(0.75 * device.time.optimizer.si()));
  CHECK(quarter.step_time.si() == Approx(part(0.25, device.step_time, host.step_time)));
  const auto hosted = [&](const PlanCost& plan) {
    RankMemory rank;
    rank.states.optimizer = Bytes{1'000'000};
    return host_bytes(rank, plan.strategy.offload).count();
  };
  CHECK(hosted(device) == 0);
  CHECK(hosted(quarter) == 250'000);
  CHECK(hosted(host) == 1'000'000);
}
