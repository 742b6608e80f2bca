#pragma once
// Parts that several Hugging Face model families read alike, and the families themselves.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "io/hf_fields.hpp"
#include "spec/model.hpp"

namespace meshplan::hf {

struct CoreNames {
  HfNames layers{"num_hidden_layers"};
  HfNames hidden{"hidden_size"};
  HfNames heads{"num_attention_heads"};
  HfNames vocab{"vocab_size"};
  std::int64_t default_heads = 0, default_vocab = 0;  // 0: a file without them is reported
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
// Biases of the attention's and of the MLP's linear layers.
void set_biases(ModelSpec& m, bool attention, bool mlp);

[[nodiscard]] std::vector<bool> all_layers(const ModelSpec& m, bool value);
// `windowed` says which layers attend to `window` tokens only, unless the file's layer_types do.
void read_window(HfFields& f, ModelSpec& m, std::vector<bool> windowed, std::int64_t window);

[[nodiscard]] MoeSpec read_experts(HfFields& f, const HfNames& experts, std::int64_t top_k,
                                   const HfNames& ffn);
// `n_group` and `topk_group`: groups of experts that the router chooses first, where it leaves any.
void read_router_groups(HfFields& f, MoeSpec& moe);
// `attn_logit_softcapping`, and what is not modelled of it.
void read_score_cap(HfFields& f, ModelSpec& m);
// `experts` says which layers have experts: flat keys where they can say it, else a list.
void set_expert_layers(ModelSpec& m, const std::vector<bool>& experts);
// Layers that the file's list calls `type` are edited, those called `plain` are not; false where
// there is no list.
bool read_layer_types(HfFields& f, ModelSpec& m, const HfNames& names, const std::string& type,
                      const std::string& plain, const std::function<void(LayerSpec&)>& edit);
// Lists the layers of `m` one by one, each as `edit` leaves it.
void edit_layers(ModelSpec& m, const std::function<void(std::size_t, LayerSpec&)>& edit);

// Llama and what was built like it: RMSNorm, rotary positions, SwiGLU. `context` and the others are
// the defaults of the family; groups 0: as many as heads, head_dim 0: hidden size over heads.
[[nodiscard]] ModelSpec llama_without_attention(HfFields& f, std::int64_t context,
                                                const CoreNames& core = {},
                                                const HfNames& ffn = {"intermediate_size"});
[[nodiscard]] ModelSpec llama_like(HfFields& f, std::int64_t context, std::int64_t groups,
                                   std::int64_t head_dim);
// Experts in every `decoder_sparse_step`-th layer, except for those in `mlp_only_layers`.
void read_qwen_experts(HfFields& f, ModelSpec& m, const HfNames& experts, std::int64_t top_k);

struct ExpertDefaults {
  std::int64_t top_k, first_dense, shared_experts;
  bool correction;  // one bias per expert steers the routing
};
// Routed and shared experts behind leading dense layers, as DeepSeek has them.
void read_deepseek_experts(HfFields& f, ModelSpec& m, const ExpertDefaults& d);
[[nodiscard]] MlaSpec read_latent(HfFields& f);
[[nodiscard]] ModelSpec deepseek_like(HfFields& f, std::int64_t context, const ExpertDefaults& d);

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
[[nodiscard]] ModelSpec read_minicpm3(HfFields& f);
[[nodiscard]] ModelSpec read_gpt_oss(HfFields& f);
[[nodiscard]] ModelSpec read_nemotron(HfFields& f);
[[nodiscard]] ModelSpec read_bitnet(HfFields& f);
[[nodiscard]] ModelSpec read_qwen(HfFields& f);
[[nodiscard]] ModelSpec read_gpt2(HfFields& f);
[[nodiscard]] ModelSpec read_jais(HfFields& f);
[[nodiscard]] ModelSpec read_gpt_neo(HfFields& f);
[[nodiscard]] ModelSpec read_xglm(HfFields& f);
[[nodiscard]] ModelSpec read_gpt_bigcode(HfFields& f);
[[nodiscard]] ModelSpec read_gpt_neox(HfFields& f);
[[nodiscard]] ModelSpec read_falcon(HfFields& f);
[[nodiscard]] ModelSpec read_mpt(HfFields& f);
[[nodiscard]] ModelSpec read_bloom(HfFields& f);
[[nodiscard]] ModelSpec read_opt(HfFields& f);

// Windows, sizes or experts that differ by layer (hf_window_families.cpp).
[[nodiscard]] ModelSpec read_gemma2(HfFields& f);
[[nodiscard]] ModelSpec read_gemma3(HfFields& f);
[[nodiscard]] ModelSpec read_gemma4(HfFields& f);
[[nodiscard]] ModelSpec read_llama4(HfFields& f);
[[nodiscard]] ModelSpec read_cohere2(HfFields& f);
[[nodiscard]] ModelSpec read_mimo_v2(HfFields& f);
[[nodiscard]] ModelSpec read_step3(HfFields& f);
[[nodiscard]] ModelSpec read_step3_text(HfFields& f);
[[nodiscard]] ModelSpec read_nemotron_nas(HfFields& f);
[[nodiscard]] ModelSpec read_smollm3(HfFields& f);
[[nodiscard]] ModelSpec read_dbrx(HfFields& f);
[[nodiscard]] ModelSpec read_exaone4(HfFields& f);
[[nodiscard]] ModelSpec read_exaone_moe(HfFields& f);
[[nodiscard]] ModelSpec read_afmoe(HfFields& f);
[[nodiscard]] ModelSpec read_longcat(HfFields& f);

// Compressed attention (hf_compressed_families.cpp).
[[nodiscard]] ModelSpec read_deepseek_v4(HfFields& f);

// Sparse attention (hf_sparse_families.cpp).
[[nodiscard]] ModelSpec read_deepseek_v32(HfFields& f);
[[nodiscard]] ModelSpec read_glm_moe_dsa(HfFields& f);
[[nodiscard]] ModelSpec read_minimax_m2(HfFields& f);
[[nodiscard]] ModelSpec read_minimax_m3(HfFields& f);

// Layers of linear attention (hf_linear_families.cpp).
[[nodiscard]] ModelSpec read_qwen3_next(HfFields& f);
[[nodiscard]] ModelSpec read_kimi_linear(HfFields& f);
[[nodiscard]] ModelSpec read_bailing_linear(HfFields& f);
[[nodiscard]] ModelSpec read_minimax(HfFields& f);

// Layers of Mamba (hf_mamba_families.cpp).
[[nodiscard]] ModelSpec read_nemotron_h(HfFields& f);
[[nodiscard]] ModelSpec read_granite_hybrid(HfFields& f);
[[nodiscard]] ModelSpec read_bamba(HfFields& f);
[[nodiscard]] ModelSpec read_falcon_h1(HfFields& f);
[[nodiscard]] ModelSpec read_jamba(HfFields& f);
[[nodiscard]] ModelSpec read_mamba(HfFields& f);
[[nodiscard]] ModelSpec read_mamba2(HfFields& f);

}  // namespace meshplan::hf
