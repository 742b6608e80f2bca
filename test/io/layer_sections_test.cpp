// Sections of layers in model files: kinds with a state, patterns, repeats, prediction, encoders.
#include <string>

#include "io/load.hpp"
#include "spec/model.hpp"
#include "support/catch.hpp"

using namespace meshplan;

namespace {

const std::string kHead = R"(name: hybrid
hidden_size: 1024
num_attention_heads: 16
num_query_groups: 4
head_dim: 64
ffn_hidden_size: 4096
vocab_size: 32000
max_seq_length: 8192
moe: {num_experts: 8, top_k: 2, expert_ffn_hidden_size: 512, latent_size: 256}
mixers:
  mamba: {kind: mamba2, num_heads: 32, head_dim: 64, state_size: 128, num_groups: 8}
  gated_delta_net: {kind: gated_delta_net, num_key_heads: 8, num_value_heads: 16, key_head_dim: 64, value_head_dim: 64}
)";

ModelSpec parsed(const std::string& text) {
  const auto m = parse_model(text, "m.yaml");
  if (!m.ok()) FAIL(to_text(m.errors()));
  return *m;
}

std::string broken(const std::string& text) {
  const auto m = parse_model(text, "m.yaml");
  return m.ok() ? "good" : to_text(m.errors());
}

bool has(const std::string& text, const std::string& part) {
  CAPTURE(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a model file gives its layers as a pattern") {
  const ModelSpec m = parsed(kHead + "num_layers: 7\nlayers: MEG-*E-/*E/*E\nmtp_layers: 2\n");
  REQUIRE(m.layers.size() == 7);
  const Mamba2Spec mamba{.num_heads = 32, .head_dim = 64, .state_size = 128, .num_groups = 8};
  CHECK(m.layers[0].layer == LayerSpec{mamba, NoneSpec{}});
  CHECK(experts_of(m.layers[1].layer)->latent_size == 256);
  CHECK(std::holds_alternative<GatedDeltaNetSpec>(m.layers[2].layer.mixer));
  CHECK(m.layers[3].layer == LayerSpec{NoneSpec{}, DenseMlpSpec{4096}});
  CHECK(m.layers[4].layer == LayerSpec{AttentionSpec{16, 4, 64, 0}, NoneSpec{}});
  CHECK(m.mtp_layers == 2);
  CHECK(m.mtp_layer->mixer == Mixer{AttentionSpec{16, 4, 64, 0}});
}

TEST_CASE("a list of layers may repeat, leave a part out and say how prediction is built") {
  const ModelSpec m = parsed(kHead + R"(num_layers: 9
mtp_layers: 3
mtp: {shared: true, mixer: attention, feed_forward: dense}
layers:
  - {count: 1, mixer: none, feed_forward: dense}
  - repeat: 4
    layers:
      - {count: 1, mixer: gated_delta_net, feed_forward: experts}
      - {count: 1, mixer: {output_gate: true, rotary_dim: 16}, feed_forward: none}
)");
  REQUIRE(m.layers.size() == 9);
  CHECK_FALSE(has_mixer(m.layers[0].layer));
  for (std::size_t i = 1; i < 9; i += 2) {
    CHECK(experts_of(m.layers[i].layer) != nullptr);
    CHECK(std::get<AttentionSpec>(m.layers[i + 1].layer.mixer).output_gate);
    CHECK(std::get<AttentionSpec>(m.layers[i + 1].layer.mixer).rotary_dim == 16);
    CHECK_FALSE(has_feed_forward(m.layers[i + 1].layer));
  }
  CHECK(m.mtp_shared);
  CHECK(m.mtp_layer->feed_forward == FeedForward{DenseMlpSpec{4096}});
}

TEST_CASE("an encoder is a section of the file") {
  const ModelSpec m = parsed(kHead + R"(num_layers: 1
layers: E
encoder: {num_layers: 24, hidden_size: 1024, num_attention_heads: 16, ffn_hidden_size: 4096,
          patches_per_image: 576, merged_patches: 4, projector_hidden_size: 2048}
)");
  REQUIRE(m.encoder.has_value());
  CHECK(m.encoder->patches_per_image == 576);
  CHECK(m.encoder->linear_bias);
  CHECK(m.encoder->images_per_sequence == 1);
}

TEST_CASE("what is wrong with a pattern or a section is said where it stands") {
  CHECK(has(broken(kHead + "num_layers: 2\nlayers: M+\n"),
            "the pattern has '+', but no section 'latent_attention'"));
  CHECK(has(broken(kHead + "num_layers: 2\nlayers: M|*\n"), "'|' divides the layers"));
  CHECK(has(broken(kHead + "num_layers: 3\nlayers: M*\n"),
            "'layers' adds up to 2 layers, but 'num_layers' is 3"));
  CHECK(
      has(broken(kHead + "num_layers: 2\nlayers: [{count: 2, mixer: none, feed_forward: none}]\n"),
          "has neither a mixer nor a feed-forward"));
  CHECK(has(broken(kHead + "num_layers: 2\nlayers: [{repeat: 0, layers: [{count: 1, mixer: mamba, "
                           "feed_forward: none}]}]\n"),
            "'layers[0].repeat' must be from 1"));
  CHECK(
      has(broken(kHead + "num_layers: 1\nlayers: [{count: 1, mixer: {kind: mamba2, num_heads: 8}, "
                         "feed_forward: none}]\n"),
          "'layers[0].mixer.head_dim' is missing"));
  CHECK(
      has(broken(kHead + "num_layers: 1\nlayers: [{count: 1, mixer: {kind: mamba2, num_heads: 30, "
                         "head_dim: 64, state_size: 128, num_groups: 8}, feed_forward: none}]\n"),
          "'num_groups' must divide its 'num_heads' 30, got 8"));
  CHECK(has(broken(kHead + "num_layers: 1\nlayers: [{count: 1, mixer: {kind: mamba3}, "
                           "feed_forward: none}]\n"),
            "mamba2"));
  CHECK(has(broken(kHead + "num_layers: 1\nlayers: M\nmtp: {shared: true}\n"),
            "'mtp' needs 'mtp_layers'"));
}
