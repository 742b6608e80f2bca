// Parameter counts by hand from the shapes of the papers, and the rules of a model.
#include "spec/model.hpp"

#include <limits>
#include <string>
#include <vector>

#include "model/parameters.hpp"
#include "model/rules.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

// A model whose parts are small enough to count by hand: h = 8, 2 heads of 4, f = 32, V = 100.
ModelSpec tiny() {
  ModelSpec m;
  m.name = "tiny";
  m.num_layers = 3;
  m.hidden_size = 8;
  m.num_attention_heads = 2;
  m.num_query_groups = 2;
  m.head_dim = 4;
  m.ffn_hidden_size = 32;
  m.vocab_size = 100;
  m.max_seq_length = 16;
  m.norm = Norm::kRmsNorm;
  return m;
}

ModelSpec tiny_experts() {
  ModelSpec m = tiny();
  m.num_layers = 7;
  m.gated_mlp = true;
  m.moe = MoeSpec{.num_experts = 4, .top_k = 2, .expert_ffn_hidden_size = 16};
  return m;
}

LayerParameters parameters_of(const ModelSpec& m, LayerKind kind) {
  return layer_parameters(m, layer_spec(m, kind, false));
}

std::string messages(const ModelSpec& m) { return to_text(validate(m)); }

}  // namespace

TEST_CASE("[F-PAR-1] attention has 2*h*a*d + 2*h*g*d weights, and a bias per output") {
  ModelSpec m = tiny();
  // Q 8x8, K 8x8, V 8x8, O 8x8.
  CHECK(parameters_of(m, LayerKind::kDense).attention_linear == 4 * 64);
  CHECK(parameters_of(m, LayerKind::kDense).attention_other == 0);
  m.num_query_groups = 1;  // K and V 8x4
  CHECK(parameters_of(m, LayerKind::kDense).attention_linear == 64 + 32 + 32 + 64);
  m.qkv_bias = true;  // 8 + 4 + 4
  CHECK(parameters_of(m, LayerKind::kDense).attention_linear == 192 + 16);
  m.attention_out_bias = true;  // behind the reduction: every tensor rank has it
  CHECK(parameters_of(m, LayerKind::kDense).attention_other == 8);
  m.attention_sinks = true;  // one per head
  CHECK(parameters_of(m, LayerKind::kDense).attention_linear == 192 + 16 + 2);
  m.qk_norm = true;  // a scale per element of a head, for queries and for keys
  CHECK(parameters_of(m, LayerKind::kDense).attention_other == 8 + 2 * 4);
}

TEST_CASE("[F-PAR-1] a head size of its own widens the projections") {
  ModelSpec m = tiny();
  m.head_dim = 16;  // 2 heads of 16 over h = 8, as Qwen3 does
  CHECK(parameters_of(m, LayerKind::kDense).attention_linear == 4 * 8 * 32);
}

TEST_CASE("[F-PAR-2] latent attention of DeepSeek-V3 has 187,107,328 parameters") {
  ModelSpec m = tiny();
  m.hidden_size = 7168;
  m.num_attention_heads = m.num_query_groups = 128;
  m.head_dim = 192;
  m.attention = AttentionKind::kMla;
  m.mla = MlaSpec{1536, 512, 128, 64, 128};
  const LayerParameters p = parameters_of(m, LayerKind::kDense);
  // q_b 1536 x 128*192, kv_b 512 x 128*(128+128), o 128*128 x 7168.
  CHECK(p.attention_linear == 37'748'736 + 16'777'216 + 117'440'512);
  // q_a 7168 x 1536, kv_a 7168 x (512+64), norms over 1536 and 512.
  CHECK(p.attention_other == 11'010'048 + 4'128'768 + 1536 + 512);
  CHECK(p.attention_linear + p.attention_other == 187'107'328);
}

