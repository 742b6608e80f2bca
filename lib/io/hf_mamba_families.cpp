// Families with layers of Mamba.
#include <algorithm>
#include <utility>

#include "io/hf_parts.hpp"
#include "spec/hybrid_pattern.hpp"

namespace meshplan::hf {
namespace {

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

namespace {

// A model of states alone, before its layers.
ModelSpec read_state_model(HfFields& f, bool tied) {
  ModelSpec m;
  m.num_layers = f.size("num_layers", {"num_hidden_layers", "n_layer"}, 100'000);
  m.hidden_size = f.size("hidden_size", {"hidden_size", "d_model"});
  m.vocab_size = f.size("vocab_size", {"vocab_size"});
  no_attention(m);
  m.norm = Norm::kRmsNorm;
  m.tied_embeddings = f.flag_or({"tie_word_embeddings"}, tied);
  m.max_seq_length = 1 << 20;  // a state has no longest sequence
  return m;
}

}  // namespace

ModelSpec read_mamba(HfFields& f) {
  ModelSpec m = read_state_model(f, true);
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
  ModelSpec m = read_state_model(f, false);
  m.layers = {{m.num_layers, {read_mamba2_mixer(f, m, ""), NoneSpec{}}}};
  return m;
}

}  // namespace meshplan::hf
