// Models given by runs of layers, and each kind of layer against numbers worked out by hand.
#include <algorithm>
#include <string>

#include "cost/block.hpp"
#include "cost/step.hpp"
#include "cost/support.hpp"
#include "io/load.hpp"
#include "model/flops.hpp"
#include "model/kinds.hpp"
#include "model/layer_support.hpp"
#include "model/parameters.hpp"
#include "model/rules.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

// The same model with its layers written out.
ModelSpec with_runs(const ModelSpec& flat) {
  ModelSpec m = flat;
  for (std::int64_t i = 0; i < m.num_layers; ++i) m.layers.push_back({1, layer_spec(flat, i)});
  m.window_every = 1;
  if (m.moe) m.moe->first_dense = 0, m.moe->every = 1;
  for (LayerRun& run : m.layers) {
    if (auto* moe = std::get_if<MoeSpec>(&run.layer.feed_forward)) *moe = *m.moe;
  }
  return m;
}

ModelSpec gpt() {
  ModelSpec m = plain_gpt(6, 1024, 16);
  m.name = "gpt";
  return m;
}

}  // namespace

TEST_CASE("the distinct layers of a deep model are those of all its layers") {
  ModelSpec m = gpt();
  m.window = 256;
  m.window_every = GENERATE(1, 2, 3, 7);
  m.num_layers = GENERATE(1, 2, 5, 6, 30);
  m.moe = MoeSpec{.num_experts = 8, .top_k = 2, .expert_ffn_hidden_size = 1024};
  m.moe->first_dense = GENERATE(0, 1, 3, 40);
  m.moe->every = GENERATE(1, 2, 5);
  std::vector<LayerSpec> all;
  for (std::int64_t i = 0; i < m.num_layers; ++i) {
    const LayerSpec layer = layer_spec(m, i);
    if (std::find(all.begin(), all.end(), layer) == all.end()) all.push_back(layer);
  }
  CHECK(distinct_layers(m) == all);
}

TEST_CASE("a model given by runs costs what the same model costs by flat keys, to the bit") {
  ModelSpec flat = gpt();
  flat.window = 256, flat.window_every = 2;
  const bool experts = GENERATE(false, true), latent = GENERATE(false, true);
  if (experts) flat.moe = MoeSpec{8, 2, 1024, 512, 2, 2};
  if (latent) {
    flat.attention = AttentionKind::kMla;
    flat.mla = MlaSpec{256, 128, 64, 32, 64};
    flat.head_dim = 96;
  }
  flat.mtp_layers = 1;
  const ModelSpec runs = with_runs(flat);
  CHECK_FALSE(has_errors(validate(runs)));
  const ClusterSpec c = plain_cluster(8);
  Strategy s = plain_strategy(2, 2, 2);
  s.sequence_parallel = true;
  s.flash_attention = GENERATE(false, true);
  if (experts) s.ep = 2;
  CHECK(block_costs(runs, c, complete(s, runs, c)) == block_costs(flat, c, complete(s, flat, c)));
  const PlanCost a = cost_of(runs, c, complete(s, runs, c)),
                 b = cost_of(flat, c, complete(s, flat, c));
  CHECK(a.time == b.time);
  CHECK(a.memory() == b.memory());
  CHECK(a.model_flops == b.model_flops);
  CHECK(parameter_count(runs).total == parameter_count(flat).total);
  CHECK(parameter_count(runs).active == parameter_count(flat).active);
  CHECK(parameter_count(runs).mtp == parameter_count(flat).mtp);
}

TEST_CASE("layers of different sizes cost the sum of their parts") {
  const ModelSpec narrow = gpt();
  ModelSpec wide = narrow;
  wide.num_attention_heads = wide.num_query_groups = 8;
  wide.ffn_hidden_size = 6144;
  wide.window = 128;
  ModelSpec mixed = narrow;
  mixed.layers = {{2, layer_spec(narrow, 0)}, {1, layer_spec(wide, 0)}, {3, layer_spec(narrow, 0)}};
  CHECK_FALSE(has_errors(validate(mixed)));
  const auto layers = [](const ModelSpec& m) {
    const ParameterCount n = parameter_count(m);
    return n.total - n.embedding - n.output_head;
  };
  const std::int64_t ends = 2 * 1024;  // the final norm
  CHECK(6 * (layers(mixed) - ends) == 5 * (layers(narrow) - ends) + (layers(wide) - ends));
  const ClusterSpec c = plain_cluster(2);
  const Strategy s = complete(plain_strategy(2, 1, 1), mixed, c);
  const BlockCosts all = block_costs(mixed, c, s);
  REQUIRE(all.size() == 5);
  // Which places of the table a block's shapes of weights have depends on the blocks before it.
  const auto alone = [](BlockCost cost) {
    cost.weight_shapes = 0;
    return cost;
  };
  CHECK(alone(all[1]) == alone(block_costs(narrow, c, s)[1]));
  CHECK(alone(all[2]) == alone(block_costs(wide, c, s)[1]));
  CHECK(model_flops(mixed, 2048, 1).si() * 6 ==
        Approx(model_flops(narrow, 2048, 1).si() * 5 + model_flops(wide, 2048, 1).si()));
}

