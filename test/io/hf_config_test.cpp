// The samples follow the documented formats of the families; sizes are those of published models.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "io/load.hpp"
#include "model/parameters.hpp"
#include "spec/model.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

DataFolders shipped() { return DataFolders({std::filesystem::path(MESHPLAN_SOURCE_DIR)}); }

ModelSpec imported(const std::string& text) {
  const auto model = parse_hf_config(text, "config.json");
  if (!model.ok()) FAIL(to_text(model.errors()));
  return *model;
}

Diagnostics problems(const std::string& text) {
  const auto model = parse_hf_config(text, "config.json");
  REQUIRE_FALSE(model.ok());
  return model.errors();
}

// Replaces the first `from`, which must be there.
std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

const char* const kLlama2 = R"({
  "_name_or_path": "meta-llama/Llama-2-70b-hf",
  "architectures": ["LlamaForCausalLM"],
  "bos_token_id": 1,
  "eos_token_id": 2,
  "hidden_act": "silu",
  "hidden_size": 8192,
  "initializer_range": 0.02,
  "intermediate_size": 28672,
  "max_position_embeddings": 4096,
  "model_type": "llama",
  "num_attention_heads": 64,
  "num_hidden_layers": 80,
  "num_key_value_heads": 8,
  "pretraining_tp": 1,
  "rms_norm_eps": 1e-05,
  "rope_scaling": null,
  "tie_word_embeddings": false,
  "torch_dtype": "float16",
  "transformers_version": "4.32.0.dev0",
  "use_cache": true,
  "vocab_size": 32000
})";

const char* const kQwen3Moe = R"({
  "architectures": ["Qwen3MoeForCausalLM"],
  "attention_bias": false, "attention_dropout": 0.0,
  "decoder_sparse_step": 1, "head_dim": 128, "hidden_act": "silu", "hidden_size": 4096,
  "intermediate_size": 12288, "max_position_embeddings": 40960, "max_window_layers": 94,
  "mlp_only_layers": [], "model_type": "qwen3_moe", "moe_intermediate_size": 1536,
  "norm_topk_prob": true, "num_attention_heads": 64, "num_experts": 128,
  "num_experts_per_tok": 8, "num_hidden_layers": 94, "num_key_value_heads": 4,
  "rope_theta": 1000000.0, "sliding_window": null, "tie_word_embeddings": false,
  "use_sliding_window": false, "vocab_size": 151936
})";

struct Sample {
  const char* shipped_name;
  std::string text;
};

