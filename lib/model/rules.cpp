// What a model must satisfy. The ranges keep every later product inside 64 bits: the parameters of
// one layer fit by the single limits, those of the whole model by kMostParameters.
#include "model/rules.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.hpp"
#include "model/block_table.hpp"
#include "model/parameters.hpp"

namespace meshplan {
namespace {

constexpr IntegerRange kLayers{1, 100'000};
constexpr IntegerRange kWidth{1, 1 << 22};
constexpr IntegerRange kOptionalWidth{0, 1 << 22};
constexpr IntegerRange kHeads{1, 1 << 16};
constexpr IntegerRange kHeadDim{1, 1 << 16};
constexpr IntegerRange kLatent{1, 1 << 20};
constexpr IntegerRange kOptionalLatent{0, 1 << 20};
constexpr IntegerRange kVocabulary{1, 1 << 26};
constexpr IntegerRange kTokens{1, 1 << 30};
constexpr IntegerRange kOptionalTokens{0, 1 << 30};
constexpr IntegerRange kExperts{1, 1 << 16};
constexpr RealRange kPublished{0, 1e16};
constexpr double kMostParameters = 1e16;

bool has_dense_layers(const ModelSpec& m) { return num_moe_layers(m) < m.num_layers; }

void check_sizes(const ModelSpec& m, Findings& f) {
  if (m.name.empty()) f.error({"name"}, "'name' is empty");
  f.check("num_layers", m.num_layers, kLayers);
  f.check("hidden_size", m.hidden_size, kWidth);
  f.check("num_attention_heads", m.num_attention_heads, kHeads);
  f.check("num_query_groups", m.num_query_groups, kHeads);
  f.check("head_dim", m.head_dim, kHeadDim);
  f.check("vocab_size", m.vocab_size, kVocabulary);
  f.check("max_seq_length", m.max_seq_length, kTokens);
  f.check("attention.window", m.window, kOptionalTokens);
  f.check("attention.window_every", m.window_every, kLayers);
  f.check("mtp_layers", m.mtp_layers, {0, 100});
  f.check("dropout", m.dropout, {0, 0.99});
  f.check("published_parameters", m.published_parameters, kPublished);
  f.check("published_active_parameters", m.published_active_parameters, kPublished);
}

void check_latent_sizes(const MlaSpec& sizes, const std::string& at, Findings& f) {
  f.check(at + ".q_lora_rank", sizes.q_lora_rank, kOptionalLatent);
  f.check(at + ".kv_lora_rank", sizes.kv_lora_rank, kLatent);
  f.check(at + ".qk_nope_head_dim", sizes.qk_nope_head_dim, kHeadDim);
  f.check(at + ".qk_rope_head_dim", sizes.qk_rope_head_dim, {0, kHeadDim.highest});
  f.check(at + ".v_head_dim", sizes.v_head_dim, kHeadDim);
}

void check_latent_attention(const ModelSpec& m, Findings& f) {
  const bool is_mla = m.attention == AttentionKind::kMla;
  if (is_mla && !m.mla)
    f.error({"attention"}, "'attention' of kind mla needs its sizes", "kv_lora_rank, ...");
  if (!is_mla && m.mla) f.error({"attention"}, "latent sizes need 'attention.kind' mla");
  if (m.mla) check_latent_sizes(*m.mla, "attention", f);
}

// Loads that a router can give: of every expert, and no expert twice per token.
void check_histogram(const MoeSpec& moe, const std::string& at, Findings& f) {
  const std::vector<double>& loads = moe.load_histogram;
  const std::string key = at + ".imbalance.histogram";
  if (loads.empty()) return;
  if (static_cast<std::int64_t>(loads.size()) != moe.num_experts) {
    f.error({key, at + ".num_experts"}, "'" + key + "' needs one load for each of the " +
                                            std::to_string(moe.num_experts) + " experts, got " +
                                            std::to_string(loads.size()));
    return;
  }
  double sum = 0, most = 0;
  for (const double load : loads) {
    sum += load >= 0 && load < 1e15 ? load : std::numeric_limits<double>::infinity();
    most = std::max(most, load);
  }
  if (!(sum > 0) || !std::isfinite(sum)) {
    f.error({key}, "'" + key + "' must hold loads of zero or more, one of them above");
    return;
  }
  const double over_mean = most * static_cast<double>(moe.num_experts) / sum;
  const double cap = static_cast<double>(moe.num_experts) / static_cast<double>(moe.top_k);
  if (over_mean > cap * (1 + 1e-9)) {
    f.error({key, at + ".top_k"},
            "'" + key + "' gives an expert " + fixed(over_mean, 2) +
                " times the mean load, but with " + std::to_string(moe.top_k) + " of " +
                std::to_string(moe.num_experts) + " experts per token none can get more than " +
                fixed(cap, 2) + " times");
  }
}

void check_expert_sizes(const MoeSpec& moe, const std::string& at, Findings& f) {
  f.check(at + ".num_experts", moe.num_experts, kExperts);
  f.check(at + ".top_k", moe.top_k, kExperts);
  f.check(at + ".expert_ffn_hidden_size", moe.expert_ffn_hidden_size, kWidth);
  f.check(at + ".shared_expert_ffn_hidden_size", moe.shared_expert_ffn_hidden_size, kOptionalWidth);
  f.check(at + ".layers.first_dense", moe.first_dense, {0, kLayers.highest});
  f.check(at + ".layers.every", moe.every, kLayers);
  f.check(at + ".imbalance", moe.imbalance, {1, static_cast<double>(kExperts.highest)});
  if (moe.load_zipf) f.check(at + ".imbalance.zipf", *moe.load_zipf, {0, 8});
  check_histogram(moe, at, f);
}

void check_experts(const ModelSpec& m, Findings& f) {
  if (m.moe) check_expert_sizes(*m.moe, "moe", f);
}

void check_heads(const ModelSpec& m, Findings& f) {
  if (m.attention == AttentionKind::kMla) return;  // has no key/value groups
  if (m.num_attention_heads % m.num_query_groups != 0) {
    f.error({"num_query_groups", "num_attention_heads"},
            "'num_query_groups' must divide the " + std::to_string(m.num_attention_heads) +
                " attention heads, got " + std::to_string(m.num_query_groups));
  }
  if (m.attention == AttentionKind::kMha && m.num_query_groups != m.num_attention_heads) {
    f.error({"attention.kind", "num_query_groups", "num_attention_heads"},
            "'attention.kind' mha means one key/value head per attention head, but "
            "'num_query_groups' is " +
                std::to_string(m.num_query_groups),
            "write gqa");
  }
}

void check_dense_mlp(const ModelSpec& m, Findings& f) {
  const bool needed = m.layers.empty() && has_dense_layers(m);
  f.check("ffn_hidden_size", m.ffn_hidden_size, needed ? kWidth : kOptionalWidth);
}

void check_expert_choice(const MoeSpec& moe, const std::string& at, Findings& f) {
  if (moe.top_k > moe.num_experts) {
    f.error({at + ".top_k", at + ".num_experts"}, "'" + at + ".top_k' is more than the " +
                                                      std::to_string(moe.num_experts) +
                                                      " experts, got " + std::to_string(moe.top_k));
  }
  if (moe.imbalance > static_cast<double>(moe.num_experts)) {
    f.error({at + ".imbalance", at + ".num_experts"},
            "'" + at + ".imbalance' is more than the number of experts, " +
                std::to_string(moe.num_experts));
  }
}

void check_routing(const ModelSpec& m, Findings& f) {
  if (!m.moe) return;
  check_expert_choice(*m.moe, "moe", f);
  if (num_moe_layers(m) == 0) {
    f.error({"moe.layers", "num_layers", "moe.layers.first_dense", "moe.layers.every"},
            "'moe.layers' leaves no layer with experts");
  }
}

void check_norms(const ModelSpec& m, Findings& f) {
  if (m.parallel_shared_norm && !m.parallel_block) {
    f.error({"parallel_shared_norm", "parallel_block"},
            "'parallel_shared_norm' needs 'parallel_block'");
  }
}

// Sizes that a kind of layer states itself, under the keys of its section.
void check_mixer(const Mixer& mixer, const std::string& at, Findings& f) {
  f.check(at + ".num_attention_heads", num_heads(mixer), kHeads);
  f.check(at + ".window", window_of(mixer), kOptionalTokens);
  if (const auto* kind = std::get_if<LatentAttentionSpec>(&mixer)) {
    check_latent_sizes(kind->sizes, at, f);
    return;
  }
  const auto& kind = std::get<AttentionSpec>(mixer);
  f.check(at + ".head_dim", kind.head_dim, kHeadDim);
  if (!f.check(at + ".num_query_groups", kind.num_query_groups, kHeads)) return;
  if (kind.num_attention_heads % kind.num_query_groups != 0) {
    f.error({at + ".num_query_groups", at + ".num_attention_heads", at, "layers"},
            "'" + at + "': its 'num_query_groups' must divide the " +
                std::to_string(kind.num_attention_heads) + " attention heads, got " +
                std::to_string(kind.num_query_groups));
  }
}

void check_feed_forward(const FeedForward& feed_forward, const std::string& at, Findings& f) {
  if (const auto* kind = std::get_if<DenseMlpSpec>(&feed_forward)) {
    f.check(at + ".ffn_hidden_size", kind->ffn_hidden_size, kWidth);
    return;
  }
  check_expert_sizes(std::get<MoeSpec>(feed_forward), at, f);
  check_expert_choice(std::get<MoeSpec>(feed_forward), at, f);
}

void check_layers(const ModelSpec& m, Findings& f) {
  if (m.layers.empty()) return;
  std::int64_t all = 0;
  bool experts = false;
  for (std::size_t i = 0; i < m.layers.size(); ++i) {
    const std::string at = "layers[" + std::to_string(i) + "]";
    if (!f.check(at + ".count", m.layers[i].count, kLayers)) return;
    all += m.layers[i].count;
    check_mixer(m.layers[i].layer.mixer, at + ".mixer", f);
    check_feed_forward(m.layers[i].layer.feed_forward, at + ".feed_forward", f);
    experts = experts || experts_of(m.layers[i].layer) != nullptr;
  }
  if (all != m.num_layers) {
    f.error({"layers", "num_layers"}, "'layers' adds up to " + std::to_string(all) +
                                          " layers, but 'num_layers' is " +
                                          std::to_string(m.num_layers));
  }
  if (experts && !m.moe) f.error({"layers", "moe"}, "layers with experts need 'moe'");
  if (m.window_every != 1) {
    f.error({"attention.window_every", "layers"},
            "'layers' says which layers are windowed: leave 'attention.window_every' out");
  }
  if (m.moe && (m.moe->first_dense != 0 || m.moe->every != 1)) {
    f.error({"moe.layers", "layers"},
            "'layers' says which layers have experts: leave 'moe.layers' out");
  }
}

void check_total(const ModelSpec& m, Findings& f) {
  const auto layer_size = [&](const LayerSpec& layer) {
    const LayerParameters p = layer_parameters(m, layer);
    return static_cast<double>(p.attention_linear + p.attention_other + p.mlp_linear + p.router +
                               p.norms) +
           static_cast<double>(p.experts);
  };
  const BlockTable table = block_table(m);
  const BlockCounts blocks = all_blocks(m, table);
  double total = static_cast<double>(m.mtp_layers) * layer_size(mtp_layer(m));
  for (std::size_t i = 0; i < table.layers.size(); ++i) {
    total += static_cast<double>(blocks[kFirstLayerBlock + i]) * layer_size(table.layers[i]);
  }
  total +=
      static_cast<double>(m.hidden_size) * static_cast<double>(2 * m.vocab_size + m.max_seq_length);
  if (total > kMostParameters) {
    f.error({"num_layers", "hidden_size", "ffn_hidden_size"},
            "the model has about " + human_count(total) + " parameters, more than the " +
                human_count(kMostParameters) + " that can be planned for");
  }
}

using Rule = void (*)(const ModelSpec&, Findings&);
// The first group looks at keys and sections by themselves; the second may rely on it.
constexpr Rule kRangeRules[] = {check_sizes, check_latent_attention, check_experts, check_layers};
constexpr Rule kJointRules[] = {check_heads, check_dense_mlp, check_routing, check_norms};

}  // namespace

Findings findings(const ModelSpec& m) {
  Findings f;
  for (const Rule rule : kRangeRules) rule(m, f);
  if (f.has_errors()) return f;
  for (const Rule rule : kJointRules) rule(m, f);
  if (!f.has_errors()) check_total(m, f);
  return f;
}

Diagnostics validate(const ModelSpec& m) { return findings(m).diagnostics(); }

}  // namespace meshplan
