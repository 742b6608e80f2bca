// Families that follow GPT-2 and GPT-3: LayerNorm, two-matrix MLP, biases, and various positions.
#include <algorithm>
#include <string>

#include "io/hf_parts.hpp"

namespace meshplan::hf {
namespace {

const CoreNames kGpt2Core{
    {"n_layer", "num_hidden_layers"}, {"n_embd", "hidden_size"}, {"n_head", "num_attention_heads"}};
const CoreNames kBloomCore{{"n_layer", "num_hidden_layers"},
                           {"hidden_size", "n_embed"},
                           {"n_head", "num_attention_heads"}};
const CoreNames kFalconCore{{"num_hidden_layers", "n_layer"},
                            {"hidden_size", "n_embed"},
                            {"num_attention_heads", "n_head"}};
const CoreNames kMptCore{{"n_layers", "num_hidden_layers"},
                         {"d_model", "hidden_size"},
                         {"n_heads", "num_attention_heads"}};

// Four times the hidden size where the key is missing or null.
void read_ffn(HfFields& f, ModelSpec& m, const HfNames& names) {
  m.ffn_hidden_size = f.size_or("ffn_hidden_size", names, 4 * m.hidden_size);
}

ModelSpec gpt2_like(HfFields& f, const std::string& activation, bool swiglu = false) {
  ModelSpec m = read_core(f, kGpt2Core);
  read_head_dim(f, m, 0);
  read_ffn(f, m, {"n_inner"});
  m.gated_mlp = swiglu;
  if (swiglu) {
    m.activation = Activation::kSilu;
  } else {
    read_activation(f, m, {"activation_function"}, activation);
  }
  m.position_embedding = PositionEmbedding::kLearned;
  m.tied_embeddings = f.flag_or({"tie_word_embeddings"}, true);
  m.linear_bias = true;
  m.max_seq_length = f.size_or("max_seq_length", {"n_positions"}, 1024);
  read_dropout(f, m, {"resid_pdrop"}, 0.1, {"attn_pdrop"}, 0.1);
  return m;
}

// Key/value heads of Falcon: one for all (7B), a number of groups (40B, 180B), or all heads (RW).
void read_falcon_groups(HfFields& f, ModelSpec& m, bool new_architecture) {
  if (new_architecture) {
    read_groups(f, m, {"num_kv_heads", "n_head_kv"}, 0);
  } else if (f.flag_or({"multi_query"}, true)) {
    m.num_query_groups = 1;
  }
  set_attention_kind(m);
}

// Key/value heads of MPT and llm-foundry.
void read_mpt_groups(HfFields& attention, ModelSpec& m) {
  const std::string type = attention.text_or({"attn_type"}, "multihead_attention");
  if (type == "multiquery_attention") {
    m.num_query_groups = 1;
  } else if (type == "grouped_query_attention") {
    m.num_query_groups = attention.size("num_query_groups", {"kv_n_heads"});
  } else if (type != "multihead_attention") {
    attention.error({"attn_type"}, "attention of type '" + type + "' is not supported",
                    "known: multihead_attention, multiquery_attention and grouped_query_attention");
  }
  set_attention_kind(m);
}

PositionEmbedding mpt_positions(HfFields& f, HfFields& attention) {
  if (attention.flag_or({"alibi"}, true)) return PositionEmbedding::kAlibi;
  if (attention.flag_or({"rope"}, false)) return PositionEmbedding::kRope;
  const bool learned = f.flag_or({"learned_pos_emb"}, true);
  return learned ? PositionEmbedding::kLearned : PositionEmbedding::kNone;
}

void read_mpt_ffn(HfFields& f, ModelSpec& m) {
  HfFields ffn = f.section("ffn_config");
  const std::string type = ffn.text_or({"ffn_type"}, "mptmlp");
  m.gated_mlp = type == "mptglu" || type == "mptgeglu";
  if (!m.gated_mlp && type != "mptmlp" && type != "te_ln_mlp") {
    ffn.error({"ffn_type"}, "an MLP of type '" + type + "' is not supported",
              "known: mptmlp, mptglu and mptgeglu");
  }
  const double ratio = f.real_or("ffn_hidden_size", {"expansion_ratio"}, 4.0);
  const double expanded = ratio * static_cast<double>(m.hidden_size);
  const bool sane = expanded >= 1 && expanded <= static_cast<double>(kLargestHfSize);
  if (!sane) f.error({"expansion_ratio"}, "'expansion_ratio' gives no usable MLP size");
  m.ffn_hidden_size = ffn.size_or("ffn_hidden_size", {"ffn_hidden_size"},
                                  sane ? static_cast<std::int64_t>(expanded) : 1);
}

}  // namespace

ModelSpec read_gpt2(HfFields& f) {
  ModelSpec m = gpt2_like(f, "gelu_new");
  set_attention_kind(m);
  return m;
}

// GPT-2 with a gated MLP and positions by a slope (2308.16149 sec. 3.1).
ModelSpec read_jais(HfFields& f) {
  const std::string name = f.text_or({"activation_function"}, "gelu");
  ModelSpec m = gpt2_like(f, "gelu", name == "swiglu");
  if (f.text_or({"position_embedding_type"}, "learned") == "alibi") {
    m.position_embedding = PositionEmbedding::kAlibi;
  }
  set_attention_kind(m);
  return m;
}

ModelSpec read_gpt_bigcode(HfFields& f) {
  ModelSpec m = gpt2_like(f, "gelu_pytorch_tanh");
  if (f.flag_or({"multi_query"}, true)) m.num_query_groups = 1;
  set_attention_kind(m);
  return m;
}

ModelSpec read_gpt_neox(HfFields& f) {
  ModelSpec m = read_core(f);
  read_head_dim(f, m, 0);
  set_attention_kind(m);
  m.ffn_hidden_size = f.size("ffn_hidden_size", {"intermediate_size"});
  read_activation(f, m, {"hidden_act"}, "gelu");
  set_biases(m, f.flag_or({"attention_bias"}, true), true);
  m.parallel_block = f.flag_or({"use_parallel_residual"}, true);
  m.rotary_percent = f.real_or("rotary_percent", {"rotary_pct"}, 0.25);
  m.tied_embeddings = f.flag_or({"tie_word_embeddings"}, false);
  m.max_seq_length = f.size_or("max_seq_length", {"max_position_embeddings"}, 2048);
  read_dropout(f, m, {"hidden_dropout"}, 0.0, {"attention_dropout"}, 0.0);
  return m;
}

ModelSpec read_falcon(HfFields& f) {
  ModelSpec m = read_core(f, kFalconCore);
  const bool new_architecture = f.flag_or({"new_decoder_architecture"}, false);
  read_falcon_groups(f, m, new_architecture);
  read_head_dim(f, m, 0);
  read_ffn(f, m, {"ffn_hidden_size"});
  read_activation(f, m, {"activation"}, "gelu");
  m.position_embedding =
      f.flag_or({"alibi"}, false) ? PositionEmbedding::kAlibi : PositionEmbedding::kRope;
  m.linear_bias = f.flag_or({"bias"}, false);
  m.parallel_block = new_architecture || f.flag_or({"parallel_attn"}, true);
  const std::int64_t norms =
      f.size_or("parallel_shared_norm", {"num_ln_in_parallel_attn"}, new_architecture ? 2 : 1);
  m.parallel_shared_norm = m.parallel_block && norms == 1;
  m.tied_embeddings = f.flag_or({"tie_word_embeddings"}, true);
  m.max_seq_length = f.size_or("max_seq_length", {"max_position_embeddings"}, 2048);
  read_dropout(f, m, {"hidden_dropout"}, 0.0, {"attention_dropout"}, 0.0);
  return m;
}

ModelSpec read_mpt(HfFields& f) {
  ModelSpec m = read_core(f, kMptCore);
  HfFields attention = f.section("attn_config");
  read_mpt_groups(attention, m);
  read_head_dim(f, m, 0);
  read_mpt_ffn(f, m);
  m.norm = f.text_or({"norm_type"}, "low_precision_layernorm").find("rmsnorm") == std::string::npos
               ? Norm::kLayerNorm
               : Norm::kRmsNorm;
  m.position_embedding = mpt_positions(f, attention);
  m.qk_norm = attention.flag_or({"qk_ln"}, false);
  m.linear_bias = !f.flag_or({"no_bias"}, true);
  m.tied_embeddings = f.flag_or({"tie_word_embeddings"}, true);
  m.max_seq_length = f.size_or("max_seq_length", {"max_seq_len"}, 2048);
  m.dropout = std::max(f.real_or("dropout", {"resid_pdrop"}, 0.0),
                       attention.real_or("dropout", {"attn_pdrop"}, 0.0));
  return m;
}

ModelSpec read_bloom(HfFields& f) {
  ModelSpec m = read_core(f, kBloomCore);
  read_head_dim(f, m, 0);
  set_attention_kind(m);
  m.ffn_hidden_size = 4 * m.hidden_size;  // fixed in the model's code
  m.position_embedding = PositionEmbedding::kAlibi;
  m.tied_embeddings = f.flag_or({"tie_word_embeddings"}, true);
  m.linear_bias = true;
  m.embedding_norm = true;
  m.max_seq_length = f.size_or("max_seq_length", {"seq_length"}, 2048);
  read_dropout(f, m, {"hidden_dropout"}, 0.0, {"attention_dropout"}, 0.0);
  return m;
}

// Learned positions, windows in the layers that the file calls local, and biases everywhere but in
// the query/key/value projection.
ModelSpec read_gpt_neo(HfFields& f) {
  ModelSpec m = read_core(
      f,
      {{"num_layers", "num_hidden_layers"}, {"hidden_size"}, {"num_heads", "num_attention_heads"}});
  read_head_dim(f, m, 0);
  set_attention_kind(m);
  read_ffn(f, m, {"intermediate_size"});
  read_activation(f, m, {"activation_function"}, "gelu_new");
  m.position_embedding = PositionEmbedding::kLearned;
  m.tied_embeddings = f.flag_or({"tie_word_embeddings"}, true);
  m.attention_out_bias = m.mlp_bias = true;
  m.max_seq_length = f.size_or("max_seq_length", {"max_position_embeddings"}, 2048);
  read_dropout(f, m, {"resid_dropout"}, 0.0, {"attention_dropout"}, 0.0);
  const std::int64_t window = f.size_or("attention.window", {"window_size"}, 256);
  edit_layers(m, [](std::size_t, LayerSpec&) {});
  const bool listed = read_layer_types(
      f, m, {"attention_layers"}, "local", "global",
      [&](LayerSpec& layer) { std::get<AttentionSpec>(layer.mixer).window = window; });
  if (listed) return m;
  edit_layers(m, [&](std::size_t i, LayerSpec& layer) {  // the default of its class
    if (i % 2 == 1) std::get<AttentionSpec>(layer.mixer).window = window;
  });
  return m;
}

// Positions are sines, which are no parameters.
ModelSpec read_xglm(HfFields& f) {
  ModelSpec m = read_core(f, {{"num_layers"}, {"d_model"}, {"attention_heads"}});
  read_head_dim(f, m, 0);
  set_attention_kind(m);
  m.ffn_hidden_size = f.size("ffn_hidden_size", {"ffn_dim"});
  read_activation(f, m, {"activation_function"}, "gelu");
  m.position_embedding = PositionEmbedding::kNone;
  m.tied_embeddings = f.flag_or({"tie_word_embeddings"}, true);
  m.linear_bias = true;
  m.max_seq_length = f.size_or("max_seq_length", {"max_position_embeddings"}, 2048);
  read_dropout(f, m, {"dropout"}, 0.1, {"attention_dropout"}, 0.1);
  return m;
}

ModelSpec read_opt(HfFields& f) {
  ModelSpec m = read_core(f);
  read_head_dim(f, m, 0);
  set_attention_kind(m);
  m.ffn_hidden_size = f.size("ffn_hidden_size", {"ffn_dim"});
  read_activation(f, m, {"activation_function"}, "relu");
  m.position_embedding = PositionEmbedding::kLearned;
  m.tied_embeddings = f.flag_or({"tie_word_embeddings"}, true);
  m.linear_bias = f.flag_or({"enable_bias"}, true);
  m.max_seq_length = f.size_or("max_seq_length", {"max_position_embeddings"}, 2048);
  read_dropout(f, m, {"dropout"}, 0.1, {"attention_dropout"}, 0.0);
  if (f.size_or("hidden_size", {"word_embed_proj_dim"}, m.hidden_size) != m.hidden_size) {
    f.error({"word_embed_proj_dim"},
            "an embedding narrower than the hidden size cannot be described");
  }
  return m;
}

ModelSpec read_nemotron(HfFields& f) {
  ModelSpec m = read_core(f);
  read_groups(f, m, {"num_key_value_heads"}, 0);
  read_head_dim(f, m, 0);
  set_attention_kind(m);
  m.ffn_hidden_size = f.size("ffn_hidden_size", {"intermediate_size"});
  read_activation(f, m, {"hidden_act"}, "relu2");
  set_biases(m, f.flag_or({"attention_bias"}, false), f.flag_or({"mlp_bias"}, false));
  m.rotary_percent = f.real_or("rotary_percent", {"partial_rotary_factor"}, 0.5);
  m.tied_embeddings = f.flag_or({"tie_word_embeddings"}, false);
  m.max_seq_length = f.size_or("max_seq_length", {"max_position_embeddings"}, 4096);
  read_dropout(f, m, {"hidden_dropout"}, 0.0, {"attention_dropout"}, 0.0);
  return m;
}

}  // namespace meshplan::hf
