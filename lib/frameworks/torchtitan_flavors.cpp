// The models of torchtitan v0.2.2: torchtitan/models/*/__init__.py.
#include <algorithm>

#include "frameworks/target.hpp"

namespace meshplan {
namespace {

constexpr std::int64_t kLlama = 128256, kQwen = 151936, kLite = 102400, kGptOss = 201088;

constexpr TorchtitanFlavor kFlavors[] = {
    {"llama3", "8B", 32, 4096, 32, 14336, kLlama, 0, 8, 128},
    {"llama3", "70B", 80, 8192, 64, 28672, kLlama, 0, 8, 128},
    {"llama3", "405B", 126, 16384, 128, 53248, kLlama, 0, 8, 128},
    {"qwen3", "0.6B", 28, 1024, 16, 3072, kQwen, 0, 8, 128, true},
    {"qwen3", "1.7B", 28, 2048, 16, 6144, kQwen, 0, 8, 128, true},
    {"qwen3", "4B", 36, 2560, 32, 9728, kQwen, 0, 8, 128, true},
    {"qwen3", "8B", 36, 4096, 32, 12288, kQwen, 0, 8, 128},
    {"qwen3", "14B", 40, 5120, 40, 17408, kQwen, 0, 8, 128},
    {"qwen3", "32B", 64, 5120, 64, 25600, kQwen, 0, 8, 128},
    {"qwen3", "30B-A3B", 48, 2048, 32, 6144, kQwen, 128, 4, 128, false, 8, 768},
    {"qwen3", "235B-A22B", 94, 4096, 64, 12288, kQwen, 128, 4, 128, false, 8, 1536},
    {"deepseek_v3", "16B", 27, 2048, 16, 10944, kLite, 64, 16, 192, false, 6, 1408, 2816, 1},
    {"deepseek_v3", "236B", 60, 5120, 128, 12288, kLite, 160, 128, 192, false, 6, 1536, 3072, 1,
     1536},
    {"deepseek_v3", "671B", 61, 7168, 128, 18432, 129280, 256, 128, 192, false, 8, 2048, 2048, 3,
     1536},
    {"gpt_oss", "20b", 24, 2880, 64, 2880, kGptOss, 32, 8, 64, false, 4, 2880},
    {"gpt_oss", "120b", 36, 2880, 64, 2880, kGptOss, 128, 8, 64, false, 4, 2880},
};

}  // namespace

std::span<const TorchtitanFlavor> torchtitan_flavors() { return kFlavors; }

const TorchtitanFlavor* torchtitan_flavor(const ModelSpec& m) {
  const auto* found = std::find_if(std::begin(kFlavors), std::end(kFlavors), [&](const auto& f) {
    return f.layers == m.num_layers && f.hidden == m.hidden_size &&
           f.heads == m.num_attention_heads && f.ffn == m.ffn_hidden_size &&
           f.vocabulary == m.vocab_size && f.experts == (m.moe ? m.moe->num_experts : 0);
  });
  return found == std::end(kFlavors) ? nullptr : found;
}

ModelSpec torchtitan_model(const TorchtitanFlavor& f) {
  ModelSpec m;
  m.name = std::string(f.model) + "-" + std::string(f.flavor);
  m.source = "torchtitan v0.2.2, models/" + std::string(f.model);
  m.num_layers = f.layers;
  m.hidden_size = f.hidden;
  m.num_attention_heads = f.heads;
  m.num_query_groups = f.groups;
  m.head_dim = f.head_dim;
  m.ffn_hidden_size = f.ffn;
  m.gated_mlp = true;
  m.activation = Activation::kSilu;
  m.norm = Norm::kRmsNorm;
  m.vocab_size = f.vocabulary;
  m.tied_embeddings = f.tied;
  m.qk_norm = f.model == "qwen3";
  constexpr std::int64_t kLongest = 131072;
  m.max_seq_length = kLongest;
  m.attention = AttentionKind::kGqa;
  if (f.experts > 0) {
    m.moe = MoeSpec{.num_experts = f.experts,
                    .top_k = f.top_k,
                    .expert_ffn_hidden_size = f.expert_ffn,
                    .shared_expert_ffn_hidden_size = f.shared_ffn,
                    .first_dense = f.first_dense};
  }
  if (f.model == "deepseek_v3") {
    m.attention = AttentionKind::kMla;
    m.mla = MlaSpec{.q_lora_rank = f.q_lora_rank,
                    .kv_lora_rank = 512,
                    .qk_nope_head_dim = 128,
                    .qk_rope_head_dim = 64,
                    .v_head_dim = 128};
  }
  if (f.model == "gpt_oss") {
    m.qkv_bias = m.attention_out_bias = m.expert_bias = m.attention_sinks = true;
    m.moe->router_bias = true;
    m.window = 128;
    m.window_every = 2;
  }
  return m;
}

}  // namespace meshplan
