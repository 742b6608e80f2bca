// What an import says beside a model's sizes: nothing of a file is left out without a word.
#include <algorithm>
#include <string>
#include <variant>

#include "io/load.hpp"
#include "model/parameters.hpp"
#include "spec/model.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

const std::string kLlama =
    R"("num_hidden_layers": 2, "hidden_size": 1024, "num_attention_heads": 8,
       "intermediate_size": 2048, "vocab_size": 32000)";

ModelSpec read_config(const std::string& text) {
  const auto model = parse_hf_config(text, "config.json");
  if (!model.ok()) FAIL(to_text(model.errors()));
  return *model;
}

ModelSpec read_shipped_config(const std::string& name) {
  const auto text =
      read_text_file(std::string(MESHPLAN_SOURCE_DIR) + "/test/io/hf_configs/" + name + ".json");
  REQUIRE(text.ok());
  return read_config(*text);
}

bool says(const ModelSpec& m, const std::string& part) {
  return std::any_of(m.notes.begin(), m.notes.end(),
                     [&](const std::string& note) { return note.find(part) != std::string::npos; });
}

}  // namespace

TEST_CASE("a key that a known family does not have is named, unless it is off or harmless") {
  const ModelSpec m = read_config("{\"model_type\": \"llama\", " + kLlama +
                                  R"(, "wormhole_depth": 3, "tunnel": false, "rms_norm_eps": 1e-5,
                                      "rope_theta": 10000, "gate": null})");
  REQUIRE(m.notes.size() == 1);
  CHECK(m.notes.front() ==
        "this key of the configuration has no effect on the plan: wormhole_depth");
  CHECK(read_config("{\"model_type\": \"llama\", " + kLlama + "}").notes.empty());
}

TEST_CASE("what a family has and a plan does not is said") {
  CHECK(says(read_shipped_config("longcat-flash"), "top_k is 8"));
  CHECK(says(read_shipped_config("bitnet-b1.58-2b-4t"), "quantisation of its weights"));
  CHECK(says(read_shipped_config("apertus-8b"), "'xielu' is planned as relu2"));
  CHECK(says(
      read_config("{\"model_type\": \"gemma2\", \"attn_logit_softcapping\": 50.0, " + kLlama + "}"),
      "capped by a tanh"));
  CHECK(says(read_shipped_config("hunyuan-large"), "share keys and values (use_cla)"));
  const ModelSpec vision =
      read_config("{\"model_type\": \"llava\", \"text_config\": {\"model_type\": \"llama\", " +
                  kLlama + "}, \"vision_config\": {\"model_type\": \"radio\"}}");
  CHECK_FALSE(vision.encoder.has_value());
  CHECK(says(vision, "the vision encoder is left out"));
}

TEST_CASE("Ling's linear models: softmax attention ends each group of layers") {
  const ModelSpec mini = read_shipped_config("ring-mini-linear-2.0");
  CHECK(std::holds_alternative<LightningSpec>(layer_spec(mini, 3).mixer));
  CHECK(std::holds_alternative<AttentionSpec>(layer_spec(mini, 4).mixer));
  const ModelSpec latent = read_shipped_config("ring-2.5-1t");
  CHECK(std::holds_alternative<LightningSpec>(layer_spec(latent, 6).mixer));
  CHECK(std::holds_alternative<LatentAttentionSpec>(layer_spec(latent, 7).mixer));
  CHECK(static_cast<double>(parameter_count(latent).total) == Approx(1e12).epsilon(0.02));
}

TEST_CASE("an encoder whose heads are wider than its hidden size over them") {
  const ModelSpec m = read_config(
      "{\"model_type\": \"kimi_k25\", \"text_config\": {\"model_type\": \"llama\", " + kLlama +
      R"(}, "vision_config": {"vt_num_hidden_layers": 2, "vt_hidden_size": 1024,
          "qkv_hidden_size": 1536, "vt_num_attention_heads": 12, "vt_intermediate_size": 4096}})");
  REQUIRE(m.encoder.has_value());
  CHECK(m.encoder->head_dim == 128);
}

TEST_CASE("experts of two kinds in a layer are refused where they are listed") {
  const auto model = parse_hf_config(
      "{\"model_type\": \"ernie4_5_moe_vl\", " + kLlama + R"(, "moe_num_experts": [64, 64]})",
      "config.json");
  REQUIRE_FALSE(model.ok());
  CHECK(to_text(model.errors()).find("experts of more than one kind") != std::string::npos);
}

}  // namespace meshplan
