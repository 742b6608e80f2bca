// Published model section -> ModelSpec.
#include "mapping.hpp"
#include "model/rules.hpp"
#include "words.hpp"

namespace meshplan::accuracy {
namespace {

// What a family's architecture has beyond the format's keys, by words of the model's name.
void apply_family(ModelSpec& m, const Run& run) {
  const std::string& name = run.model.name;
  // BLOOM normalises after the embedding (2211.05100, sec. 3.2.1).
  m.embedding_norm = has_word(name, "bloom");
  // GPT-NeoX and Pythia run attention and MLP side by side (2204.06745, sec. 2.1; 2304.01373).
  m.parallel_block = has_any(name, {"neox", "pythia"});
  // Qwen3 normalises queries and keys per head, Qwen2 has query/key/value biases instead
  // (2505.09388).
  m.qk_norm = has_word(name, "qwen3");
  m.qkv_bias = has_word(name, "qwen2");
  if (has_any(name, {"gpt-oss", "gpt_oss", "gptoss"})) {
    // gpt-oss model card: every other layer sees 128 tokens, learned sinks, biases everywhere.
    m.window = 128;
    m.window_every = 2;
    m.attention_sinks = m.qkv_bias = m.attention_out_bias = m.expert_bias = true;
  }
  const std::string said = run.notes + " " + run.model.notes;
  // DeepSeek-V3 trains one multi-token-prediction layer (2412.19437, sec. 2.2) unless the row says
  // it was left out.
  const bool deepseek = has_any(name, {"deepseekv3", "deepseek-v3", "deepseek_v3"});
  if (!run.model.mtp_layers && deepseek && !has_word(said, "w/o MTP")) m.mtp_layers = 1;
}

Activation activation_of(const PublishedModel& p, bool gated) {
  if (has_any(p.activation, {"squared-relu", "relu2"})) return Activation::kRelu2;
  if (has_any(p.activation, {"silu", "swiglu"})) return Activation::kSilu;
  if (has_any(p.activation, {"gelu", "geglu"})) return Activation::kGelu;
  if (has_word(p.activation, "relu")) return Activation::kRelu;
  return gated ? Activation::kSilu : Activation::kGelu;
}

PositionEmbedding position_of(const PublishedModel& p) {
  if (has_word(p.position_embedding, "learned")) return PositionEmbedding::kLearned;
  if (has_word(p.position_embedding, "alibi")) return PositionEmbedding::kAlibi;
  return PositionEmbedding::kRope;
}

std::string missing_sizes(const PublishedModel& p) {
  std::string missing;
  const auto need = [&](bool stated, const char* key) {
    if (!stated) missing += (missing.empty() ? "" : ", ") + std::string(key);
  };
  need(p.num_layers.has_value(), "num_layers");
  need(p.hidden_size.has_value(), "hidden_size");
  need(p.ffn_hidden_size.has_value() || p.moe.has_value(), "ffn_hidden_size");
  need(p.vocab_size.has_value(), "vocab_size");
  need(p.seq_length.has_value(), "seq_length");
  return missing;
}

void apply_attention(ModelSpec& m, const PublishedModel& p) {
  // Without a stated number every head has its own keys and values.
  m.num_query_groups = p.num_query_groups.value_or(m.num_attention_heads);
  m.head_dim = p.head_dim.value_or(m.hidden_size / m.num_attention_heads);
  m.attention =
      m.num_query_groups < m.num_attention_heads ? AttentionKind::kGqa : AttentionKind::kMha;
  m.mla = p.mla;
  if (m.mla) m.attention = AttentionKind::kMla;
}

}  // namespace

std::variant<ModelSpec, Skip> model_of(const Run& run, std::optional<std::int64_t> heads) {
  const PublishedModel& p = run.model;
  const std::string missing = missing_sizes(p);
  if (!missing.empty()) return Skip{"model not stated: " + missing};
  if (!heads) heads = p.num_attention_heads;
  if (!heads) return Skip{"model not stated: num_attention_heads"};
  ModelSpec m;
  m.name = p.name;
  m.num_layers = *p.num_layers;
  m.hidden_size = *p.hidden_size;
  m.num_attention_heads = *heads;
  m.ffn_hidden_size = p.ffn_hidden_size.value_or(0);
  m.gated_mlp = p.gated.value_or(false);
  m.activation = activation_of(p, m.gated_mlp);
  const bool rms = has_word(p.normalization, "rms") || (p.normalization.empty() && m.gated_mlp);
  m.norm = rms ? Norm::kRmsNorm : Norm::kLayerNorm;
  m.position_embedding = position_of(p);
  m.vocab_size = *p.vocab_size;
  m.tied_embeddings = p.tied_embeddings.value_or(false);
  m.linear_bias = p.linear_bias.value_or(!m.gated_mlp);
  m.dropout = run.dropout.value_or(0.0);
  m.max_seq_length = *p.seq_length;
  m.moe = p.moe;
  m.mtp_layers = p.mtp_layers.value_or(0);
  apply_attention(m, p);
  apply_family(m, run);
  m.source = "published run " + run.id;
  const Diagnostics broken = validate(m);
  if (has_errors(broken)) return Skip{"model not plannable: " + broken.front().message};
  return m;
}

}  // namespace meshplan::accuracy