// Samples of models that are shipped as files of our own.
const std::vector<Sample> kShippedSamples{
    {"llama-2-70b", kLlama2},
    {"llama-2-7b", R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008,
        "num_attention_heads": 32, "num_hidden_layers": 32, "vocab_size": 32000,
        "max_position_embeddings": 4096, "num_key_value_heads": 32})"},
    {"llama-3.1-405b", R"({"model_type": "llama", "attention_bias": false,
        "attention_dropout": 0.0, "hidden_act": "silu", "hidden_size": 16384,
        "intermediate_size": 53248, "max_position_embeddings": 131072, "mlp_bias": false,
        "num_attention_heads": 128, "num_hidden_layers": 126, "num_key_value_heads": 8,
        "rope_parameters": {"rope_theta": 500000.0, "rope_type": "llama3", "factor": 8.0},
        "tie_word_embeddings": false, "dtype": "bfloat16", "vocab_size": 128256})"},
    {"mistral-7b", R"({"model_type": "mistral", "hidden_act": "silu", "hidden_size": 4096,
        "intermediate_size": 14336, "max_position_embeddings": 32768, "num_attention_heads": 32,
        "num_hidden_layers": 32, "num_key_value_heads": 8, "sliding_window": 4096,
        "tie_word_embeddings": false, "vocab_size": 32000})"},
    {"mixtral-8x7b", R"({"model_type": "mixtral", "attention_dropout": 0.0,
        "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336,
        "max_position_embeddings": 32768, "num_attention_heads": 32, "num_experts_per_tok": 2,
        "num_hidden_layers": 32, "num_key_value_heads": 8, "num_local_experts": 8,
        "output_router_logits": false, "sliding_window": null, "vocab_size": 32000})"},
    {"qwen3-8b", R"({"model_type": "qwen3", "attention_bias": false, "head_dim": 128,
        "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 12288,
        "max_position_embeddings": 40960, "max_window_layers": 36, "num_attention_heads": 32,
        "num_hidden_layers": 36, "num_key_value_heads": 8, "sliding_window": null,
        "tie_word_embeddings": false, "use_sliding_window": false, "vocab_size": 151936})"},
    {"qwen3-235b-a22b", kQwen3Moe},
    {"deepseek-v3", R"({"model_type": "deepseek_v3", "attention_bias": false,
        "attention_dropout": 0.0, "ep_size": 1, "first_k_dense_replace": 3, "hidden_act": "silu",
        "hidden_size": 7168, "intermediate_size": 18432, "kv_lora_rank": 512,
        "max_position_embeddings": 163840, "moe_intermediate_size": 2048, "moe_layer_freq": 1,
        "n_group": 8, "n_routed_experts": 256, "n_shared_experts": 1, "num_attention_heads": 128,
        "num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 128,
        "num_nextn_predict_layers": 1, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64, "quantization_config": {"fmt": "e4m3"},
        "tie_word_embeddings": false, "topk_group": 4, "topk_method": "noaux_tc",
        "v_head_dim": 128, "vocab_size": 129280})"},
    {"gpt-oss-120b", R"({"model_type": "gpt_oss", "attention_bias": true,
        "attention_dropout": 0.0, "head_dim": 64, "hidden_act": "silu", "hidden_size": 2880,
        "intermediate_size": 2880, "max_position_embeddings": 131072, "num_attention_heads": 64,
        "num_experts_per_tok": 4, "num_hidden_layers": 36, "num_key_value_heads": 8,
        "num_local_experts": 128, "sliding_window": 128, "swiglu_limit": 7.0,
        "tie_word_embeddings": false, "vocab_size": 201088})"},
    {"gpt-oss-20b", R"({"model_type": "gpt_oss", "attention_bias": true,
        "attention_dropout": 0.0, "head_dim": 64, "hidden_act": "silu", "hidden_size": 2880,
        "intermediate_size": 2880, "max_position_embeddings": 131072, "num_attention_heads": 64,
        "num_experts_per_tok": 4, "num_hidden_layers": 24, "num_key_value_heads": 8,
        "num_local_experts": 32, "sliding_window": 128, "swiglu_limit": 7.0,
        "tie_word_embeddings": false, "vocab_size": 201088})"},
    {"nemotron-4-340b", R"({"model_type": "nemotron", "hidden_act": "relu2",
        "hidden_size": 18432, "intermediate_size": 73728, "max_position_embeddings": 4096,
        "num_attention_heads": 96, "num_hidden_layers": 96, "num_key_value_heads": 8,
        "norm_eps": 1e-05, "partial_rotary_factor": 0.5, "vocab_size": 256000})"},
    {"gpt-neox-20b", R"({"model_type": "gpt_neox", "hidden_act": "gelu_fast",
        "hidden_size": 6144, "intermediate_size": 24576, "max_position_embeddings": 2048,
        "num_attention_heads": 64, "num_hidden_layers": 44, "rotary_pct": 0.25,
        "tie_word_embeddings": false, "use_parallel_residual": true, "vocab_size": 50432})"},
    {"bloom-176b", R"({"model_type": "bloom", "attention_dropout": 0.0, "hidden_dropout": 0.0,
        "hidden_size": 14336, "n_embed": 14336, "n_layer": 70, "num_attention_heads": 112,
        "seq_length": 2048, "slow_but_exact": false, "vocab_size": 250880})"},
    {"opt-175b", R"({"model_type": "opt", "activation_function": "relu",
        "attention_dropout": 0.0, "dropout": 0.1, "do_layer_norm_before": true, "ffn_dim": 49152,
        "hidden_size": 12288, "max_position_embeddings": 2048, "num_attention_heads": 96,
        "num_hidden_layers": 96, "vocab_size": 50272, "word_embed_proj_dim": 12288})"},
};

}  // namespace

TEST_CASE("An imported configuration equals the shipped model of the same name") {
  for (const Sample& sample : kShippedSamples) {
    INFO(sample.shipped_name);
    const auto ours = load_model(sample.shipped_name, shipped());
    REQUIRE(ours.ok());
    ModelSpec theirs = imported(sample.text);
    CHECK(parameter_count(theirs).total == parameter_count(*ours).total);
    CHECK(parameter_count(theirs).active == parameter_count(*ours).active);
    // What a configuration does not state.
    theirs.name = ours->name;
    theirs.source = ours->source;
    theirs.published_parameters = ours->published_parameters;
    theirs.published_active_parameters = ours->published_active_parameters;
    CHECK(theirs == *ours);
  }
}

