// Published configurations of the families: every one has as many parameters as its publisher
// states. The files hold the keys of the published config.json that sizes follow from; counts are
// typed by hand.
#include <string>
#include <vector>

#include "io/load.hpp"
#include "model/parameters.hpp"
#include "spec/model.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

struct Published {
  const char* name;
  double parameters;
  const char* source;
  bool with_prediction = false;  // counts the layers of multi-token prediction too
};

const std::vector<Published>& published() {
  static const std::vector<Published> kRows{
      {"llama-3.2-1b", 1'235'814'400, "safetensors metadata of the hub"},
      {"gemma-2-9b", 9'241'705'984, "safetensors metadata of the hub"},
      {"gemma-3-4b", 4'300'079'472, "safetensors metadata of the hub"},
      {"gemma-3-27b", 27'432'406'640, "safetensors metadata of the hub"},
      {"llama-4-scout", 109e9, "model card: 109B parameters"},
      {"llama-4-maverick", 400e9, "model card: 400B parameters"},
      {"qwen2.5-0.5b", 494'032'768, "safetensors metadata of the hub"},
      {"qwen2.5-7b", 7'615'616'512, "safetensors metadata of the hub"},
      {"qwen2.5-72b", 72'706'203'648, "safetensors metadata of the hub"},
      {"qwen2.5-vl-7b", 8'292'166'656, "safetensors metadata of the hub"},
      {"qwen2-vl-7b", 8'291'375'616, "safetensors metadata of the hub"},
      {"qwen3-vl-8b", 8'767'123'696, "safetensors metadata of the hub"},
      {"qwen3-vl-30b-a3b", 31'070'754'032, "safetensors metadata of the hub"},
      {"qwen3-next-80b-a3b", 79.7e9,
       "model card: 80B in total; 79.7B without multi-token prediction"},
      {"qwen3.5-397b-a17b", 397e9, "model card: 397B in total"},
      {"qwen3.5-35b-a3b", 35e9, "model card: 35B in total"},
      {"deepseek-v3.2", 671e9,
       "DeepSeek-V3 (2412.19437), which it continues; the index adds 0.1 %"},
      {"deepseek-v4-flash", 284e9, "model card: 284B parameters"},
      {"falcon-h1-34b", 33.6e9, "2507.22448: 33.6B parameters"},
      {"glm-5", 744e9, "model card: 744B parameters"},
      {"kimi-k2", 1'026'408'232'448, "safetensors metadata of the hub"},
      {"kimi-linear-48b-a3b", 49'122'681'728, "safetensors metadata of the hub"},
      {"kimi-k3", 2.78e12, "model card: 2.8T; 896 experts of 33 M in 92 layers by hand"},
      {"minimax-text-01", 456e9, "2501.08313 abstract: 456 billion parameters"},
      {"minimax-m2", 228.7e9, "safetensors metadata of the hub, rounded"},
      {"nemotron-h-56b", 56.3e9, "2504.03624 Table 1 (56B); [F-SSM-1] by hand"},
      {"nemotron-3-nano-30b-a3b", 31.6e9, "2512.20848: 31.6B parameters in total"},
      {"nemotron-3-super-120b-a12b", 120.6e9, "model card: 120.6B parameters in total"},
      {"nemotron-super-49b", 49'867'145'216, "safetensors metadata of the hub"},
      {"step-3", 316e9, "2507.19427 Table 1: the language model's 316B of 321B"},
      {"olmo-2-7b", 7'298'617'344, "safetensors metadata of the hub"},
      {"olmo-7b", 6'888'095'744, "safetensors metadata of the hub"},
      {"olmoe-1b-7b", 6'919'161'856, "safetensors metadata of the hub"},
      {"phi-2", 2'779'683'840, "safetensors metadata of the hub"},
      {"phi-3.5-moe", 41'873'153'344, "safetensors metadata of the hub"},
      {"gpt-j-6b", 6'053'381'344, "checkpoint of the hub"},
      {"starcoder2-15b", 15'957'889'024, "safetensors metadata of the hub"},
      {"stablelm-3b", 2'795'443'200, "safetensors metadata of the hub"},
      {"command-r", 34'980'831'232, "safetensors metadata of the hub"},
      {"command-r7b", 8'028'033'024, "safetensors metadata of the hub"},
      {"internlm2-20b", 19'861'149'696, "safetensors metadata of the hub"},
      {"baichuan2-7b", 7'505'973'248, "checkpoint of the hub"},
      {"chatglm3-6b", 6'243'584'032, "safetensors metadata of the hub"},
      {"glm-4-9b", 9'400'279'040, "safetensors metadata of the hub"},
      {"dbrx", 131'596'523'520, "safetensors metadata of the hub"},
      {"jamba-v0.1", 51'570'323'328, "safetensors metadata of the hub"},
      {"mamba-2.8b", 2'768'345'600, "safetensors metadata of the hub"},
      {"mamba-codestral-7b", 7'285'403'648, "safetensors metadata of the hub"},
      {"smollm3-3b", 3'075'098'624, "safetensors metadata of the hub"},
      {"afm-4.5b", 4.62e9, "safetensors metadata of the hub, rounded"},
      {"seed-oss-36b", 36'151'104'512, "safetensors metadata of the hub"},
      {"hunyuan-a13b", 80'393'183'232, "safetensors metadata of the hub"},
      {"grok-1", 315.7e9,
       "release of the weights (314B); 64 layers of 8 x 3 x 6144 x 32768 and more, by hand"},
      {"ling-mini-2.0", 16'255'643'392, "safetensors metadata of the hub"},
      {"step-3.7-flash", 196e9, "model card of Step-3.5-Flash: 196B parameters"},
      {"mimo-v2-flash", 309e9, "model card: 309B parameters"},
      {"gemma-4-31b", 31.3e9, "safetensors metadata of the hub, rounded"},
      {"ernie-4.5-21b-a3b", 21.8e9, "safetensors metadata of the hub, rounded"},
      {"apertus-8b", 8'053'338'176, "safetensors metadata of the hub"},
      {"exaone-3.5-7.8b", 7'818'448'896, "safetensors metadata of the hub"},
      {"exaone-4.0-32b", 30.95e9 + 2.0 * 102'400 * 5'120, "model card: 30.95B without embeddings"},
      {"k-exaone-236b-a23b", 236e9, "model card: 236B in total"},
      {"dots.llm1", 142'774'381'696, "safetensors metadata of the hub"},
      {"internlm3-8b", 8'804'241'408, "safetensors metadata of the hub"},
      {"longcat-flash", 560e9, "2509.01322 abstract: 560 billion parameters"},
      {"minicpm-2b", 2'724'880'896, "checkpoint of the hub"},
      {"minicpm3-4b", 4.07e9, "safetensors metadata of the hub, rounded"},
      {"solar-open-100b", 102.6e9, "model card: 102.6B in total"},
      {"trinity-mini", 26.1e9, "safetensors metadata of the hub, rounded"},
      {"cwm-32b", 32.6e9, "safetensors metadata of the hub, rounded"},
      {"deepseek-moe-16b", 16'375'728'128, "safetensors metadata of the hub"},
      {"glm-4.5v", 107.7e9, "safetensors metadata of the hub, rounded"},
      {"glm-4.1v-9b", 10.29e9, "safetensors metadata of the hub, rounded"},
      {"glm-4.7-flash", 30e9, "model card: 30B in total"},
      {"kimi-vl-a3b", 16.4e9, "2504.07491: 16B, of which 2.8B active; weights of the hub, rounded"},
      {"internvl3-8b", 7.94e9, "safetensors metadata of the hub, rounded"},
      {"mistral-small-3.1", 24.0e9, "model card: 24B"},
      {"codegen-16b", 16.0e9, "2203.13474 Table 1: 16.1B; 34 layers of 6144 by hand"},
      {"ernie-4.5-0.3b", 360'748'032, "safetensors metadata of the hub"},
      {"bitnet-b1.58-2b-4t", 2.41e9, "2504.12285: 2B; 30 layers and the embedding by hand"},
      {"jais-13b", 13.0e9, "2308.16149: 13 billion; 40 layers of 4 h^2 + 3 h f by hand"},
      {"xglm-7.5b", 7.5e9, "2112.10668 Table 1: 7.5B"},
      {"qwen-7b", 7'721'324'544, "safetensors metadata of the hub"},
      {"gpt-neo-2.7b", 2'651'307'520, "checkpoint of the hub"},
      {"vaultgemma-1b", 1.04e9, "size of the hub: 1.04B; 26 layers of 1152 by hand"},
      {"nanochat-d20", 561e6, "its repository: 561M parameters"},
      {"flexolmo-7x7b", 33.3e9, "model card: 33B; 32 layers of 7 experts by hand"},
      {"hyperclovax-think-14b", 14.74e9, "model card: 14.74B parameters"},
      {"youtu-llm-2b", 1.96e9, "model card: 1.96B parameters"},
      {"orion-14b", 14.5e9, "model card: 14B; 40 layers of 4 h^2 + 3 h f by hand"},
      {"a.x-k1", 519e9, "model card: 519B parameters"},
      {"jais-2-8b", 8.09e9, "model card: 8B; 32 layers of 4 h^2 + 2 h f by hand"},
      {"ring-mini-linear-2.0", 16.4e9, "2510.19338: 16B; 20 layers by hand"},
      {"nemotron-nano-12b-v2", 12.31e9, "2508.14444: 12B; size of the hub: 12.3B"},
      {"granite-4.0-h-small", 32.2e9, "model card: 32B; size of the hub: 32.2B"},
      {"gemma-3-270m", 268'098'176, "safetensors metadata of the hub"},
      {"phi-4-mini", 3'836'021'760, "safetensors metadata of the hub"},
      {"ernie-4.5-300b-a47b", 300e9, "model card: 300B parameters"},
      {"ling-1t", 1000e9, "model card: 1T parameters"},
      {"hunyuan-large", 389e9, "2411.02265: 389 billion parameters"},
      {"trinity-large", 398e9, "model card: 398B parameters"},
      {"aya-vision-8b", 8.63e9, "model card: 8B; size of the hub: 8.63B"},
      {"llava-onevision-7b", 8.03e9, "model card: 7B; size of the hub: 8.03B"},
      {"mimo-7b", 7'833'409'536, "safetensors metadata of the hub, prediction layer included",
       true},
  };
  return kRows;
}

ModelSpec imported(const std::string& name) {
  const std::string file =
      std::string(MESHPLAN_SOURCE_DIR) + "/test/io/hf_configs/" + name + ".json";
  const auto text = read_text_file(file);
  REQUIRE(text.ok());
  const auto model = parse_hf_config(*text, name + ".json");
  if (!model.ok()) FAIL(to_text(model.errors()));
  return *model;
}

}  // namespace

TEST_CASE("Every family's parameter count lies within 0.5 % of the published one") {
  for (const Published& row : published()) {
    INFO(row.name << ", " << row.source);
    const ParameterCount count = parameter_count(imported(row.name));
    const double total = static_cast<double>(count.total + (row.with_prediction ? count.mtp : 0));
    CHECK(total == Approx(row.parameters).epsilon(0.005));
  }
}

TEST_CASE("LongCat-Flash: two layers for one, and of a token's choices those that cost something") {
  const ModelSpec m = imported("longcat-flash");
  CHECK(m.num_layers == 56);
  REQUIRE(layer_kind(m, 0) == LayerKind::kMoe);
  CHECK(layer_kind(m, 1) == LayerKind::kDense);
  // 12 choices of 768 experts, 256 of which return the token (2509.01322 section 2.1): 8, and 27 B.
  CHECK(m.moe->top_k == 8);
  CHECK(static_cast<double>(parameter_count(m).active) == Approx(27e9).epsilon(0.04));
}

TEST_CASE("SmolVLM joins squares of patches by one matrix") {
  const ModelSpec m = imported("smolvlm2-2.2b");
  REQUIRE(m.encoder);
  CHECK(m.encoder->merged_patches == 16);
  CHECK(m.encoder->projector_hidden_size == 0);
}

TEST_CASE("Trinity and EXAONE 4 rotate where they have a window") {
  for (const char* name : {"trinity-mini", "exaone-4.0-32b", "k-exaone-236b-a23b"}) {
    INFO(name);
    const ModelSpec m = imported(name);
    CHECK(std::get<AttentionSpec>(layer_spec(m, 0).mixer).window > 0);
    CHECK(std::get<AttentionSpec>(layer_spec(m, 0).mixer).rotary_dim != 0);
    CHECK(std::get<AttentionSpec>(layer_spec(m, 3).mixer).window == 0);
    CHECK(std::get<AttentionSpec>(layer_spec(m, 3).mixer).rotary_dim == 0);
  }
}

TEST_CASE("Layers that differ are those that the configuration lists") {
  const ModelSpec gemma = imported("gemma-3-4b");
  CHECK(layer_is_windowed(gemma, 4));
  CHECK_FALSE(layer_is_windowed(gemma, 5));
  CHECK(gemma.encoder.has_value());
  const ModelSpec scout = imported("llama-4-scout");
  CHECK(std::get<AttentionSpec>(layer_spec(scout, 0).mixer).chunked);
  CHECK(std::get<AttentionSpec>(layer_spec(scout, 3).mixer).window == 0);
  CHECK(std::get<AttentionSpec>(layer_spec(scout, 3).mixer).rotary_dim == 0);
  const ModelSpec next = imported("qwen3-next-80b-a3b");
  CHECK(std::holds_alternative<GatedDeltaNetSpec>(layer_spec(next, 0).mixer));
  CHECK(std::get<AttentionSpec>(layer_spec(next, 3).mixer).output_gate);
  const ModelSpec nano = imported("nemotron-3-nano-30b-a3b");
  CHECK(std::holds_alternative<Mamba2Spec>(layer_spec(nano, 0).mixer));
  CHECK_FALSE(has_mixer(layer_spec(nano, 1)));
  CHECK(num_moe_layers(nano) == 23);
  const ModelSpec v4 = imported("deepseek-v4-flash");
  const auto ratio = [&](std::int64_t layer) {
    return std::get<CompressedAttentionSpec>(layer_spec(v4, layer).mixer).compress_ratio;
  };
  CHECK(ratio(1) == 0);
  CHECK(ratio(2) == 4);
  CHECK(ratio(41) == 128);
  CHECK(v4.mhc_num_residual_streams == 4);
  CHECK(std::get<CompressedAttentionSpec>(v4.mtp_layer.value().mixer).compress_ratio == 0);
  const auto side = std::get<ParallelMixerSpec>(layer_spec(imported("falcon-h1-34b"), 0).mixer);
  CHECK(side.attention.num_query_groups == 4);
  CHECK(side.mamba.num_heads == 32);
  CHECK(side.mamba.num_groups == 2);
  const ModelSpec minimax = imported("minimax-text-01");
  CHECK(std::holds_alternative<LightningSpec>(layer_spec(minimax, 0).mixer));
  CHECK(std::holds_alternative<AttentionSpec>(layer_spec(minimax, 7).mixer));
  const ModelSpec super = imported("nemotron-3-super-120b-a12b");
  REQUIRE(super.mtp_layer.has_value());
  CHECK(has_mixer(*super.mtp_layer));
  CHECK(experts_of(*super.mtp_layer)->latent_size == 1024);
}

TEST_CASE("Models that are no decoders of text are refused by their kind") {
  const auto refused = [](const std::string& text) {
    const auto model = parse_hf_config(text, "config.json");
    REQUIRE_FALSE(model.ok());
    return to_text(model.errors());
  };
  const auto has = [](const std::string& text, const std::string& part) {
    CAPTURE(text);
    return text.find(part) != std::string::npos;
  };
  CHECK(has(refused(R"({"model_type": "t5"})"), "'t5' is an encoder-decoder model"));
  CHECK(has(refused(R"({"model_type": "bert"})"), "'bert' is an encoder-only model"));
  CHECK(has(refused(R"({"model_type": "whisper"})"), "'whisper' is an encoder-decoder model"));
  CHECK(has(refused(R"({"model_type": "siglip"})"), "'siglip' is a vision model"));
  CHECK(has(refused(R"({"_class_name": "FluxTransformer2DModel"})"), "a diffusion model"));
  CHECK(has(refused(R"({"model_type": "qwen2_5_omni", "thinker_config":
      {"model_type": "qwen2_5_omni_thinker", "audio_config": {"d_model": 1280}}})"),
            "the model has an audio part ('audio_config')"));
  CHECK(has(refused(R"({"model_type": "zamba2"})"), "layers that share weights"));
  CHECK(has(refused(R"({"model_type": "mllama", "text_config": {}})"), "attend to an encoder"));
  CHECK(has(refused(R"({"model_type": "lfm2"})"), "short convolutions"));
}

TEST_CASE("An unknown family is refused with what has no place and a model file of the rest") {
  const auto model = parse_hf_config(R"({
  "model_type": "novel",
  "hidden_size": 1024, "num_hidden_layers": 12, "num_attention_heads": 16,
  "num_key_value_heads": 4, "intermediate_size": 4096, "vocab_size": 32000,
  "rms_norm_eps": 1e-6, "torch_dtype": "bfloat16",
  "wormhole_depth": 3
})",
                                     "config.json");
  REQUIRE_FALSE(model.ok());
  REQUIRE(model.errors().size() == 1);
  const Diagnostic& d = model.errors().front();
  CHECK(d.message == "model_type 'novel' is not supported");
  CHECK(d.where.line == 2);
  INFO(d.hint);
  CHECK(d.hint.find("these keys have no place: wormhole_depth;") == 0);
  const std::size_t at = d.hint.find('{');
  REQUIRE(at != std::string::npos);
  const auto written = parse_model(d.hint.substr(at), "template.yaml");
  if (!written.ok()) FAIL(to_text(written.errors()));
  CHECK(written->num_query_groups == 4);
  CHECK(written->ffn_hidden_size == 4096);
}

}  // namespace meshplan
