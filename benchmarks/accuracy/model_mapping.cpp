// Published model section -> ModelSpec.
#include <algorithm>

#include "mapping.hpp"
#include "model/rules.hpp"
#include "spec/hybrid_pattern.hpp"
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
  if (letters_and_digits(name).find("gptoss") != std::string::npos) {
    // gpt-oss model card: every other layer sees 128 tokens, learned sinks, biases everywhere.
    m.window = 128;
    m.window_every = 2;
    m.attention_sinks = m.qkv_bias = m.attention_out_bias = m.expert_bias = true;
  }
  const std::string said = run.notes + " " + run.model.notes;
  // DeepSeek-V3 trains one multi-token-prediction layer (2412.19437, sec. 2.2) unless the row says
  // it was left out, or that the model was cut to fewer layers, whose benchmarks have none.
  constexpr std::int64_t kDeepseekV3Layers = 61;
  const bool deepseek = has_any(name, {"deepseekv3", "deepseek-v3", "deepseek_v3"});
  const bool whole = deepseek && m.num_layers == kDeepseekV3Layers;
  if (!run.model.mtp_layers && whole && !has_word(said, "w/o MTP")) m.mtp_layers = 1;
  // Its router chooses four of eight groups of experts first (sec. 2.1.2).
  constexpr std::int64_t kDeepseekV3Experts = 256;
  if (deepseek && m.moe && m.moe->num_experts == kDeepseekV3Experts) {
    m.moe->router_num_groups = 8, m.moe->router_group_top_k = 4;
  }
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
  if (has_word(p.position_embedding, "none")) return PositionEmbedding::kNone;
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

// The layers of a hybrid; why they cannot be described, or an empty text.
std::string apply_pattern(ModelSpec& m, const PublishedModel& p) {
  std::string letters = p.layer_pattern;
  std::replace(letters.begin(), letters.end(), 'L', 'G');
  const LayerSpec flat = layer_spec(m, LayerKind::kDense, false);
  const auto lookup = [&](const HybridSymbol& symbol) -> std::optional<LayerSpec> {
    switch (symbol.symbol) {
      case 'M':
        if (p.mamba) return LayerSpec{*p.mamba, NoneSpec{}};
        return std::nullopt;
      case 'G':
        if (p.linear_attention) return LayerSpec{*p.linear_attention, NoneSpec{}};
        return std::nullopt;
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
  const std::int64_t passes = m.mtp_layers;
  const std::string problem = apply_hybrid_pattern(parse_hybrid_pattern(letters), lookup, m);
  if (!problem.empty() || passes == 0) return problem;
  m.mtp_layers = passes;
  if (m.mtp_layer) return problem;
  // Prediction is by attention and experts, or an MLP (Nemotron 3: "*E").
  const HybridSymbol* last = hybrid_symbol(m.moe ? 'E' : '-');
  m.mtp_layer = LayerSpec{flat.mixer, lookup(*last)->feed_forward};
  return problem;
}

// One layer after another; ratios behind the last one are of prediction layers. Ratio 4 is the one
// whose entries overlap and are chosen by an index.
void apply_compressed(ModelSpec& m, const PublishedModel& p) {
  constexpr std::int64_t kSparseRatio = 4;
  const FeedForward feed_forward = layer_spec(m, LayerKind::kMoe, false).feed_forward;
  const auto layer = [&](std::size_t i) {
    CompressedAttentionSpec kind = *p.compressed;
    kind.compress_ratio = i < p.compress_ratios.size() ? p.compress_ratios[i] : 0;
    kind.overlap = kind.compress_ratio == kSparseRatio;
    if (!kind.overlap) kind.index = {};
    return LayerSpec{kind, feed_forward};
  };
  m.layers.clear();
  for (std::int64_t i = 0; i < m.num_layers; ++i) {
    m.layers.push_back({1, layer(static_cast<std::size_t>(i))});
  }
  if (m.mtp_layers > 0) m.mtp_layer = layer(static_cast<std::size_t>(m.num_layers));
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
  if (p.compressed) apply_compressed(m, p);
  m.mhc_num_residual_streams = p.residual_streams.value_or(1);
  if (!p.layer_pattern.empty()) {
    const std::string problem = apply_pattern(m, p);
    if (!problem.empty()) return Skip{"model not described: " + problem};
  }
  m.source = "published run " + run.id;
  const Diagnostics broken = validate(m);
  if (has_errors(broken)) return Skip{"model not plannable: " + broken.front().message};
  return m;
}

}  // namespace meshplan::accuracy
