// Hugging Face model families: which key means what, and the defaults of each configuration class
// (transformers, src/transformers/models/<family>/configuration_<family>.py), which apply where a
// file leaves a key out. The sizes that make a model what it is have no default here: a file
// without them is reported, not completed.
#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "io/hf_config.hpp"

namespace meshplan {
namespace {

struct ActivationRow {
  std::string_view name;
  Activation activation;
};

// ACT2FN of transformers: names that mean the same arithmetic up to an approximation.
constexpr auto kActivations = std::to_array<ActivationRow>({{"gelu", Activation::kGelu},
                                                            {"gelu_new", Activation::kGelu},
                                                            {"gelu_fast", Activation::kGelu},
                                                            {"gelu_python", Activation::kGelu},
                                                            {"gelu_pytorch_tanh", Activation::kGelu},
                                                            {"quick_gelu", Activation::kGelu},
                                                            {"silu", Activation::kSilu},
                                                            {"swish", Activation::kSilu},
                                                            {"relu", Activation::kRelu},
                                                            {"relu2", Activation::kRelu2}});

void read_activation(HfFields& f, ModelSpec& m, const HfNames& names, const std::string& fallback) {
  const std::string name = f.text_or(names, fallback);
  for (const ActivationRow& row : kActivations) {
    if (row.name == name) {
      m.activation = row.activation;
      return;
    }
  }
  std::vector<std::string> known;
  for (const ActivationRow& row : kActivations) known.emplace_back(row.name);
  f.error(names, "activation '" + name + "' is not supported", "known: " + join_words(known));
}

struct CoreNames {
  HfNames layers{"num_hidden_layers"};
  HfNames hidden{"hidden_size"};
  HfNames heads{"num_attention_heads"};
};

ModelSpec read_core(HfFields& f, const CoreNames& names = {}) {
  ModelSpec m;
  m.num_layers = f.size("num_layers", names.layers);
  m.hidden_size = f.size("hidden_size", names.hidden);
  m.num_attention_heads = f.size("num_attention_heads", names.heads);
  m.vocab_size = f.size("vocab_size", {"vocab_size"});
  m.num_query_groups = m.num_attention_heads;
  return m;
}

// Key/value heads: a null means as many as heads; so does `fallback` 0 for a missing key.
void read_groups(HfFields& f, ModelSpec& m, const HfNames& names, std::int64_t fallback) {
  const bool as_heads = f.is_null(names) || fallback == 0;
  m.num_query_groups =
      f.size_or("num_query_groups", names, as_heads ? m.num_attention_heads : fallback);
}

void read_head_dim(HfFields& f, ModelSpec& m, std::int64_t fallback) {
  if (!f.has({"head_dim"}) && fallback == 0) {
    if (m.hidden_size % m.num_attention_heads != 0) {
      f.error({"num_attention_heads", "n_head", "n_heads"},
              "the hidden size, " + std::to_string(m.hidden_size) + ", is not a multiple of the " +
                  std::to_string(m.num_attention_heads) + " attention heads",
              "state head_dim if that is meant");
    }
    fallback = std::max<std::int64_t>(m.hidden_size / m.num_attention_heads, 1);
  }
  m.head_dim = f.size_or("head_dim", {"head_dim"}, fallback);
}

void set_attention_kind(ModelSpec& m) {
  m.attention =
      m.num_query_groups == m.num_attention_heads ? AttentionKind::kMha : AttentionKind::kGqa;
}

// The dropout of the residual stream and that of the attention: the larger, which costs more memory.
void read_dropout(HfFields& f, ModelSpec& m, const HfNames& hidden, double hidden_fallback,
                  const HfNames& attention, double attention_fallback) {
  m.dropout = std::max(f.real_or("dropout", hidden, hidden_fallback),
                       f.real_or("dropout", attention, attention_fallback));
}

// Biases of the attention's and of the MLP's linear layers, each switched by its own key.
void read_biases(HfFields& f, ModelSpec& m, bool attention, bool mlp, const HfNames& names) {
  m.linear_bias = attention && mlp;
  if (m.linear_bias) return;
  m.qkv_bias = attention;
  m.attention_out_bias = attention;
  if (mlp) {
    f.error(names, "biases in the MLP but not in the attention cannot be described",
            "the difference is small: give both or neither");
  }
}

// Which layers attend to a window only: every n-th, starting with the first.
void set_window(HfFields& f, ModelSpec& m, const std::vector<bool>& windowed, std::int64_t window,
                const HfNames& names) {
  const auto count = std::count(windowed.begin(), windowed.end(), true);
  if (count == 0) return;
  const auto second = std::find(windowed.begin() + 1, windowed.end(), true);
  const auto every = static_cast<std::size_t>(second - windowed.begin());
  for (std::size_t i = 0; i < windowed.size(); ++i) {
    if (windowed[i] == (i % every == 0)) continue;
    f.error(names, "this pattern of windowed and full-attention layers cannot be described",
            "only every n-th layer from the first can be windowed; without the window the plan is "
            "an upper bound");
    return;
  }
  m.window = window;
  m.window_every = static_cast<std::int64_t>(every);
}

// `layer_types` overrides the older keys that say which layers are windowed.
void read_window(HfFields& f, ModelSpec& m, std::vector<bool> windowed, std::int64_t window) {
  const std::vector<std::string> types = f.texts({"layer_types"});
  if (types.empty()) {
    set_window(f, m, windowed, window, {"max_window_layers", "sliding_window"});
    return;
  }
  if (types.size() != windowed.size()) {
    f.error({"layer_types"}, "'layer_types' lists " + std::to_string(types.size()) + " of " +
                                 std::to_string(windowed.size()) + " layers");
    return;
  }
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i] != "sliding_attention" && types[i] != "full_attention") {
      f.error({"layer_types"}, "layers of type '" + types[i] + "' are not supported",
              "known: full_attention and sliding_attention");
      return;
    }
    windowed[i] = types[i] == "sliding_attention";
  }
  set_window(f, m, windowed, window, {"layer_types"});
}