TEST_CASE("[F-PAR-2] without query compression queries are projected directly") {
  ModelSpec m = tiny();
  m.attention = AttentionKind::kMla;
  m.mla = MlaSpec{0, 6, 4, 2, 4};  // DeepSeek-V2-Lite has no q_lora_rank
  const LayerParameters p = parameters_of(m, LayerKind::kDense);
  CHECK(p.attention_linear == 8 * 2 * 6 + 6 * 2 * 8 + 2 * 4 * 8);
  CHECK(p.attention_other == 8 * (6 + 2) + 6);
}

TEST_CASE("[F-PAR-3] a plain MLP has two matrices, a gated one three") {
  ModelSpec m = tiny();
  CHECK(parameters_of(m, LayerKind::kDense).mlp_linear == 2 * 8 * 32);
  m.gated_mlp = true;
  CHECK(parameters_of(m, LayerKind::kDense).mlp_linear == 3 * 8 * 32);
  m.linear_bias = true;  // two biases of 32 are split, one of 8 is copied
  CHECK(parameters_of(m, LayerKind::kDense).mlp_linear == 3 * 8 * 32 + 64);
  CHECK(parameters_of(m, LayerKind::kDense).norms == 2 * 8 + 8);
}

TEST_CASE("[F-PAR-4] experts, router and shared experts are counted apart") {
  ModelSpec m = tiny_experts();
  LayerParameters p = parameters_of(m, LayerKind::kMoe);
  CHECK(p.experts == 4 * 3 * 8 * 16);
  CHECK(p.experts_active == 2 * 3 * 8 * 16);
  CHECK(p.router == 8 * 4);
  CHECK(p.mlp_linear == 0);
  m.moe->router_bias = true;
  m.expert_bias = true;
  m.moe->shared_expert_ffn_hidden_size = 16;
  p = parameters_of(m, LayerKind::kMoe);
  CHECK(p.experts == 4 * (3 * 8 * 16 + 2 * 16 + 8));
  CHECK(p.router == 8 * 4 + 4);
  CHECK(p.mlp_linear == 3 * 8 * 16);
}

TEST_CASE("[F-PAR-5] GPT-3's count follows 12*L*h^2*(1 + 13/(12h) + (V+s)/(12*L*h))") {
  ModelSpec m;
  m.name = "gpt3";
  m.num_layers = 96;
  m.hidden_size = 12288;
  m.num_attention_heads = m.num_query_groups = 96;
  m.head_dim = 128;
  m.ffn_hidden_size = 4 * 12288;
  m.linear_bias = true;
  m.position_embedding = PositionEmbedding::kLearned;
  m.tied_embeddings = true;
  m.vocab_size = 50257;
  m.max_seq_length = 2048;
  // Narayanan et al. 2021 eq. 2, exact in integers, plus the final norm of 2h which it leaves out.
  const std::int64_t h = 12288, layers = 96;
  const std::int64_t paper = 12 * layers * h * h + 13 * layers * h + (50257 + 2048) * h;
  CHECK(parameter_count(m).total == paper + 2 * h);
  CHECK(parameter_count(m).active == parameter_count(m).total);
  CHECK(parameter_count(m).embedding == (50257 + 2048) * h);
  CHECK(parameter_count(m).output_head == 0);
}

TEST_CASE("[F-PAR-5] PaLM's blocks share one norm; BLOOM has one after the embedding") {
  ModelSpec m = tiny();
  m.parallel_block = true;
  CHECK(parameters_of(m, LayerKind::kDense).norms == 2 * 8);  // GPT-NeoX: one each
  m.parallel_shared_norm = true;
  CHECK(parameters_of(m, LayerKind::kDense).norms == 8);
  const std::int64_t before = parameter_count(m).total;
  m.embedding_norm = true;
  CHECK(parameter_count(m).total == before + 8);
}

