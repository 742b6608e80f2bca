// What of a layer's saved activations goes to the host, module by module.
#include "cost/block.hpp"
#include "cost/memory.hpp"
#include "cost/step.hpp"
#include "cost/support.hpp"
#include "frameworks/preset.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;
using enum OffloadModule;

namespace {

constexpr std::int64_t kTokens = 2048, kHidden = 1024, kHeads = 8;
constexpr std::int64_t kExperts = 8, kTopK = 2, kExpertFfn = 512;

ModelSpec model_of_experts(bool latent) {
  ModelSpec m = plain_gpt(4, kHidden, kHeads);
  m.linear_bias = m.tied_embeddings = false;
  m.dropout = 0;
  m.norm = Norm::kRmsNorm;
  m.gated_mlp = true, m.activation = Activation::kSilu;
  m.moe = MoeSpec{.num_experts = kExperts, .top_k = kTopK, .expert_ffn_hidden_size = kExpertFfn};
  if (!latent) return m;
  m.attention = AttentionKind::kMla;
  m.mla = MlaSpec{.q_lora_rank = 256,
                  .kv_lora_rank = 128,
                  .qk_nope_head_dim = 64,
                  .qk_rope_head_dim = 32,
                  .v_head_dim = 64};
  return m;
}

Strategy offloading(OffloadModules modules) {
  Strategy s = framework_preset(Framework::kMegatron);
  s.tp = s.pp = s.dp = s.etp = 1;
  s.micro_batch = 1, s.global_batch = 4, s.seq_len = kTokens;
  s.offload.modules = modules;
  return s;
}

ClusterSpec with_link(double rate) {
  ClusterSpec c = plain_cluster(1);
  c.device.host_link = BytesPerSecond{rate};
  return c;
}

BlockCost layer_of(const ModelSpec& m, const Strategy& s, double link = 1e15) {
  const ClusterSpec c = with_link(link);
  return block_costs(m, c, complete(s, m, c))[kFirstLayerBlock];
}

}  // namespace

TEST_CASE("[F-OFF-5] each module's inputs leave the device") {
  const bool latent = GENERATE(false, true);
  const ModelSpec m = model_of_experts(latent);
  const BlockCost plain = layer_of(m, offloading({}));
  const std::int64_t hidden = kTokens * kHidden * 2, routed = kTokens * kTopK;
  const auto moved = [&](OffloadModules modules) {
    const BlockCost cost = layer_of(m, offloading(modules));
    CHECK(plain.saved.none - cost.saved.none == cost.offloaded);
    Strategy margin = offloading(modules);
    CHECK(margin.runtime.offload_margin);
    CHECK(cost.working_set - plain.working_set == 3 * cost.offloaded);
    margin.runtime.offload_margin = false;
    CHECK(layer_of(m, margin).working_set - plain.working_set == 2 * cost.offloaded);
    return cost.offloaded.count();
  };
  CHECK(plain.offloaded == Bytes{});
  CHECK(moved({kMlpNorm}) == hidden);
  CHECK(moved({kExpertFc1}) == routed * kHidden * 2);
  Strategy half = offloading({kExpertFc1});
  half.offload.activation_fraction = 0.5;
  CHECK(layer_of(m, half).offloaded == Bytes{routed * kHidden});
  CHECK(moved({kMoeAct}) == routed * 2 * kExpertFfn * 2);
  const std::int64_t heads = kHeads * (latent ? 64 + 32 : kHidden / kHeads);
  const std::int64_t values = kHeads * (latent ? 64 : kHidden / kHeads);
  const std::int64_t core = kTokens * (2 * heads + values) * 2 + 4 * kTokens * kHeads;
  CHECK(moved({kCoreAttn}) == core);
  CHECK(moved({kCoreAttn, kAttnProj}) == core + kTokens * values * 2);
  // Transformer Engine has the norm inside of the first product of attention without latents.
  CHECK(moved({kAttnNorm}) == (latent ? hidden : 0));
  CHECK(moved({kQkvLinear}) >= hidden);
  CHECK(moved({kAttnNorm, kQkvLinear, kCoreAttn, kAttnProj}) ==
        moved({kAttnNorm}) + moved({kQkvLinear}) + core + kTokens * values * 2);
}

TEST_CASE("what is repeated is not sent to the host as well") {
  const ModelSpec m = model_of_experts(true);
  Strategy s = offloading({kAttnNorm, kQkvLinear, kCoreAttn, kAttnProj, kMlpNorm, kExpertFc1});
  s.recompute = Recompute::kSelective;
  s.recompute_modules = {RecomputeModule::kMlaUpProj, RecomputeModule::kLayernorm};
  Strategy kept = s;
  kept.offload.modules = {};
  const BlockCost with = layer_of(m, s), without = layer_of(m, kept);
  CHECK(without.saved.selective - with.saved.selective == with.offloaded);
  CHECK(with.saved.selective > Bytes{});
  Strategy all = s;
  all.recompute = Recompute::kNone, all.recompute_modules = {};
  CHECK(layer_of(m, all).offloaded > with.offloaded);
}

TEST_CASE("what the host link takes longer than the layer's passes is waited for") {
  const ModelSpec m = model_of_experts(false);
  const OffloadModules modules{kCoreAttn, kExpertFc1, kMoeAct};
  const BlockCost free = layer_of(m, offloading({})), fast = layer_of(m, offloading(modules));
  CHECK(fast.forward.total() == free.forward.total());
  const double link = 1e9;
  const BlockCost slow = layer_of(m, offloading(modules), link);
  const Seconds copy = slow.offloaded / BytesPerSecond{link};
  REQUIRE(copy > free.forward.total());
  CHECK(slow.forward.total().si() == Approx(copy.si()));
  CHECK((slow.backward_input.total() + slow.backward_weight.total()).si() == Approx(copy.si()));
}

TEST_CASE("the host holds the inputs of all microbatches in flight") {
  const ModelSpec m = model_of_experts(false);
  const ClusterSpec c = with_link(1e15);
  Strategy s = offloading({kMlpNorm});
  const PlanCost plan = cost_of(m, c, complete(s, m, c));
  s.offload.modules = {};
  const PlanCost plain = cost_of(m, c, complete(s, m, c));
  CHECK(plan.memory().activations < plain.memory().activations);
  s.offload.modules = {kMlpNorm};
  const BlockCosts blocks = block_costs(m, c, complete(s, m, c));
  Chunk all(blocks.size());
  all.blocks[kFirstLayerBlock] = 4;
  CHECK(host_checkpoint_bytes(blocks, all) == Bytes{4 * kTokens * kHidden * 2});
}