std::vector<bool> all_layers(const ModelSpec& m, bool value) {
  return std::vector<bool>(static_cast<std::size_t>(m.num_layers), value);
}

// Mistral, Mixtral, Phi-3: a window in every layer if there is one at all.
void read_plain_window(HfFields& f, ModelSpec& m, std::int64_t fallback) {
  const HfNames key{"sliding_window"};
  const bool given = f.has(key) || (!f.is_null(key) && fallback > 0);
  if (given) read_window(f, m, all_layers(m, true), f.size_or("attention.window", key, fallback));
}

// Qwen: a window only if asked for, in the layers from max_window_layers on.
void read_qwen_window(HfFields& f, ModelSpec& m, std::int64_t full_layers_fallback) {
  if (!f.flag_or({"use_sliding_window"}, false)) return;
  const std::int64_t window = f.size_or("attention.window", {"sliding_window"}, 4096);
  const std::int64_t full =
      f.count_or("attention.window_every", {"max_window_layers"}, full_layers_fallback);
  std::vector<bool> windowed = all_layers(m, true);
  for (std::size_t i = 0; i < windowed.size(); ++i) {
    windowed[i] = static_cast<std::int64_t>(i) >= full;
  }
  read_window(f, m, std::move(windowed), window);
}

// Leading dense layers, then every n-th with experts; an error for any other pattern.
void set_expert_layers(HfFields& f, ModelSpec& m, const std::vector<bool>& experts,
                       const HfNames& names) {
  if (std::find(experts.begin(), experts.end(), true) == experts.end()) {
    m.moe.reset();
    return;
  }
  const auto first = std::find(experts.begin(), experts.end(), true);
  const auto second = std::find(first + 1, experts.end(), true);
  m.moe->every = second == experts.end() ? 1 : second - first;
  m.moe->first_dense = (first - experts.begin()) - m.moe->every + 1;
  const ModelSpec& described = m;
  bool same = m.moe->first_dense >= 0;
  for (std::size_t i = 0; same && i < experts.size(); ++i) {
    same = experts[i] == (layer_kind(described, static_cast<std::int64_t>(i)) == LayerKind::kMoe);
  }
  if (same) return;
  m.moe->first_dense = 0;
  f.error(names, "this pattern of layers with and without experts cannot be described",
          "leading dense layers, then every n-th layer with experts");
}