TEST_CASE("every layer's own sizes must be divisible by the ranks that share them") {
  ModelSpec m = gpt();
  LayerSpec other = layer_spec(m, 0);
  std::get<AttentionSpec>(other.mixer) = {6, 6, 64, 0};
  std::get<DenseMlpSpec>(other.feed_forward).ffn_hidden_size = 1001;
  m.layers = {{5, layer_spec(m, 0)}, {1, other}};
  const ClusterSpec c = plain_cluster(4);
  const std::string text = to_text(validate(complete(plain_strategy(4, 1, 1), m, c), m, c));
  CHECK(text.find("'tp' must divide the 6 attention heads, got 4") != std::string::npos);
  CHECK(text.find("'tp' must divide the 1001 columns of 'ffn_hidden_size'") != std::string::npos);
}

namespace {

constexpr const char* kText = R"(name: mixed
num_layers: 12
hidden_size: 1024
num_attention_heads: 16
num_query_groups: 4
head_dim: 64
ffn_hidden_size: 4096
vocab_size: 32000
max_seq_length: 8192
moe: {num_experts: 8, top_k: 2, expert_ffn_hidden_size: 512}
mixers:
  local: {window: 512}
feed_forwards:
  wide: {ffn_hidden_size: 8192}
layers:
  - {count: 5, mixer: local, feed_forward: dense}
  - {count: 1, mixer: attention, feed_forward: wide}
  - {count: 5, mixer: local, feed_forward: experts}
  - {count: 1, mixer: {num_attention_heads: 8, num_query_groups: 8}, feed_forward: {kind: experts, num_experts: 16}}
source: test
)";

}  // namespace

TEST_CASE("a model file gives its layers as runs, with sections by name or in place") {
  const Result<ModelSpec> m = parse_model(kText, "mixed.yaml");
  INFO(to_text(m.ok() ? Diagnostics{} : m.errors()));
  REQUIRE(m.ok());
  REQUIRE(m->layers.size() == 4);
  const AttentionSpec full{16, 4, 64, 0}, local{16, 4, 64, 512}, few{8, 8, 64, 0};
  CHECK(m->layers[0].layer == LayerSpec{local, DenseMlpSpec{4096}});
  CHECK(m->layers[1].layer == LayerSpec{full, DenseMlpSpec{8192}});
  CHECK(m->layers[2].layer.mixer == Mixer{local});
  CHECK(experts_of(m->layers[2].layer)->num_experts == 8);
  CHECK(m->layers[3].layer.mixer == Mixer{few});
  CHECK(experts_of(m->layers[3].layer)->num_experts == 16);
  CHECK(num_moe_layers(*m) == 6);
  CHECK(layer_is_windowed(*m, 4));
  CHECK_FALSE(layer_is_windowed(*m, 5));
}

TEST_CASE("what is wrong with layers is said where it stands") {
  const auto broken = [](const std::string& from, const std::string& to) {
    std::string text = kText;
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    const Result<ModelSpec> m = parse_model(text, "m.yaml");
    return m.ok() ? std::string("good") : to_text(m.errors());
  };
  const auto has = [](const std::string& text, const std::string& part) {
    CAPTURE(text);
    return text.find(part) != std::string::npos;
  };
  CHECK(has(broken("count: 5, mixer: local, feed_forward: dense",
                   "count: 4, mixer: local, feed_forward: dense"),
            "'layers' adds up to 11 layers, but 'num_layers' is 12"));
  CHECK(has(broken("mixer: local, feed_forward: dense", "mixer: lokal, feed_forward: dense"),
            "m.yaml:16:23: error: 'layers[0].mixer' names no section, got \"lokal\""));
  CHECK(has(broken("window: 512", "windw: 512"), "m.yaml:12:11"));
  CHECK(has(broken("num_query_groups: 8}", "num_query_groups: 3}"), "m.yaml:19:"));
  CHECK(has(
      broken("expert_ffn_hidden_size: 512}", "expert_ffn_hidden_size: 512, layers: {every: 2}}"),
      "'layers' says which layers have experts"));
  CHECK(has(broken("  - {count: 5, mixer: local, feed_forward: dense}", "  - 7"), "m.yaml:16:"));
}