TEST_CASE("The name is the last part of _name_or_path, else the family") {
  CHECK(imported(kLlama2).name == "Llama-2-70b-hf");
  CHECK(imported(with(kLlama2, "meta-llama/Llama-2-70b-hf", "")).name == "llama");
}

TEST_CASE("Keys a file leaves out take the default of their configuration class") {
  const std::string small = R"({"model_type": "%", "hidden_size": 4096, "intermediate_size": 8192,
      "num_attention_heads": 32, "num_hidden_layers": 4, "vocab_size": 1000)";
  const ModelSpec llama = imported(with(small, "%", "llama") + "}");
  CHECK(llama.num_query_groups == 32);  // as many as heads
  CHECK(llama.head_dim == 128);         // 4096 / 32
  CHECK(llama.max_seq_length == 2048);
  CHECK_FALSE(llama.tied_embeddings);
  const ModelSpec mistral = imported(with(small, "%", "mistral") + "}");
  CHECK(mistral.num_query_groups == 8);
  CHECK(mistral.window == 4096);
  const ModelSpec qwen3 = imported(with(small, "%", "qwen3") + R"(, "hidden_act": "silu"})");
  CHECK(qwen3.num_query_groups == 32);
  CHECK(qwen3.qk_norm);
  const ModelSpec gpt2 = imported(R"({"model_type": "gpt2", "n_embd": 768, "n_head": 12,
      "n_layer": 12, "vocab_size": 50257})");
  CHECK(gpt2.ffn_hidden_size == 4 * 768);
  CHECK(gpt2.tied_embeddings);
  CHECK(gpt2.linear_bias);
  CHECK(gpt2.dropout == 0.1);
  CHECK(gpt2.position_embedding == PositionEmbedding::kLearned);
}

TEST_CASE("A null means the absence that the class documents, not zero") {
  const std::string text = kLlama2;
  CHECK(imported(with(text, "\"num_key_value_heads\": 8", "\"num_key_value_heads\": null"))
            .num_query_groups == 64);
  const ModelSpec mistral = imported(R"({"model_type": "mistral", "hidden_size": 4096,
      "intermediate_size": 14336, "num_attention_heads": 32, "num_hidden_layers": 32,
      "num_key_value_heads": 8, "head_dim": null, "sliding_window": null, "vocab_size": 32000})");
  CHECK(mistral.window == 0);
  CHECK(mistral.head_dim == 128);
  const ModelSpec gpt2 = imported(R"({"model_type": "gpt2", "n_embd": 768, "n_head": 12,
      "n_inner": null, "n_layer": 12, "vocab_size": 50257})");
  CHECK(gpt2.ffn_hidden_size == 3072);
  // DeepSeek-V2-Lite: queries are projected directly.
  const ModelSpec lite = imported(R"({"model_type": "deepseek_v2", "first_k_dense_replace": 1,
      "hidden_size": 2048, "intermediate_size": 10944, "kv_lora_rank": 512,
      "moe_intermediate_size": 1408, "n_routed_experts": 64, "n_shared_experts": 2,
      "num_attention_heads": 16, "num_experts_per_tok": 6, "num_hidden_layers": 27,
      "q_lora_rank": null, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
      "vocab_size": 102400})");
  REQUIRE(lite.mla.has_value());
  CHECK(lite.mla->q_lora_rank == 0);
  // 2405.04434 app. B: 15.7B.
  CHECK(static_cast<double>(parameter_count(lite).total) == Approx(15.7e9).epsilon(0.01));
}

TEST_CASE("Falcon's three attention layouts and their norms are told apart") {
  const std::string head = R"({"model_type": "falcon", "hidden_size": 8192, "vocab_size": 65024,
      "num_attention_heads": 128, "num_hidden_layers": 60)";
  const ModelSpec grouped =
      imported(head + R"(, "new_decoder_architecture": true, "num_kv_heads": 8})");
  CHECK(grouped.num_query_groups == 8);
  CHECK(grouped.parallel_block);
  CHECK_FALSE(grouped.parallel_shared_norm);  // two norms side by side
  const ModelSpec one = imported(head + R"(, "multi_query": true})");
  CHECK(one.num_query_groups == 1);
  CHECK(one.parallel_shared_norm);
  const ModelSpec all = imported(head + R"(, "multi_query": false, "parallel_attn": false,
      "alibi": true, "bias": true})");
  CHECK(all.num_query_groups == 128);
  CHECK_FALSE(all.parallel_block);
  CHECK(all.position_embedding == PositionEmbedding::kAlibi);
  CHECK(all.linear_bias);
  // Files of the first release spell the sizes as BLOOM did.
  const ModelSpec old = imported(R"({"model_type": "falcon", "n_embed": 8192, "n_layer": 60,
      "n_head": 128, "n_head_kv": 8, "new_decoder_architecture": true, "vocab_size": 65024})");
  CHECK(parameter_count(old).total == parameter_count(grouped).total);
}