MoeSpec read_experts(HfFields& f, const HfNames& experts, std::int64_t top_k, const HfNames& ffn) {
  MoeSpec moe;
  moe.num_experts = f.size("moe.num_experts", experts);
  moe.top_k = f.size_or("moe.top_k", {"num_experts_per_tok"}, top_k);
  moe.expert_ffn_hidden_size = f.size("moe.expert_ffn_hidden_size", ffn);
  return moe;
}

const HfNames kGroups{"num_key_value_heads"};

// Llama and what was built like it: RMSNorm, rotary positions, SwiGLU.
ModelSpec llama_like(HfFields& f, std::int64_t context, std::int64_t groups, std::int64_t head_dim) {
  ModelSpec m = read_core(f);
  read_groups(f, m, kGroups, groups);
  read_head_dim(f, m, head_dim);
  set_attention_kind(m);
  m.ffn_hidden_size = f.size("ffn_hidden_size", {"intermediate_size"});
  m.gated_mlp = true;
  read_activation(f, m, {"hidden_act", "hidden_activation"}, "silu");
  m.norm = Norm::kRmsNorm;
  m.position_embedding = PositionEmbedding::kRope;
  m.tied_embeddings = f.flag_or({"tie_word_embeddings"}, false);
  m.max_seq_length = f.size_or("max_seq_length", {"max_position_embeddings"}, context);
  read_dropout(f, m, {"resid_pdrop"}, 0.0, {"attention_dropout"}, 0.0);
  return m;
}

ModelSpec read_llama(HfFields& f) {
  ModelSpec m = llama_like(f, 2048, 0, 0);
  read_biases(f, m, f.flag_or({"attention_bias"}, false), f.flag_or({"mlp_bias"}, false),
              {"mlp_bias"});
  return m;
}

ModelSpec read_mistral(HfFields& f) {
  ModelSpec m = llama_like(f, 131072, 8, 0);
  read_plain_window(f, m, 4096);
  return m;
}

ModelSpec read_mixtral(HfFields& f) {
  ModelSpec m = llama_like(f, 131072, 8, 0);
  m.moe = read_experts(f, {"num_local_experts", "num_experts"}, 2, {"intermediate_size"});
  read_plain_window(f, m, 0);
  return m;
}

ModelSpec read_phi3(HfFields& f) {
  ModelSpec m = llama_like(f, 4096, 0, 0);
  read_plain_window(f, m, 0);
  return m;
}

ModelSpec read_gemma(HfFields& f) {
  ModelSpec m = llama_like(f, 8192, 16, 256);
  read_activation(f, m, {"hidden_activation", "hidden_act"}, "gelu_pytorch_tanh");
  m.tied_embeddings = f.flag_or({"tie_word_embeddings"}, true);
  read_biases(f, m, f.flag_or({"attention_bias"}, false), false, {"attention_bias"});
  return m;
}

ModelSpec read_qwen2(HfFields& f) {
  ModelSpec m = llama_like(f, 32768, 32, 0);
  m.qkv_bias = true;  // always on, the files have no key for it
  read_qwen_window(f, m, 28);
  return m;
}

ModelSpec read_qwen3(HfFields& f) {
  ModelSpec m = llama_like(f, 32768, 32, 128);
  m.qk_norm = true;
  read_biases(f, m, f.flag_or({"attention_bias"}, false), false, {"attention_bias"});
  read_qwen_window(f, m, 28);
  return m;
}

// Experts in every `decoder_sparse_step`-th layer, except for those in `mlp_only_layers`.
void read_qwen_experts(HfFields& f, ModelSpec& m, const HfNames& experts, std::int64_t top_k) {
  m.moe = read_experts(f, experts, top_k, {"moe_intermediate_size"});
  const std::int64_t step = f.size_or("moe.layers.every", {"decoder_sparse_step"}, 1);
  std::vector<bool> sparse = all_layers(m, false);
  for (std::size_t i = 0; i < sparse.size(); ++i) {
    sparse[i] = (static_cast<std::int64_t>(i) + 1) % step == 0;
  }
  for (const std::int64_t layer : f.counts({"mlp_only_layers"})) {
    if (layer < m.num_layers) sparse[static_cast<std::size_t>(layer)] = false;
  }
  set_expert_layers(f, m, sparse, {"mlp_only_layers", "decoder_sparse_step"});
}

