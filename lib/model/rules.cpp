// What a model must satisfy. The ranges keep every later product inside 64 bits: the parameters of
// one layer fit by the single limits, those of the whole model by kMostParameters.
#include "model/rules.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.hpp"
#include "model/block_table.hpp"
#include "model/encoder.hpp"
#include "model/parameters.hpp"
#include "spec/layer_keys.hpp"

namespace meshplan {
namespace {

constexpr IntegerRange kLayers{1, 100'000};
constexpr IntegerRange kVocabulary{1, 1 << 26};
constexpr IntegerRange kTokens{1, 1 << 30};
constexpr RealRange kPublished{0, 1e16};
constexpr double kMostParameters = 1e16;

bool has_dense_layers(const ModelSpec& m) { return num_moe_layers(m) < m.num_layers; }

void check_sizes(const ModelSpec& m, Findings& f) {
  if (m.name.empty()) f.error({"name"}, "'name' is empty");
  f.check("num_layers", m.num_layers, kLayers);
  f.check("hidden_size", m.hidden_size, kLayerWidth);
  f.check("num_attention_heads", m.num_attention_heads, kLayerHeads);
  f.check("num_query_groups", m.num_query_groups, kLayerHeads);
  f.check("head_dim", m.head_dim, kLayerHeadDim);
  f.check("vocab_size", m.vocab_size, kVocabulary);
  f.check("max_seq_length", m.max_seq_length, kTokens);
  f.check("attention.window", m.window, kWindowTokens);
  f.check("attention.window_every", m.window_every, kLayers);
  f.check("mtp_layers", m.mtp_layers, {0, 100});
  f.check("mhc_num_residual_streams", m.mhc_num_residual_streams, {1, 64});
  f.check("mhc_sinkhorn_iterations", m.mhc_sinkhorn_iterations, {1, 1000});
  if (m.mhc_num_residual_streams > 1 && m.parallel_block) {
    f.error(
        {"mhc_num_residual_streams", "parallel_block"},
        "each part of a layer reads its own mixture of streams: attention and MLP of a parallel "
        "block read the same input");
  }
  f.check("attn_res_block_size", m.attn_res_block_size, {0, 10'000});
  if (m.attn_res_block_size > 0 && (m.parallel_block || m.mhc_num_residual_streams > 1)) {
    f.error(
        {"attn_res_block_size", m.parallel_block ? "parallel_block" : "mhc_num_residual_streams"},
        "attention residuals are not built together with parallel blocks or hyper-connections");
  }
  f.check("dropout", m.dropout, {0, 0.99});
  f.check("rotary_percent", m.rotary_percent, {0, 1});
  f.check("published_parameters", m.published_parameters, kPublished);
  f.check("published_active_parameters", m.published_active_parameters, kPublished);
}

// Ranges of a kind's sizes, under the keys of its section.
template <class Kind>
bool check_keys(const Kind& kind, const std::string& at, Findings& f) {
  bool good = true;
  for_each_layer_key(kind, [&](const LayerKey& key, const auto& value) {
    if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(value)>, bool>) {
      good = f.check(at + "." + std::string(key.name), value, key.range) && good;
    }
  });
  return good;
}

void check_latent_attention(const ModelSpec& m, Findings& f) {
  const bool is_mla = m.attention == AttentionKind::kMla;
  if (is_mla && !m.mla)
    f.error({"attention"}, "'attention' of kind mla needs its sizes", "kv_lora_rank, ...");
  if (!is_mla && m.mla) f.error({"attention"}, "latent sizes need 'attention.kind' mla");
  if (m.mla) check_keys(*m.mla, "attention", f);
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
  check_keys(moe, at, f);
  f.check(at + ".layers.first_dense", moe.first_dense, {0, kLayers.highest});
  f.check(at + ".layers.every", moe.every, kLayers);
  f.check(at + ".imbalance", moe.imbalance, {1, static_cast<double>(kExpertCount.highest)});
  if (moe.load_zipf) f.check(at + ".imbalance.zipf", *moe.load_zipf, {0, 8});
  check_histogram(moe, at, f);
}

void check_experts(const ModelSpec& m, Findings& f) {
  if (m.moe) check_expert_sizes(*m.moe, "moe", f);
}

// Lengths go up, and each has documents.
void check_lengths(const ModelSpec& m, Findings& f) {
  if (!m.lengths) return;
  constexpr RealRange kLength{1, 1 << 30}, kDocuments{0, 1e15};
  constexpr std::size_t kMostBins = 1 << 16;
  const std::vector<LengthBin>& bins = m.lengths->bins;
  if (bins.empty() || bins.size() > kMostBins) {
    f.error({"lengths.tokens"}, bins.empty() ? "'lengths.tokens' is empty"
                                             : "'lengths.tokens' has more than 65,536 lengths");
    return;
  }
  double before = 0;
  for (const LengthBin& bin : bins) {
    if (!f.check("lengths.tokens", bin.tokens, kLength)) return;
    if (!f.check("lengths.documents", bin.documents, kDocuments)) return;
    if (bin.tokens <= before || bin.documents <= 0) {
      f.error({"lengths.tokens"},
              "'lengths.tokens' must increase, and each must have documents above zero");
      return;
    }
    before = bin.tokens;
  }
  if (m.encoder) {
    f.error({"lengths", "encoder"},
            "lengths of documents are of text alone: how many images a packed row has is not known",
            "plan full sequences, without lengths");
  }
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
  f.check("ffn_hidden_size", m.ffn_hidden_size, needed ? kLayerWidth : or_none(kLayerWidth));
}

void check_expert_choice(const MoeSpec& moe, const std::string& at, Findings& f) {
  if (moe.top_k > moe.num_experts) {
    f.error({at + ".top_k", at + ".num_experts"}, "'" + at + ".top_k' is more than the " +
                                                      std::to_string(moe.num_experts) +
                                                      " experts, got " + std::to_string(moe.top_k));
  }
  if (moe.latent_norm && moe.latent_size == 0) {
    f.error({at + ".latent_norm", at + ".latent_size"},
            "'" + at + ".latent_norm' needs '" + at + ".latent_size'");
  }
  const std::int64_t groups = moe.router_num_groups;
  const std::string groups_at = at + ".router_num_groups", chosen_at = at + ".router_group_top_k";
  if (groups == 0 && moe.router_group_top_k > 0) {
    f.error({chosen_at, groups_at}, "'" + chosen_at + "' needs '" + groups_at + "'");
  } else if (groups > 0 && moe.num_experts % groups != 0) {
    f.error({groups_at, at + ".num_experts"}, "'" + groups_at + "' does not divide the " +
                                                  std::to_string(moe.num_experts) +
                                                  " experts, got " + std::to_string(groups));
  } else if (groups > 0 && (moe.router_group_top_k < 1 || moe.router_group_top_k > groups ||
                            moe.top_k > moe.router_group_top_k * (moe.num_experts / groups))) {
    f.error({chosen_at, groups_at}, "'" + chosen_at + "' has to be 1 to " + std::to_string(groups) +
                                        " groups that hold the " + std::to_string(moe.top_k) +
                                        " experts of a token, got " +
                                        std::to_string(moe.router_group_top_k));
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

// What must hold between the sizes of one kind, once each is in its range.
void must_be_multiple(std::int64_t value, std::int64_t of, const std::string& at,
                      const char* value_key, const char* of_key, Findings& f) {
  if (value % of == 0) return;
  const std::string key(value_key), other(of_key);
  f.error({at + "." + other, at + "." + key, at, "layers"},
          "'" + at + "': its '" + other + "' must divide its '" + key + "' " +
              std::to_string(value) + ", got " + std::to_string(of));
}

void check_joint(const AttentionSpec& kind, const std::string& at, Findings& f) {
  if (kind.num_attention_heads % kind.num_query_groups != 0) {
    f.error({at + ".num_query_groups", at + ".num_attention_heads", at, "layers"},
            "'" + at + "': its 'num_query_groups' must divide the " +
                std::to_string(kind.num_attention_heads) + " attention heads, got " +
                std::to_string(kind.num_query_groups));
  }
  if (kind.shared_values && kind.v_head_dim > 0 && kind.v_head_dim != kind.head_dim) {
    f.error({at + ".v_head_dim", at}, "'" + at + "': values that are the keys have their size");
  }
  if (kind.chunked && kind.window == 0) {
    f.error({at + ".chunked", at}, "'" + at + "': 'chunked' needs a 'window', the chunk's tokens");
  }
}

void check_joint(const CompressedAttentionSpec& kind, const std::string& at, Findings& f) {
  must_be_multiple(kind.num_attention_heads, kind.o_groups, at, "num_attention_heads", "o_groups",
                   f);
  if (kind.compress_ratio == 0 && (kind.overlap || kind.index.top_k > 0)) {
    f.error({at + ".compress_ratio", at},
            "'" + at +
                "': 'overlap' and 'index_top_k' need a 'compress_ratio', the tokens of an "
                "entry");
  }
  if ((kind.index.top_k > 0) != (kind.index.heads > 0 && kind.index.head_dim > 0)) {
    f.error({at + ".index_heads", at + ".index_top_k", at},
            "'" + at + "': an index needs 'index_heads', 'index_head_dim' and 'index_top_k'");
  }
}

void check_joint(const ParallelMixerSpec& kind, const std::string& at, Findings& f) {
  check_joint(kind.attention, at, f);
  must_be_multiple(kind.mamba.num_heads, kind.mamba.num_groups, at, "mamba_num_heads",
                   "mamba_num_groups", f);
}

void check_joint(const Mamba2Spec& kind, const std::string& at, Findings& f) {
  must_be_multiple(kind.num_heads, kind.num_groups, at, "num_heads", "num_groups", f);
}

void check_joint(const GatedDeltaNetSpec& kind, const std::string& at, Findings& f) {
  must_be_multiple(kind.num_value_heads, kind.num_key_heads, at, "num_value_heads", "num_key_heads",
                   f);
  if (kind.full_rank_gate && kind.gate_rank == 0) {
    f.error({at + ".full_rank_gate", at + ".gate_rank"},
            "'" + at + ".full_rank_gate' needs the decay's 'gate_rank'");
  }
}

template <class Kind>
void check_joint(const Kind&, const std::string&, Findings&) {}

void check_mixer(const Mixer& mixer, const std::string& at, Findings& f) {
  std::visit(
      [&](const auto& kind) {
        if (check_keys(kind, at, f)) check_joint(kind, at, f);
      },
      mixer);
}

void check_feed_forward(const FeedForward& feed_forward, const std::string& at, Findings& f) {
  if (const auto* moe = std::get_if<MoeSpec>(&feed_forward)) {
    check_expert_sizes(*moe, at, f);
    check_expert_choice(*moe, at, f);
    return;
  }
  std::visit([&](const auto& kind) { check_keys(kind, at, f); }, feed_forward);
}

void check_layer(const LayerSpec& layer, const std::string& at, Findings& f) {
  check_mixer(layer.mixer, at + ".mixer", f);
  check_feed_forward(layer.feed_forward, at + ".feed_forward", f);
  if (has_mixer(layer) || has_feed_forward(layer)) return;
  f.error({at}, "'" + at + "' has neither a mixer nor a feed-forward");
}

void check_encoder(const ModelSpec& m, Findings& f) {
  if (!m.encoder || !check_keys(*m.encoder, "encoder", f)) return;
  if (m.encoder->head_dim > 0) return;
  must_be_multiple(m.encoder->hidden_size, m.encoder->num_attention_heads, "encoder", "hidden_size",
                   "num_attention_heads", f);
  must_be_multiple(m.encoder->patches_per_image, m.encoder->merged_patches, "encoder",
                   "patches_per_image", "merged_patches", f);
}

void check_prediction(const ModelSpec& m, Findings& f) {
  if (m.mtp_layer) check_layer(*m.mtp_layer, "mtp", f);
  if (m.mtp_layers == 0 && (m.mtp_layer || m.mtp_shared)) {
    f.error({"mtp", "mtp_layers"}, "'mtp' needs 'mtp_layers', the number of its passes");
  }
}

void check_layers(const ModelSpec& m, Findings& f) {
  if (m.layers.empty()) return;
  std::int64_t all = 0;
  bool experts = false;
  for (std::size_t i = 0; i < m.layers.size(); ++i) {
    const std::string at = "layers[" + std::to_string(i) + "]";
    if (!f.check(at + ".count", m.layers[i].count, kLayers)) return;
    all += m.layers[i].count;
    check_layer(m.layers[i].layer, at, f);
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
  total += static_cast<double>(encoder_parameters(m).all());
  if (total > kMostParameters) {
    f.error({"num_layers", "hidden_size", "ffn_hidden_size"},
            "the model has about " + human_count(total) + " parameters, more than the " +
                human_count(kMostParameters) + " that can be planned for");
  }
}

using Rule = void (*)(const ModelSpec&, Findings&);
// The first group looks at keys and sections by themselves; the second may rely on it.
constexpr Rule kRangeRules[] = {check_sizes,  check_latent_attention, check_experts,
                                check_layers, check_prediction,       check_encoder,
                                check_lengths};
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