TEST_CASE("Patterns of expert layers become leading dense layers and a step") {
  const std::string text = kQwen3Moe;
  const ModelSpec dense_first =
      imported(with(text, "\"mlp_only_layers\": []", "\"mlp_only_layers\": [0, 1]"));
  REQUIRE(dense_first.moe.has_value());
  CHECK(dense_first.moe->first_dense == 2);
  CHECK(num_moe_layers(dense_first) == 92);
  const ModelSpec stepped =
      imported(with(text, "\"decoder_sparse_step\": 1", "\"decoder_sparse_step\": 2"));
  REQUIRE(stepped.moe.has_value());
  CHECK(num_moe_layers(stepped) == 47);
  CHECK(layer_kind(stepped, 0) == LayerKind::kDense);
  CHECK(layer_kind(stepped, 1) == LayerKind::kMoe);
  const ModelSpec listed =
      imported(with(text, "\"mlp_only_layers\": []", "\"mlp_only_layers\": [5]"));
  CHECK(num_moe_layers(listed) == 93);
  CHECK(layer_kind(listed, 5) == LayerKind::kDense);
  CHECK(layer_kind(listed, 6) == LayerKind::kMoe);
}

TEST_CASE("ERNIE's experts end where the configuration says, or with the last layer") {
  const auto with_end = [](const std::string& end) {
    return imported(R"({"model_type": "ernie4_5_moe", "hidden_size": 512, "intermediate_size": 1024,
        "num_attention_heads": 4, "num_hidden_layers": 6, "vocab_size": 1000,
        "moe_num_experts": 8, "moe_k": 2, "moe_intermediate_size": 256,
        "moe_layer_start_index": 1, "moe_layer_end_index": )" +
                    end + "}");
  };
  CHECK(num_moe_layers(with_end("-1")) == 5);
  CHECK(num_moe_layers(with_end("5")) == 5);
  CHECK(with_end("-1").notes.empty());
  const ModelSpec shorter = with_end("[3, 3]");
  CHECK(num_moe_layers(shorter) == 3);
  CHECK(layer_kind(shorter, 3) == LayerKind::kMoe);
  CHECK(layer_kind(shorter, 4) == LayerKind::kDense);
}

TEST_CASE("layer_types decides which layers are windowed") {
  const std::string head = R"({"model_type": "qwen3", "hidden_size": 512, "intermediate_size": 1024,
      "num_attention_heads": 4, "num_key_value_heads": 4, "num_hidden_layers": 4,
      "use_sliding_window": true, "sliding_window": 256, "max_window_layers": 0,
      "vocab_size": 1000)";
  CHECK(imported(head + "}").window_every == 1);
  const ModelSpec alternating = imported(head + R"(, "layer_types": ["sliding_attention",
      "full_attention", "sliding_attention", "full_attention"]})");
  CHECK(alternating.window == 256);
  CHECK(alternating.window_every == 2);
  CHECK(imported(head + R"(, "layer_types": ["full_attention", "full_attention",
      "full_attention", "full_attention"]})")
            .window == 0);
  const ModelSpec listed = imported(head + R"(, "layer_types": ["full_attention",
      "sliding_attention", "full_attention", "full_attention"]})");
  CHECK(layer_is_windowed(listed, 1));
  CHECK_FALSE(layer_is_windowed(listed, 0));
  CHECK(std::get<AttentionSpec>(layer_spec(listed, 1).mixer).window == 256);
  CHECK(problems(head + R"(, "layer_types": ["full_attention"]})")[0].message ==
        "'layer_types' lists 1 of 4 layers");
  CHECK(problems(head + R"(, "layer_types": ["full_attention", "full_attention",
      "linear_attention", "full_attention"]})")[0]
            .message == "layers of type 'linear_attention' are not supported");
}