ModelSpec read_qwen2_moe(HfFields& f) {
  ModelSpec m = llama_like(f, 32768, 16, 0);
  m.qkv_bias = f.flag_or({"qkv_bias"}, true);
  read_qwen_experts(f, m, {"num_experts"}, 4);
  const std::int64_t shared = f.count_or("moe.shared_expert_ffn_hidden_size",
                                         {"shared_expert_intermediate_size"}, 5632);
  if (m.moe) m.moe->shared_expert_ffn_hidden_size = shared;
  read_qwen_window(f, m, 28);
  return m;
}

ModelSpec read_qwen3_moe(HfFields& f) {
  ModelSpec m = llama_like(f, 32768, 4, 0);
  m.qk_norm = true;
  read_biases(f, m, f.flag_or({"attention_bias"}, false), false, {"attention_bias"});
  read_qwen_experts(f, m, {"num_experts", "num_local_experts"}, 8);
  read_qwen_window(f, m, 28);
  return m;
}

struct DeepseekDefaults {
  std::int64_t kv_lora_rank, q_lora_rank, top_k, first_dense, shared_experts;
  bool expert_correction;  // one bias per expert steers the routing
};

// A null q_lora_rank means that queries are projected directly (the Lite models).
MlaSpec read_latent(HfFields& f, const DeepseekDefaults& d) {
  MlaSpec mla;
  mla.q_lora_rank = f.is_null({"q_lora_rank"})
                        ? 0
                        : f.count_or("attention.q_lora_rank", {"q_lora_rank"}, d.q_lora_rank);
  mla.kv_lora_rank = f.size_or("attention.kv_lora_rank", {"kv_lora_rank"}, d.kv_lora_rank);
  mla.qk_nope_head_dim = f.size_or("attention.qk_nope_head_dim", {"qk_nope_head_dim"}, 128);
  mla.qk_rope_head_dim = f.size_or("attention.qk_rope_head_dim", {"qk_rope_head_dim"}, 64);
  mla.v_head_dim = f.size_or("attention.v_head_dim", {"v_head_dim"}, 128);
  return mla;
}

ModelSpec deepseek_like(HfFields& f, std::int64_t context, const DeepseekDefaults& d) {
  ModelSpec m = llama_like(f, context, 0, 0);
  m.num_query_groups = m.num_attention_heads;
  m.attention = AttentionKind::kMla;
  m.mla = read_latent(f, d);
  read_biases(f, m, f.flag_or({"attention_bias"}, false), false, {"attention_bias"});
  MoeSpec moe = read_experts(f, {"n_routed_experts", "num_local_experts"}, d.top_k,
                             {"moe_intermediate_size"});
  const std::int64_t shared =
      f.is_null({"n_shared_experts"})
          ? 0
          : f.count_or("moe.shared_expert_ffn_hidden_size", {"n_shared_experts"}, d.shared_experts);
  moe.shared_expert_ffn_hidden_size = shared * moe.expert_ffn_hidden_size;
  moe.router_bias = d.expert_correction;
  m.moe = moe;
  const std::int64_t dense =
      f.count_or("moe.layers.first_dense", {"first_k_dense_replace"}, d.first_dense);
  const std::int64_t step = f.size_or("moe.layers.every", {"moe_layer_freq"}, 1);
  std::vector<bool> sparse = all_layers(m, false);
  for (std::size_t i = 0; i < sparse.size(); ++i) {
    const auto layer = static_cast<std::int64_t>(i);
    sparse[i] = layer >= dense && layer % step == 0;
  }
  set_expert_layers(f, m, sparse, {"moe_layer_freq", "first_k_dense_replace"});
  m.mtp_layers = f.count_or("mtp_layers", {"num_nextn_predict_layers"}, 0);
  return m;
}
