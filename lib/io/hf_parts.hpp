#pragma once
// Parts that several Hugging Face model families read alike, and the families themselves.
#include <cstdint>
#include <string>
#include <vector>

#include "io/hf_fields.hpp"
#include "spec/model.hpp"

namespace meshplan::hf {

struct CoreNames {
  HfNames layers{"num_hidden_layers"};
  HfNames hidden{"hidden_size"};
  HfNames heads{"num_attention_heads"};
};

// The sizes that make a model what it is: they have no default, a file without them is reported.
// Key/value heads start out as many as the attention heads.
[[nodiscard]] ModelSpec read_core(HfFields& f, const CoreNames& names = {});

void read_activation(HfFields& f, ModelSpec& m, const HfNames& names, const std::string& fallback);
// Key/value heads: a null means as many as attention heads; so does `fallback` 0 for a missing key.
void read_groups(HfFields& f, ModelSpec& m, const HfNames& names, std::int64_t fallback);
// `fallback` 0: hidden size over attention heads.
void read_head_dim(HfFields& f, ModelSpec& m, std::int64_t fallback);
void set_attention_kind(ModelSpec& m);
// The dropout of the residual stream and that of the attention: the larger, which costs more.
void read_dropout(HfFields& f, ModelSpec& m, const HfNames& hidden, double hidden_fallback,
                  const HfNames& attention, double attention_fallback);
// Biases of the attention's and of the MLP's linear layers; `names` say where they are switched.
void set_biases(HfFields& f, ModelSpec& m, bool attention, bool mlp, const HfNames& names);

[[nodiscard]] std::vector<bool> all_layers(const ModelSpec& m, bool value);
// `windowed` says which layers attend to `window` tokens only, unless the file's layer_types do.
void read_window(HfFields& f, ModelSpec& m, std::vector<bool> windowed, std::int64_t window);

[[nodiscard]] MoeSpec read_experts(HfFields& f, const HfNames& experts, std::int64_t top_k,
                                   const HfNames& ffn);
// `experts` says which layers have experts: leading dense layers, then every n-th, or an error.
void set_expert_layers(HfFields& f, ModelSpec& m, const std::vector<bool>& experts,
                       const HfNames& names);

// The families. Defaults are those of the configuration class of the same name (transformers,
// src/transformers/models/<family>/configuration_<family>.py). Granite is Llama with factors that
// cost nothing (the same defaults); Kimi K2 is DeepSeek-V3 (its configuration class).
[[nodiscard]] ModelSpec read_llama(HfFields& f);
[[nodiscard]] ModelSpec read_mistral(HfFields& f);
[[nodiscard]] ModelSpec read_mixtral(HfFields& f);
[[nodiscard]] ModelSpec read_phi3(HfFields& f);
[[nodiscard]] ModelSpec read_gemma(HfFields& f);
[[nodiscard]] ModelSpec read_qwen2(HfFields& f);
[[nodiscard]] ModelSpec read_qwen2_moe(HfFields& f);
[[nodiscard]] ModelSpec read_qwen3(HfFields& f);
[[nodiscard]] ModelSpec read_qwen3_moe(HfFields& f);
[[nodiscard]] ModelSpec read_deepseek_v2(HfFields& f);
[[nodiscard]] ModelSpec read_deepseek_v3(HfFields& f);
[[nodiscard]] ModelSpec read_glm4_moe(HfFields& f);
[[nodiscard]] ModelSpec read_gpt_oss(HfFields& f);
[[nodiscard]] ModelSpec read_nemotron(HfFields& f);
[[nodiscard]] ModelSpec read_gpt2(HfFields& f);
[[nodiscard]] ModelSpec read_gpt_bigcode(HfFields& f);
[[nodiscard]] ModelSpec read_gpt_neox(HfFields& f);
[[nodiscard]] ModelSpec read_falcon(HfFields& f);
[[nodiscard]] ModelSpec read_mpt(HfFields& f);
[[nodiscard]] ModelSpec read_bloom(HfFields& f);
[[nodiscard]] ModelSpec read_opt(HfFields& f);

}  // namespace meshplan::hf