TEST_CASE("An unknown model_type is named with its position and the supported families") {
  const Diagnostics d = problems("{\n  \"model_type\": \"novel\",\n  \"hidden_size\": 768\n}\n");
  REQUIRE(d.size() == 1);
  const std::string text = to_text(d[0]);
  CHECK(text.find("config.json:2:17: error: model_type 'novel' is not supported\n"
                  "    \"model_type\": \"novel\",\n"
                  "                  ^~~~~~~\n"
                  "  hint: supported: afmoe, apertus, arcee, baichuan, ") == 0);
  CHECK(text.find("qwen3_next") != std::string::npos);
}

TEST_CASE("What is not one decoder-only model is refused by name") {
  struct Row {
    const char* text;
    const char* message;
  };
  const auto row = GENERATE(values<Row>({
      {R"({"model_type": "llava", "text_config": {"model_type": "novel"}, "vision_config": {}})",
       "model_type 'novel' is not supported"},
      {R"({"model_type": "t5", "is_encoder_decoder": true})",
       "encoder-decoder models are not supported"},
      {R"({"hidden_size": 4096})", "'model_type' is missing"},
  }));
  INFO(row.text);
  const Diagnostics d = problems(row.text);
  REQUIRE(d.size() == 1);
  CHECK(d[0].message == row.message);
}

TEST_CASE("All problems of a configuration are reported at once, each at its value") {
  const Diagnostics d = problems(R"({
  "model_type": "llama",
  "hidden_size": "wide",
  "intermediate_size": -1,
  "num_attention_heads": 32,
  "hidden_act": "mish",
  "vocab_size": 32000
})");
  std::vector<std::string> lines;
  for (const Diagnostic& one : d) {
    lines.push_back(std::to_string(one.where.line) + ": " + one.message);
  }
  std::sort(lines.begin(), lines.end());
  CHECK(lines ==
        std::vector<std::string>{"1: 'num_hidden_layers' is missing",
                                 "3: 'hidden_size' must be a whole number, got \"wide\"",
                                 "4: 'intermediate_size' must be from 1 to 1,073,741,824, got -1",
                                 "6: activation 'mish' is not supported"});
}

TEST_CASE("Contradictions are reported where they stand") {
  const std::string text = kLlama2;
  const Diagnostics groups =
      problems(with(text, "\"num_key_value_heads\": 8", "\"num_key_value_heads\": 7"));
  REQUIRE(groups.size() == 1);
  CHECK(groups[0].where.line == 14);
  CHECK(groups[0].where.column == 26);
  const Diagnostics heads =
      problems(with(text, "\"num_attention_heads\": 64", "\"num_attention_heads\": 60"));
  CHECK(heads[0].where.line == 12);
  const Diagnostics spellings = problems(R"({"model_type": "falcon", "hidden_size": 8192,
  "num_attention_heads": 128, "num_hidden_layers": 60,
  "n_layer": 61, "vocab_size": 65024})");
  REQUIRE(spellings.size() == 1);
  CHECK(spellings[0].message ==
        "'n_layer' contradicts 'num_hidden_layers' (60), another spelling of the same key");
  CHECK(spellings[0].where.line == 3);
}

TEST_CASE("Hostile configurations end in a diagnostic") {
  const char* text = GENERATE(
      "", "[]", "null", "{", "{\"model_type\": [\"llama\"]}", "{\"model_type\": {}}",
      "{\"model_type\": \"mpt\", \"attn_config\": 3, \"d_model\": 1, \"n_heads\": 1, "
      "\"n_layers\": 1, \"vocab_size\": 1}",
      "{\"model_type\": \"mpt\", \"expansion_ratio\": 1e300, \"d_model\": 1, \"n_heads\": 1, "
      "\"n_layers\": 1, \"vocab_size\": 1}",
      "{\"model_type\": \"llama\", \"num_hidden_layers\": 99999999999, \"hidden_size\": 64, "
      "\"num_attention_heads\": 4, \"intermediate_size\": 64, \"vocab_size\": 8}",
      "{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"hidden_size\": 1073741824, "
      "\"num_attention_heads\": 1, \"intermediate_size\": 1073741824, \"vocab_size\": 8}",
      "{\"model_type\": \"qwen3_moe\", \"num_hidden_layers\": 4, \"hidden_size\": 64, "
      "\"num_attention_heads\": 4, \"intermediate_size\": 64, \"vocab_size\": 8, "
      "\"num_experts\": 4, \"moe_intermediate_size\": 8, \"mlp_only_layers\": [-1]}");
  INFO(text);
  CHECK_FALSE(parse_hf_config(text, "config.json").ok());
}

}  // namespace meshplan