// h = 1024, 16 heads of 64, 4 groups, tokens 2048, two bytes.
TEST_CASE("[F-PAR-1] a kind states its parameters and its operations per token") {
  ModelSpec m = gpt();
  m.linear_bias = false;
  LayerParameters p;
  add_parameters(AttentionSpec{16, 4, 64, 0}, m, p);
  CHECK(p.attention_linear == 1024 * (1024 + 2 * 256) + 1024 * 1024);
  CHECK(copied_parameters(AttentionSpec{16, 4, 64, 0}, m, 4) == 0);
  CHECK(copied_parameters(AttentionSpec{16, 4, 64, 0}, m, 8) == 2 * 1024 * 64 / 2);
  CHECK(token_flops(AttentionSpec{16, 4, 64, 0}, 2048) == 2.0 * 2048 * 16 * 128);
  CHECK(token_flops(AttentionSpec{16, 4, 64, 100}, 2048) == 2.0 * 100 * 16 * 128);
  CHECK(token_flops(LatentAttentionSpec{16, {0, 128, 64, 32, 48}, 0}, 2048) ==
        2.0 * 2048 * 16 * (96 + 48));
  LayerParameters mlp;
  add_parameters(DenseMlpSpec{4096}, m, mlp);
  CHECK(mlp.mlp_linear == 2 * 1024 * 4096);
  LayerParameters experts;
  add_parameters(MoeSpec{8, 2, 512, 256}, m, experts);
  CHECK(experts.experts == 8 * 2 * 1024 * 512);
  CHECK(experts.experts_active == 2 * 2 * 1024 * 512);
  CHECK(experts.mlp_linear == 2 * 1024 * 256);
  CHECK(experts.router == 8 * 1024);
}

TEST_CASE("[F-ATT-5] a fused softmax writes the gradient of scores in place") {
  ModelSpec m = gpt();
  const ClusterSpec c = plain_cluster(2);
  Strategy s = plain_strategy(2, 1, 1);
  const AttentionSpec kind{16, 4, 64, 0};
  const auto per_score = [&](std::int64_t matrices) {
    const BlockContext x{m, c, s, local_shape(m, s)};
    return temporary_bytes(kind, x) / (static_cast<double>(matrices) * 2048 * 2048);
  };
  m.dropout = 0, s.runtime.fused_softmax = true;
  CHECK(per_score(8) == 2);
  m.attn_logit_softcapping = true;
  CHECK(per_score(8) == 4);
  m.attn_logit_softcapping = false, m.dropout = 0.1;
  CHECK(per_score(8) == 4);
  m.dropout = 0, s.runtime.fused_softmax = false;
  CHECK(per_score(8) == 4);
  s.runtime.fused_softmax = true, s.recompute = Recompute::kSelective;
  CHECK(per_score(8) == 4);  // the repeated output beside its gradient
  s.recompute_modules = {RecomputeModule::kLayernorm};
  CHECK(per_score(8) == 2);
  s.recompute_modules = {RecomputeModule::kCoreAttn};
  CHECK(per_score(8) == 4);
}

TEST_CASE("a kind states the widest that it has in use, split over tensor ranks") {
  const ModelSpec m = gpt();
  const ClusterSpec c = plain_cluster(2);
  const Strategy s = plain_strategy(2, 1, 1);
  const BlockContext x{m, c, s, local_shape(m, s)};
  CHECK(widest_features(DenseMlpSpec{4096}, x) == 2048.0 * 2048);
  CHECK(widest_features(MoeSpec{8, 2, 512, 0}, x) == 2048.0 * 2 * 512);
  CHECK(temporary_bytes(AttentionSpec{16, 4, 64, 0}, x) == 2 * 2 * 8.0 * 2048 * 2048);
  Strategy fused = s;
  fused.flash_attention = true;
  const BlockContext y{m, c, fused, local_shape(m, fused)};
  CHECK(temporary_bytes(AttentionSpec{16, 4, 64, 0}, y) == 0);
}

// Step-3 (2507.19427): 64 heads of 256, one of keys and values, queries through 2,048 elements.
TEST_CASE("[F-PAR-1] queries through a latent are two products and a norm") {
  ModelSpec m = plain_gpt(4, 7168, 64);
  m.norm = Norm::kRmsNorm, m.linear_bias = false;
  const AttentionSpec direct{.num_attention_heads = 64, .num_query_groups = 1, .head_dim = 256};
  AttentionSpec latent = direct;
  latent.q_lora_rank = 2048;
  const std::int64_t h = 7168, q = 64 * 256, rank = 2048;
  CHECK(mixer_parameters(m, direct) == h * q + 2 * h * 256 + q * h);
  CHECK(mixer_parameters(m, latent) == h * rank + rank + rank * q + 2 * h * 256 + q * h);
  const ClusterSpec c = plain_cluster(8);
  Strategy s = plain_strategy(4, 1, 1);
  s.sequence_parallel = true;
  const BlockContext x{m, c, s, local_shape(m, s)};
  BlockOps ops;
  append_mixer(x, latent, ops);
  const GemmShape down = *kernel_named(ops, "q down").gemm;  // of a rank's part of the sequence
  CHECK(down.m == x.shape.norm_tokens);
  CHECK(down.n == rank);
  CHECK(down.k == h);
  const GemmShape up = *kernel_named(ops, "q up").gemm;
  CHECK(up.m == x.shape.tokens);
  CHECK(up.n == q / 4);
  CHECK(up.k == rank);
  CHECK(kernel_named(ops, "key value").gemm->n == 2 * 256);
  // The latent and its norm are kept beside what the direct projection keeps.
  CHECK(saved_bytes(latent, x).all - saved_bytes(direct, x).all ==
        Approx(2.0 * 2 * static_cast<double>(x.shape.norm_tokens * rank)));
}
