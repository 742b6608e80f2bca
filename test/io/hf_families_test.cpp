// Sizes are those of the published models; the counts are their publishers' or worked out by hand.
#include <string>

#include "io/load.hpp"
#include "model/parameters.hpp"
#include "spec/model.hpp"
#include "support/catch.hpp"

namespace meshplan {

TEST_CASE("Families without a shipped model have the parameters their publishers state") {
  struct Row {
    const char* name;
    double parameters;
    double tolerance;
    std::string text;
  };
  const auto row = GENERATE(values<Row>({
      // 1.5B of the GPT-2 paper: 48 layers of 12 h^2 + 13 h, 50,257 + 1,024 rows, a last norm.
      {"gpt2-xl", 1'557'611'200, 1e-9, R"({"model_type": "gpt2", "n_embd": 1600, "n_head": 25,
        "n_layer": 48, "n_positions": 1024, "n_ctx": 1024, "vocab_size": 50257})"},
      {"starcoder", 15'517'456'384, 1e-9, R"({"model_type": "gpt_bigcode", "n_embd": 6144,
        "n_head": 48, "n_inner": 24576, "n_layer": 40, "n_positions": 8192, "multi_query": true,
        "vocab_size": 49152})"},
      // Falcon 7B, by hand: 32 * (h (h + 2*64) + h^2 + 8 h^2 + 2 h) + 65,024 h + 2 h, h = 4,544.
      {"falcon-7b", 6'921'720'704, 1e-9, R"({"model_type": "falcon", "alibi": false,
        "bias": false, "hidden_size": 4544, "multi_query": true, "new_decoder_architecture": false,
        "num_attention_heads": 71, "num_hidden_layers": 32, "parallel_attn": true,
        "vocab_size": 65024})"},
      {"mpt-7b", 6'649'286'656, 1e-3, R"({"model_type": "mpt", "d_model": 4096,
        "expansion_ratio": 4, "max_seq_len": 2048, "n_heads": 32, "n_layers": 32, "no_bias": true,
        "attn_config": {"alibi": true, "attn_type": "multihead_attention"},
        "vocab_size": 50432})"},
      {"gemma-7b", 8'537'680'896, 1e-9, R"({"model_type": "gemma", "head_dim": 256,
        "hidden_act": "gelu", "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 3072,
        "intermediate_size": 24576, "max_position_embeddings": 8192, "num_attention_heads": 16,
        "num_hidden_layers": 28, "num_key_value_heads": 16, "vocab_size": 256000})"},
      {"phi-3-mini-4k", 3'821'079'552, 1e-9, R"({"model_type": "phi3", "hidden_act": "silu",
        "hidden_size": 3072, "intermediate_size": 8192, "max_position_embeddings": 4096,
        "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
        "sliding_window": 2047, "tie_word_embeddings": false, "vocab_size": 32064})"},
      {"qwen2-7b", 7'615'616'512, 1e-9, R"({"model_type": "qwen2", "hidden_size": 3584,
        "intermediate_size": 18944, "max_position_embeddings": 131072, "max_window_layers": 28,
        "num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4,
        "sliding_window": 131072, "tie_word_embeddings": false, "use_sliding_window": false,
        "vocab_size": 152064})"},
      // The gate of the shared expert, one column per layer, is not described.
      {"qwen1.5-moe-a2.7b", 14'315'784'192, 1e-4, R"({"model_type": "qwen2_moe",
        "decoder_sparse_step": 1, "hidden_size": 2048, "intermediate_size": 5632,
        "max_position_embeddings": 8192, "moe_intermediate_size": 1408, "num_attention_heads": 16,
        "num_experts": 60, "num_experts_per_tok": 4, "num_hidden_layers": 24,
        "num_key_value_heads": 16, "shared_expert_intermediate_size": 5632,
        "vocab_size": 151936})"},
      // 2405.04434 abstract: 236B.
      {"deepseek-v2", 236e9, 0.01, R"({"model_type": "deepseek_v2", "first_k_dense_replace": 1,
        "hidden_size": 5120, "intermediate_size": 12288, "kv_lora_rank": 512,
        "max_position_embeddings": 163840, "moe_intermediate_size": 1536, "moe_layer_freq": 1,
        "n_routed_experts": 160, "n_shared_experts": 2, "num_attention_heads": 128,
        "num_experts_per_tok": 6, "num_hidden_layers": 60, "num_key_value_heads": 128,
        "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
        "vocab_size": 102400})"},
      // 2508.06471, table 1: 355B and 106B.
      {"glm-4.5", 355e9, 0.01, R"({"model_type": "glm4_moe", "attention_bias": true,
        "first_k_dense_replace": 3, "head_dim": 128, "hidden_size": 5120,
        "intermediate_size": 12288, "max_position_embeddings": 131072,
        "moe_intermediate_size": 1536, "n_routed_experts": 160, "n_shared_experts": 1,
        "num_attention_heads": 96, "num_experts_per_tok": 8, "num_hidden_layers": 92,
        "num_key_value_heads": 8, "num_nextn_predict_layers": 1, "use_qk_norm": true,
        "vocab_size": 151552})"},
      {"glm-4.5-air", 106e9, 0.01, R"({"model_type": "glm4_moe", "attention_bias": true,
        "first_k_dense_replace": 1, "head_dim": 128, "hidden_size": 4096,
        "intermediate_size": 10944, "max_position_embeddings": 131072,
        "moe_intermediate_size": 1408, "n_routed_experts": 128, "n_shared_experts": 1,
        "num_attention_heads": 96, "num_experts_per_tok": 8, "num_hidden_layers": 46,
        "num_key_value_heads": 8, "num_nextn_predict_layers": 1, "use_qk_norm": false,
        "vocab_size": 151552})"},
      // 2507.20534: 1.04 T.
      {"kimi-k2", 1.04e12, 0.02, R"({"model_type": "kimi_k2", "first_k_dense_replace": 1,
        "hidden_size": 7168, "intermediate_size": 18432, "kv_lora_rank": 512,
        "max_position_embeddings": 131072, "moe_intermediate_size": 2048, "moe_layer_freq": 1,
        "n_routed_experts": 384, "n_shared_experts": 1, "num_attention_heads": 64,
        "num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 64,
        "num_nextn_predict_layers": 0, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 163840})"},
      // By hand: 40 * (2 h^2 + 2 h 1,024 + 3 h 12,800 + 2 h) + 49,155 h + h, h = 4,096.
      {"granite-3.0-8b", 8'170'848'256, 1e-9, R"({"model_type": "granite", "hidden_size": 4096,
        "intermediate_size": 12800, "max_position_embeddings": 4096, "num_attention_heads": 32,
        "num_hidden_layers": 40, "num_key_value_heads": 8, "tie_word_embeddings": true,
        "vocab_size": 49155})"},
  }));
  INFO(row.name);
  const auto model = parse_hf_config(row.text, "config.json");
  if (!model.ok()) FAIL(to_text(model.errors()));
  CHECK(static_cast<double>(parameter_count(*model).total) ==
        Approx(row.parameters).epsilon(row.tolerance));
}