TEST_CASE("[F-PAR-5] a multi-token-prediction layer is outside of the total") {
  ModelSpec m = tiny_experts();
  const ParameterCount without = parameter_count(m);
  m.mtp_layers = 2;
  const ParameterCount with = parameter_count(m);
  CHECK(with.total == without.total);
  CHECK(without.mtp == 0);
  // Attention 256, norms 16, router 32, experts 1536; joint projection 2*8*8 and three norms of 8.
  CHECK(with.mtp == 2 * (256 + 16 + 32 + 1536 + 128 + 24));
}

TEST_CASE("[F-PAR-5] a mixture's active count leaves the other experts out") {
  const ModelSpec m = tiny_experts();
  const ParameterCount count = parameter_count(m);
  CHECK(count.total == 7 * (256 + 16 + 32 + 1536) + 2 * 800 + 8);
  CHECK(count.total - count.active == 7 * 2 * 3 * 8 * 16);
}

TEST_CASE("Layers with experts follow the leading dense ones, every n-th") {
  ModelSpec m = tiny_experts();
  m.moe->first_dense = 1;
  m.moe->every = 2;
  std::vector<LayerKind> kinds;
  for (std::int64_t i = 0; i < m.num_layers; ++i) kinds.push_back(layer_kind(m, i));
  const auto dense = LayerKind::kDense, moe = LayerKind::kMoe;
  CHECK(kinds == std::vector{dense, dense, moe, dense, moe, dense, moe});
  CHECK(num_moe_layers(m) == 3);
  CHECK(layer_kind(m, m.num_layers) == moe);  // a multi-token-prediction layer, like the last
  CHECK(layer_kind(tiny(), 0) == dense);
}

TEST_CASE("The number of layers with experts equals a count of them") {
  ModelSpec m = tiny_experts();
  for (m.num_layers = 1; m.num_layers <= 12; ++m.num_layers) {
    for (m.moe->first_dense = 0; m.moe->first_dense <= 12; ++m.moe->first_dense) {
      for (m.moe->every = 1; m.moe->every <= 5; ++m.moe->every) {
        std::int64_t counted = 0;
        for (std::int64_t i = 0; i < m.num_layers; ++i)
          counted += layer_kind(m, i) == LayerKind::kMoe;
        CHECK(num_moe_layers(m) == counted);
      }
    }
  }
}

TEST_CASE("Every second layer of gpt-oss is windowed, the first one included") {
  ModelSpec m = tiny();
  CHECK_FALSE(layer_is_windowed(m, 0));
  m.window = 128;
  CHECK(layer_is_windowed(m, 1));
  m.window_every = 2;
  CHECK(layer_is_windowed(m, 0));
  CHECK_FALSE(layer_is_windowed(m, 1));
}

TEST_CASE("A sound model breaks no rule") {
  CHECK(validate(tiny()).empty());
  CHECK(validate(tiny_experts()).empty());
}

