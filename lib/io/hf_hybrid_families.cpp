// Families with sparse attention, and with layers that have a state.
#include <algorithm>
#include <utility>

#include "io/hf_parts.hpp"
#include "spec/hybrid_pattern.hpp"

namespace meshplan::hf {
namespace {

IndexSpec read_index(HfFields& f) {
  IndexSpec index;
  index.heads = f.count_or("attention.index_heads", {"index_n_heads"}, 64);
  index.head_dim = f.count_or("attention.index_head_dim", {"index_head_dim"}, 128);
  index.top_k = f.count_or("attention.index_top_k", {"index_topk"}, 2048);
  return index;
}

constexpr ExpertDefaults kDeepseek{
    .top_k = 8, .first_dense = 3, .shared_experts = 1, .correction = true};

// Layers that the file's list calls `type` are edited, those called `plain` are not; false where
// there is no list.
template <class Edit>
bool read_layer_types(HfFields& f, ModelSpec& m, const HfNames& names, const std::string& type,
                      const std::string& plain, const Edit& edit) {
  if (!f.has(names)) return false;
  const std::vector<std::string> types = f.texts(names);
  if (static_cast<std::int64_t>(types.size()) != m.num_layers) {
    f.error(names, "'" + std::string(names.front()) + "' lists " + std::to_string(types.size()) +
                       " of " + std::to_string(m.num_layers) + " layers");
    return true;
  }
  for (const std::string& found : types) {
    if (found == type || found == plain) continue;
    f.error(names, "layers of type '" + found + "' are not supported",
            "known: " + type + " and " + plain);
    return true;
  }
  edit_layers(m, [&](std::size_t i, LayerSpec& layer) {
    if (types[i] == type) edit(layer);
  });
  return true;
}

// Mamba-2 under the spellings of the families that have it.
Mamba2Spec read_mamba2_mixer(HfFields& f, const ModelSpec& m, const std::string& prefix) {
  const auto name = [&](std::string_view key) { return prefix + std::string(key); };
  const std::string heads = name("num_heads"), dim = name("head_dim"), groups = name("n_groups"),
                    long_heads = name("n_heads"), long_dim = name("d_head"),
                    state = name("d_state"), conv = name("d_conv"), expand = name("expand"),
                    chunk = name("chunk_size");
  Mamba2Spec kind;
  kind.head_dim = f.size_or("mamba.head_dim", {dim, long_dim}, 64);
  const std::int64_t inner = f.size_or("mamba.expand", {expand}, 2) * m.hidden_size;
  kind.num_heads = f.size_or("mamba.num_heads", {heads, long_heads},
                             std::max<std::int64_t>(inner / kind.head_dim, 1));
  kind.state_size = f.size_or("mamba.state_size", {state, "ssm_state_size", "state_size"}, 128);
  kind.num_groups = f.size_or("mamba.num_groups", {groups, "n_groups"}, 8);
  kind.conv_kernel = f.size_or("mamba.conv_kernel", {conv, "conv_kernel"}, 4);
  kind.chunk_size = f.size_or("mamba.chunk_size", {chunk, "chunk_size"}, 256);
  return kind;
}

void no_attention(ModelSpec& m) {
  m.num_attention_heads = m.num_query_groups = 1;
  m.head_dim = 1;
  m.attention = AttentionKind::kMha;
  m.position_embedding = PositionEmbedding::kNone;
}

// Letters of a hybrid pattern by the words of newer files.
char letter_of(const std::string& word) {
  if (word == "mamba") return 'M';
  if (word == "attention") return '*';
  if (word == "mlp") return '-';
  return word == "moe" ? 'E' : 0;
}

std::string read_letters(HfFields& f, const HfNames& pattern, const HfNames& words) {
  if (!f.has(words)) return f.text_or(pattern, "");
  std::string letters;
  for (const std::string& word : f.texts(words)) {
    const char letter = letter_of(word);
    if (letter == 0) {
      f.error(words, "layers of type '" + word + "' are not supported",
              "known: mamba, attention, mlp and moe");
      return "";
    }
    letters += letter;
  }
  return letters;
}

}  // namespace

ModelSpec read_deepseek_v32(HfFields& f) {
  ModelSpec m = deepseek_like(f, 4096, kDeepseek);
  m.mla->index = read_index(f);
  return m;
}

// As DeepSeek-V3.2; layers may use the choice of one before them again.
ModelSpec read_glm_moe_dsa(HfFields& f) {
  ModelSpec m = deepseek_like(f, 202'752, kDeepseek);
  m.mla->index = read_index(f);
  const std::vector<std::string> types = f.texts({"indexer_types"});
  if (std::find(types.begin(), types.end(), "shared") == types.end()) return m;
  edit_layers(m, [&](std::size_t i, LayerSpec& layer) {
    auto* mixer = std::get_if<LatentAttentionSpec>(&layer.mixer);
    if (mixer == nullptr || i >= types.size() || types[i] != "shared") return;
    mixer->sizes.index.heads = mixer->sizes.index.head_dim = 0;
  });
  return m;
}

// Qwen3-Next and Qwen3.5: gated attention in every fourth layer, a gated delta rule in the others.
ModelSpec read_qwen3_next(HfFields& f) {
  ModelSpec m = read_core(f);
  m.gated_mlp = true;
  read_activation(f, m, {"hidden_act"}, "silu");
  m.norm = Norm::kRmsNorm;
  m.tied_embeddings = f.flag_or({"tie_word_embeddings"}, false);
  m.max_seq_length = f.size_or("max_seq_length", {"max_position_embeddings"}, 32'768);
  read_groups(f, m, {"num_key_value_heads"}, 2);
  read_head_dim(f, m, 256);
  set_attention_kind(m);
  set_biases(m, f.flag_or({"attention_bias"}, false), false);
  m.qk_norm = true;
  m.attention_output_gate = f.flag_or({"attn_output_gate"}, true);
  m.rotary_percent = f.real_or("rotary_percent", {"partial_rotary_factor"}, 0.25);
  if (f.has({"num_experts"})) {
    m.ffn_hidden_size = f.count_or("ffn_hidden_size", {"intermediate_size"}, 0);
    read_qwen_experts(f, m, {"num_experts"}, 10);
    const std::int64_t shared =
        f.count_or("moe.shared_expert_ffn_hidden_size", {"shared_expert_intermediate_size"}, 512);
    if (m.moe) m.moe->shared_expert_ffn_hidden_size = shared;
  } else {
    m.ffn_hidden_size = f.size("ffn_hidden_size", {"intermediate_size"});
  }
  GatedDeltaNetSpec linear;
  linear.num_key_heads = f.size_or("linear.num_key_heads", {"linear_num_key_heads"}, 16);
  linear.num_value_heads = f.size_or("linear.num_value_heads", {"linear_num_value_heads"}, 32);
  linear.key_head_dim = f.size_or("linear.key_head_dim", {"linear_key_head_dim"}, 128);
  linear.value_head_dim = f.size_or("linear.value_head_dim", {"linear_value_head_dim"}, 128);
  linear.conv_kernel = f.size_or("linear.conv_kernel", {"linear_conv_kernel_dim"}, 4);
  const std::int64_t every = f.size_or("linear.every", {"full_attention_interval"}, 4);
  if (!read_layer_types(f, m, {"layer_types"}, "linear_attention", "full_attention",
                        [&](LayerSpec& layer) { layer.mixer = linear; })) {
    edit_layers(m, [&](std::size_t i, LayerSpec& layer) {
      if ((static_cast<std::int64_t>(i) + 1) % every != 0) layer.mixer = linear;
    });
  }
  m.mtp_layers = f.count_or("mtp_layers", {"mtp_num_hidden_layers"}, 0);
  if (m.mtp_layers == 0) return m;
  LayerSpec last = m.layers.back().layer;  // prediction is always by attention
  AttentionSpec attention{m.num_attention_heads, m.num_query_groups, m.head_dim, 0};
  attention.output_gate = m.attention_output_gate;
  last.mixer = attention;
  m.mtp_layer = last;
  return m;
}

// Kimi Linear: Kimi Delta Attention, and latent attention without positions in listed layers. Kimi
// K3's language model besides: gates of full rank, experts on a latent, attention residuals.
ModelSpec read_kimi_linear(HfFields& f) {
  ModelSpec m = llama_without_attention(f, 1'048'576);
  m.attention = AttentionKind::kMla;
  m.mla = read_latent(f);
  if (!f.has({"q_lora_rank"})) m.mla->q_lora_rank = 0;
  m.head_dim = m.mla->qk_nope_head_dim + m.mla->qk_rope_head_dim;
  m.mla->output_gate = f.flag_or({"mla_use_output_gate"}, false);
  if (f.flag_or({"mla_use_nope"}, true)) m.position_embedding = PositionEmbedding::kNone;
  m.attn_res_block_size = f.count_or("attn_res_block_size", {"attn_res_block_size"}, 0);
  m.moe = read_experts(f, {"num_experts"}, 8, {"moe_intermediate_size"});
  m.moe->top_k = f.size_or("moe.top_k", {"num_experts_per_token", "num_experts_per_tok"}, 8);
  m.moe->shared_expert_ffn_hidden_size =
      f.count_or("moe.shared_expert_ffn_hidden_size", {"num_shared_experts"}, 1) *
      m.moe->expert_ffn_hidden_size;
  m.moe->router_bias = true;
  m.moe->latent_size = f.count_or("moe.latent_size", {"routed_expert_hidden_size"}, 0);
  m.moe->latent_norm = m.moe->latent_size > 0 && f.flag_or({"latent_moe_use_norm"}, false);
  std::vector<bool> sparse = all_layers(m, true);
  const auto dense =
      static_cast<std::size_t>(f.count_or("moe.layers.first_dense", {"first_k_dense_replace"}, 1));
  std::fill_n(sparse.begin(), std::min(sparse.size(), dense), false);
  set_expert_layers(m, sparse);
  HfFields linear = f.section("linear_attn_config");
  GatedDeltaNetSpec kda;
  kda.num_key_heads = kda.num_value_heads = linear.size("linear.num_key_heads", {"num_heads"});
  kda.key_head_dim = kda.value_head_dim = linear.size("linear.key_head_dim", {"head_dim"});
  kda.gate_rank = kda.key_head_dim;
  kda.full_rank_gate = linear.flag_or({"use_full_rank_gate"}, false);
  kda.conv_kernel = linear.size_or("linear.conv_kernel", {"short_conv_kernel_size"}, 4);
  const std::vector<std::int64_t> layers = linear.counts({"kda_layers"});  // from 1
  edit_layers(m, [&](std::size_t i, LayerSpec& layer) {
    const auto number = static_cast<std::int64_t>(i) + 1;
    if (std::find(layers.begin(), layers.end(), number) != layers.end()) layer.mixer = kda;
  });
  m.mtp_layers = f.count_or("mtp_layers", {"num_nextn_predict_layers"}, 0);
  return m;
}

// MiniMax-01 and M1: lightning attention, softmax attention in every eighth layer.
ModelSpec read_minimax(HfFields& f) {
  ModelSpec m = llama_like(f, 10'240'000, 8, 128);
  m.moe = read_experts(f, {"num_local_experts"}, 2, {"intermediate_size"});
  const LightningSpec lightning{m.num_attention_heads, m.head_dim};
  if (read_layer_types(f, m, {"layer_types"}, "linear_attention", "full_attention",
                       [&](LayerSpec& layer) { layer.mixer = lightning; })) {
    return m;
  }
  const std::vector<std::int64_t> softmax = f.counts({"attn_type_list"});
  edit_layers(m, [&](std::size_t i, LayerSpec& layer) {
    if (i < softmax.size() && softmax[i] == 0) layer.mixer = lightning;
  });
  return m;
}

ModelSpec read_minimax_m2(HfFields& f) {
  ModelSpec m = llama_like(f, 196'608, 8, 128);
  m.moe = read_experts(f, {"num_local_experts"}, 8, {"intermediate_size"});
  m.moe->router_bias = f.flag_or({"use_routing_bias"}, true);
  m.qk_norm = f.flag_or({"use_qk_norm"}, true);
  const std::int64_t turned = f.count_or("rotary_percent", {"rotary_dim"}, m.head_dim);
  m.rotary_percent = std::min(1.0, static_cast<double>(turned) / static_cast<double>(m.head_dim));
  if (f.flag_or({"use_mtp"}, false)) {
    m.mtp_layers = f.count_or("mtp_layers", {"num_mtp_modules"}, 1);
  }
  return m;
}

// Sparse attention over blocks of tokens that few light heads choose.
ModelSpec read_minimax_m3(HfFields& f) {
  ModelSpec m = llama_like(f, 1'048'576, 4, 128);
  m.qk_norm = f.flag_or({"use_qk_norm"}, true);
  const std::int64_t rotated = f.size_or("rotary_percent", {"rotary_dim"}, m.head_dim);
  m.rotary_percent = f.real_or("rotary_percent", {"partial_rotary_factor"},
                               static_cast<double>(rotated) / static_cast<double>(m.head_dim));
  m.moe = read_experts(f, {"num_local_experts"}, 4, {"moe_intermediate_size", "intermediate_size"});
  m.moe->shared_expert_ffn_hidden_size =
      f.count_or("moe.shared_expert_ffn_hidden_size", {"shared_intermediate_size"}, 0);
  m.moe->router_bias = f.flag_or({"use_routing_bias"}, true);
  m.ffn_hidden_size = f.size_or("ffn_hidden_size", {"dense_intermediate_size"}, 12'288);
  HfFields sparse = f.section("sparse_attention_config");
  // In a section of the published file, beside the other keys in Transformers' own class.
  const auto pick = [&](const HfNames& own, const HfNames& nested, const char* key,
                        std::int64_t otherwise) {
    return f.has(own) ? f.count_or(key, own, otherwise) : sparse.count_or(key, nested, otherwise);
  };
  IndexSpec index;
  index.heads = pick({"index_n_heads"}, {"sparse_num_index_heads"}, "attention.index_heads", 4);
  index.head_dim = pick({"index_head_dim"}, {"sparse_index_dim"}, "attention.index_head_dim", 128);
  index.top_k = pick({"index_topk_blocks"}, {"sparse_topk_blocks"}, "attention.index_top_k", 16) *
                pick({"index_block_size"}, {"sparse_block_size"}, "attention.index_top_k", 128);
  const std::vector<std::int64_t> experts = f.counts({"moe_layer_freq"}),
                                  chosen = sparse.counts({"sparse_attention_freq"});
  const auto dense = [&](LayerSpec& layer) {
    layer.feed_forward = DenseMlpSpec{m.ffn_hidden_size};
  };
  const auto indexed = [&](LayerSpec& layer) {
    std::get<AttentionSpec>(layer.mixer).index = index;
  };
  edit_layers(m, [&](std::size_t i, LayerSpec& layer) {
    if (i < experts.size() && experts[i] == 0) dense(layer);
    if (i < chosen.size() && chosen[i] != 0) indexed(layer);
  });
  read_layer_types(f, m, {"mlp_layer_types"}, "dense", "sparse", dense);
  read_layer_types(f, m, {"layer_types"}, "minimax_m3_sparse", "full_attention", indexed);
  m.mtp_layers = f.count_or("mtp_layers", {"num_nextn_predict_layers"}, 0);
  return m;
}

// Nemotron-H and Nemotron 3: every layer is a mixer or a feed-forward alone.
ModelSpec read_nemotron_h(HfFields& f) {
  const std::string letters = read_letters(f, {"hybrid_override_pattern"}, {"layers_block_type"});
  ModelSpec m;
  m.num_layers = f.size_or("num_layers", {"num_hidden_layers"},
                           std::max<std::int64_t>(static_cast<std::int64_t>(letters.size()), 1));
  m.hidden_size = f.size("hidden_size", {"hidden_size"});
  m.num_attention_heads = f.size("num_attention_heads", {"num_attention_heads"});
  m.vocab_size = f.size("vocab_size", {"vocab_size"});
  m.num_query_groups = m.num_attention_heads;
  read_groups(f, m, {"num_key_value_heads"}, 8);
  m.head_dim = f.size_or("head_dim", {"head_dim", "attention_head_dim"}, 128);
  set_attention_kind(m);
  m.ffn_hidden_size = f.size("ffn_hidden_size", {"intermediate_size"});
  read_activation(f, m, {"mlp_hidden_act"}, "relu2");
  m.norm = Norm::kRmsNorm;
  m.position_embedding = PositionEmbedding::kNone;
  m.tied_embeddings = f.flag_or({"tie_word_embeddings"}, false);
  m.max_seq_length = f.size_or("max_seq_length", {"max_position_embeddings"}, 4096);
  if (f.has({"n_routed_experts"})) {
    MoeSpec moe = read_experts(f, {"n_routed_experts"}, 2, {"moe_intermediate_size"});
    moe.shared_expert_ffn_hidden_size =
        f.count_or("moe.shared_expert_ffn_hidden_size", {"moe_shared_expert_intermediate_size"}, 0);
    moe.latent_size = f.count_or("moe.latent_size", {"moe_latent_size"}, 0);
    moe.router_bias = true;
    m.moe = moe;
  }
  const Mamba2Spec mamba = read_mamba2_mixer(f, m, "mamba_");
  std::string pattern = letters;
  const std::string prediction =
      read_letters(f, {"mtp_hybrid_override_pattern"}, {"mtp_layers_block_type"});
  const std::int64_t passes = f.count_or("mtp_layers", {"num_nextn_predict_layers"}, 0);
  for (std::int64_t i = 0; i < std::min<std::int64_t>(passes, 100); ++i)
    pattern += "/" + prediction;
  const auto lookup = [&](const HybridSymbol& symbol) -> std::optional<LayerSpec> {
    const LayerSpec flat = layer_spec(m, LayerKind::kDense, false);
    switch (symbol.symbol) {
      case 'M':
        return LayerSpec{mamba, NoneSpec{}};
      case '*':
        return LayerSpec{flat.mixer, NoneSpec{}};
      case '-':
        return LayerSpec{NoneSpec{}, flat.feed_forward};
      case 'E':
        if (m.moe) return LayerSpec{NoneSpec{}, *m.moe};
        return std::nullopt;
      default:
        return std::nullopt;
    }
  };
  const std::string problem = apply_hybrid_pattern(parse_hybrid_pattern(pattern), lookup, m);
  if (!problem.empty()) f.error({"hybrid_override_pattern", "layers_block_type"}, problem);
  return m;
}

namespace {

// Mamba-2 or attention in every layer, a feed-forward behind both.
void read_mamba_layers(HfFields& f, ModelSpec& m, const Mamba2Spec& mamba) {
  if (read_layer_types(f, m, {"layer_types", "layers_block_type"}, "mamba", "attention",
                       [&](LayerSpec& layer) { layer.mixer = mamba; })) {
    return;
  }
  const std::vector<std::int64_t> attention = f.counts({"attn_layer_indices"});
  edit_layers(m, [&](std::size_t i, LayerSpec& layer) {
    const auto number = static_cast<std::int64_t>(i);
    if (std::find(attention.begin(), attention.end(), number) == attention.end()) {
      layer.mixer = mamba;
    }
  });
}

}  // namespace

// Granite 4: experts with a shared MLP, or that MLP alone.
ModelSpec read_granite_hybrid(HfFields& f) {
  ModelSpec m = llama_like(f, 131'072, 0, 0);
  m.tied_embeddings = f.flag_or({"tie_word_embeddings"}, false);
  if (f.text_or({"position_embedding_type"}, "nope") != "rope") {
    m.position_embedding = PositionEmbedding::kNone;
  }
  const std::int64_t shared =
      f.count_or("moe.shared_expert_ffn_hidden_size", {"shared_intermediate_size"}, 1024);
  if (f.count_or("moe.num_experts", {"num_local_experts"}, 0) > 0) {
    m.moe = read_experts(f, {"num_local_experts"}, 2, {"intermediate_size"});
    m.moe->shared_expert_ffn_hidden_size = shared;
  } else {
    m.ffn_hidden_size = std::max<std::int64_t>(shared, 1);
  }
  read_mamba_layers(f, m, read_mamba2_mixer(f, m, "mamba_"));
  return m;
}

ModelSpec read_bamba(HfFields& f) {
  ModelSpec m = llama_like(f, 262'144, 8, 0);
  m.rotary_percent = f.real_or("rotary_percent", {"partial_rotary_factor"}, 0.5);
  read_mamba_layers(f, m, read_mamba2_mixer(f, m, "mamba_"));
  return m;
}

// Attention and Mamba-2 side by side in every layer; the state's width is stated.
ModelSpec read_falcon_h1(HfFields& f) {
  ModelSpec m = llama_like(f, 8192, 8, 0);
  set_biases(m, f.flag_or({"attention_bias"}, false), f.flag_or({"mlp_bias"}, false));
  ParallelMixerSpec mixer;
  mixer.attention = {m.num_attention_heads, m.num_query_groups, m.head_dim, 0};
  mixer.mamba = read_mamba2_mixer(f, m, "mamba_");
  if (f.has({"mamba_d_ssm"}) && !f.has({"mamba_n_heads"})) {
    mixer.mamba.num_heads = f.size("mamba.num_heads", {"mamba_d_ssm"}) / mixer.mamba.head_dim;
  }
  edit_layers(m, [&](std::size_t, LayerSpec& layer) { layer.mixer = mixer; });
  return m;
}

// Attention in one layer of a period, experts in another.
ModelSpec read_jamba(HfFields& f) {
  ModelSpec m = llama_like(f, 262'144, 8, 0);
  m.position_embedding = PositionEmbedding::kNone;
  MambaSpec mamba;
  mamba.inner_size = f.size_or("mamba.inner_size", {"mamba_expand"}, 2) * m.hidden_size;
  mamba.state_size = f.size_or("mamba.state_size", {"mamba_d_state"}, 16);
  mamba.conv_kernel = f.size_or("mamba.conv_kernel", {"mamba_d_conv"}, 4);
  mamba.dt_rank = f.size_or("mamba.dt_rank", {"mamba_dt_rank"}, ceil_div(m.hidden_size, 16));
  mamba.inner_norms = true;
  m.moe = read_experts(f, {"num_experts"}, 2, {"intermediate_size"});
  const std::int64_t expert_period = f.size_or("moe.layers.every", {"expert_layer_period"}, 2),
                     expert_offset =
                         f.count_or("moe.layers.first_dense", {"expert_layer_offset"}, 1),
                     period = f.size_or("attention.window_every", {"attn_layer_period"}, 8),
                     offset = f.count_or("attention.window", {"attn_layer_offset"}, 4);
  std::vector<bool> sparse = all_layers(m, false);
  for (std::size_t i = 0; i < sparse.size(); ++i) {
    sparse[i] = m.moe->num_experts > 1 &&
                static_cast<std::int64_t>(i) % expert_period == expert_offset % expert_period;
  }
  set_expert_layers(m, sparse);
  edit_layers(m, [&](std::size_t i, LayerSpec& layer) {
    if (static_cast<std::int64_t>(i) % period != offset % period) layer.mixer = mamba;
  });
  return m;
}

ModelSpec read_mamba(HfFields& f) {
  ModelSpec m;
  m.num_layers = f.size("num_layers", {"num_hidden_layers", "n_layer"}, 100'000);
  m.hidden_size = f.size("hidden_size", {"hidden_size", "d_model"});
  m.vocab_size = f.size("vocab_size", {"vocab_size"});
  no_attention(m);
  m.norm = Norm::kRmsNorm;
  m.tied_embeddings = f.flag_or({"tie_word_embeddings"}, true);
  m.max_seq_length = 1 << 20;  // a state has no longest sequence
  MambaSpec mamba;
  mamba.inner_size = f.size_or("mamba.inner_size", {"intermediate_size"},
                               f.size_or("mamba.expand", {"expand"}, 2) * m.hidden_size);
  mamba.state_size = f.size_or("mamba.state_size", {"state_size"}, 16);
  mamba.conv_kernel = f.size_or("mamba.conv_kernel", {"conv_kernel"}, 4);
  const std::int64_t usual = ceil_div(m.hidden_size, 16);
  const bool is_auto = f.text_or({"time_step_rank"}, "auto") == "auto";
  mamba.dt_rank = is_auto ? usual : f.size_or("mamba.dt_rank", {"time_step_rank"}, usual);
  m.layers = {{m.num_layers, {mamba, NoneSpec{}}}};
  return m;
}

ModelSpec read_mamba2(HfFields& f) {
  ModelSpec m;
  m.num_layers = f.size("num_layers", {"num_hidden_layers", "n_layer"}, 100'000);
  m.hidden_size = f.size("hidden_size", {"hidden_size", "d_model"});
  m.vocab_size = f.size("vocab_size", {"vocab_size"});
  no_attention(m);
  m.norm = Norm::kRmsNorm;
  m.tied_embeddings = f.flag_or({"tie_word_embeddings"}, false);
  m.max_seq_length = 1 << 20;
  m.layers = {{m.num_layers, {read_mamba2_mixer(f, m, ""), NoneSpec{}}}};
  return m;
}

}  // namespace meshplan::hf