// Keys of MiniMax-M3 as its published file has them (minimax_m3_bridge.py of Megatron-Bridge reads
// and writes both).
TEST_CASE("MiniMax-M3 reads alike from its published file and from Transformers' class") {
  const std::string sizes =
      R"("num_hidden_layers": 4, "hidden_size": 1024, "num_attention_heads": 8,
      "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 32000, "intermediate_size": 512,
      "dense_intermediate_size": 2048, "shared_intermediate_size": 512, "num_local_experts": 16,
      "num_experts_per_tok": 4, "rotary_dim": 64)";
  const auto published = parse_hf_config(R"({"model_type": "minimax_m3_vl", "text_config": {)" +
                                             sizes + R"(, "model_type": "minimax_m3_vl_text",
      "moe_layer_freq": [0, 1, 1, 1],
      "sparse_attention_config": {"sparse_num_index_heads": 2, "sparse_index_dim": 64,
        "sparse_topk_blocks": 8, "sparse_block_size": 64, "sparse_attention_freq": [0, 1, 1, 0]}}})",
                                         "config.json");
  const auto own = parse_hf_config(R"({"model_type": "minimax_m3_vl", "text_config": {)" + sizes +
                                       R"(, "model_type": "minimax_m3_vl_text",
      "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"], "index_n_heads": 2,
      "index_head_dim": 64, "index_topk_blocks": 8, "index_block_size": 64,
      "layer_types": ["full_attention", "minimax_m3_sparse", "minimax_m3_sparse",
        "full_attention"]}})",
                                   "config.json");
  REQUIRE(published.ok());
  REQUIRE(own.ok());
  CHECK(published->rotary_percent == 0.5);
  CHECK(std::holds_alternative<DenseMlpSpec>(layer_spec(*published, 0).feed_forward));
  const auto index = [](const ModelSpec& m, std::size_t layer) {
    return std::get<AttentionSpec>(layer_spec(m, layer).mixer).index;
  };
  CHECK(index(*published, 1).top_k == 512);
  CHECK(index(*published, 3).top_k == 0);
  CHECK(*published == *own);
}

TEST_CASE("a projector has the width that the file states") {
  const auto model = parse_hf_config(R"({"model_type": "minimax_m3_vl",
      "projector_hidden_size": 1536, "vision_config": {"hidden_size": 512, "num_hidden_layers": 2,
        "num_attention_heads": 8, "intermediate_size": 2048, "spatial_merge_size": 2},
      "text_config": {"model_type": "minimax_m3_vl_text", "num_hidden_layers": 2,
        "hidden_size": 1024, "num_attention_heads": 8, "vocab_size": 32000,
        "intermediate_size": 512, "num_local_experts": 8}})",
                                     "config.json");
  REQUIRE(model.ok());
  REQUIRE(model->encoder.has_value());
  CHECK(model->encoder->projector_hidden_size == 1536);
}

TEST_CASE("a layer of a type that a family does not have is refused") {
  const auto model = parse_hf_config(R"({"model_type": "minimax", "num_hidden_layers": 2,
      "hidden_size": 1024, "num_attention_heads": 8, "head_dim": 128, "vocab_size": 32000,
      "intermediate_size": 512, "num_local_experts": 8,
      "layer_types": ["full_attention", "odd_attention"]})",
                                     "config.json");
  REQUIRE_FALSE(model.ok());
  CHECK(to_text(model.errors()).find("layers of type 'odd_attention' are not supported") !=
        std::string::npos);
}

}  // namespace meshplan