TEST_CASE("Each broken rule of a model names the key, the value and the limit") {
  struct Row {
    const char* why;
    void (*spoil)(ModelSpec&);
    const char* message;
  };
  const auto row = GENERATE(values<Row>({
      {"no layers", [](ModelSpec& m) { m.num_layers = 0; },
       "error: 'num_layers' must be from 1 to 100,000, got 0\n"},
      {"too wide", [](ModelSpec& m) { m.hidden_size = (1 << 22) + 1; },
       "error: 'hidden_size' must be from 1 to 4,194,304, got 4194305\n"},
      {"negative vocabulary", [](ModelSpec& m) { m.vocab_size = -5; },
       "error: 'vocab_size' must be from 1 to 67,108,864, got -5\n"},
      {"groups", [](ModelSpec& m) { m.attention = AttentionKind::kGqa, m.num_query_groups = 3; },
       "error: 'num_query_groups' must divide the 2 attention heads, got 3\n"},
      {"groups of multi-head attention", [](ModelSpec& m) { m.num_query_groups = 1; },
       "error: 'attention.kind' mha means one key/value head per attention head, but "
       "'num_query_groups' is 1\n  hint: write gqa\n"},
      {"no width", [](ModelSpec& m) { m.ffn_hidden_size = 0; },
       "error: 'ffn_hidden_size' must be from 1 to 4,194,304, got 0\n"},
      {"dropout", [](ModelSpec& m) { m.dropout = 1; },
       "error: 'dropout' must be from 0 to 0.99, got 1\n"},
      {"shared norm", [](ModelSpec& m) { m.parallel_shared_norm = true; },
       "error: 'parallel_shared_norm' needs 'parallel_block'\n"},
      {"top_k",
       [](ModelSpec& m) {
         m.moe = MoeSpec{.num_experts = 4, .top_k = 5, .expert_ffn_hidden_size = 8};
       },
       "error: 'moe.top_k' is more than the 4 experts, got 5\n"},
      {"groups of experts",
       [](ModelSpec& m) {
         m.moe = MoeSpec{.num_experts = 4, .top_k = 1, .expert_ffn_hidden_size = 8};
         m.moe->router_num_groups = 3, m.moe->router_group_top_k = 1;
       },
       "error: 'moe.router_num_groups' does not divide the 4 experts, got 3\n"},
      {"experts of few groups",
       [](ModelSpec& m) {
         m.moe = MoeSpec{.num_experts = 4, .top_k = 3, .expert_ffn_hidden_size = 8};
         m.moe->router_num_groups = 2, m.moe->router_group_top_k = 1;
       },
       "error: 'moe.router_group_top_k' has to be 1 to 2 groups that hold the 3 experts of a "
       "token, got 1\n"},
      {"chosen groups of none",
       [](ModelSpec& m) {
         m.moe = MoeSpec{.num_experts = 4, .top_k = 1, .expert_ffn_hidden_size = 8};
         m.moe->router_group_top_k = 1;
       },
       "error: 'moe.router_group_top_k' needs 'moe.router_num_groups'\n"},
      {"no expert layer",
       [](ModelSpec& m) {
         m.moe =
             MoeSpec{.num_experts = 4, .top_k = 1, .expert_ffn_hidden_size = 8, .first_dense = 3};
       },
       "error: 'moe.layers' leaves no layer with experts\n"},
      {"imbalance",
       [](ModelSpec& m) {
         m.moe =
             MoeSpec{.num_experts = 4, .top_k = 1, .expert_ffn_hidden_size = 8, .imbalance = 0.5};
       },
       "error: 'moe.imbalance' must be from 1 to 65536, got 0.5\n"},
      {"latent sizes elsewhere",
       [](ModelSpec& m) {
         m.mla = MlaSpec{1, 1, 1, 1, 1};
       },
       "error: latent sizes need 'attention.kind' mla\n"},
  }));
  INFO(row.why);
  ModelSpec m = tiny();
  row.spoil(m);
  CHECK(messages(m) == row.message);
}

TEST_CASE("The largest sizes that pass one by one are refused together, without overflow") {
  ModelSpec m = tiny();
  m.num_layers = 100'000;
  m.hidden_size = 1 << 22;
  m.num_attention_heads = m.num_query_groups = 1 << 16;
  m.head_dim = 1 << 16;
  m.ffn_hidden_size = 1 << 22;
  m.vocab_size = 1 << 26;
  m.max_seq_length = 1 << 30;
  m.gated_mlp = true;
  m.moe = MoeSpec{.num_experts = 1 << 16, .top_k = 1 << 16, .expert_ffn_hidden_size = 1 << 22};
  const Diagnostics all = validate(m);
  REQUIRE(all.size() == 1);
  CHECK(all.front().message.find("parameters, more than the") != std::string::npos);
}

TEST_CASE("A not-a-number is out of every range") {
  ModelSpec m = tiny();
  m.dropout = std::numeric_limits<double>::quiet_NaN();
  CHECK(has_errors(validate(m)));
}

}  // namespace meshplan
