#include "io/hf_parts.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"

namespace meshplan::hf {
namespace {

struct ActivationRow {
  std::string_view name;
  Activation activation;
  std::string_view unlike = {};  // what that leaves out
};

// ACT2FN of transformers: names that mean the same arithmetic up to an approximation. SiTU is SiLU
// with both factors bounded by a tangent (Kimi K3, 2607.24653); xIELU a square where its input is
// positive and an exponential elsewhere (Apertus, 2411.13010).
constexpr auto kActivations = std::to_array<ActivationRow>(
    {{"gelu", Activation::kGelu},
     {"gelu_new", Activation::kGelu},
     {"gelu_fast", Activation::kGelu},
     {"gelu_python", Activation::kGelu},
     {"gelu_pytorch_tanh", Activation::kGelu},
     {"quick_gelu", Activation::kGelu},
     {"silu", Activation::kSilu},
     {"swish", Activation::kSilu},
     {"relu", Activation::kRelu},
     {"relu2", Activation::kRelu2},
     {"swigluoai", Activation::kSilu},
     {"situ", Activation::kSilu, "the tangents that bound it are not modelled"},
     {"xielu", Activation::kRelu2, "its exponential and learned slopes are not modelled"}});

// Which layers attend to a window only: every n-th from the first by flat keys, others listed.
void set_window(ModelSpec& m, const std::vector<bool>& windowed, std::int64_t window) {
  const auto count = std::count(windowed.begin(), windowed.end(), true);
  if (count == 0) return;
  const auto second = std::find(windowed.begin() + 1, windowed.end(), true);
  const auto every = static_cast<std::size_t>(second - windowed.begin());
  bool regular = m.layers.empty();
  for (std::size_t i = 0; i < windowed.size(); ++i) {
    regular = regular && windowed[i] == (i % every == 0);
  }
  if (regular) {
    m.window = window;
    m.window_every = static_cast<std::int64_t>(every);
    return;
  }
  edit_layers(m, [&](std::size_t i, LayerSpec& layer) {
    auto* attention = std::get_if<AttentionSpec>(&layer.mixer);
    if (attention != nullptr) attention->window = windowed[i] ? window : 0;
  });
}

}  // namespace

void read_activation(HfFields& f, ModelSpec& m, const HfNames& names, const std::string& fallback) {
  const std::string name = f.text_or(names, fallback);
  for (const ActivationRow& row : kActivations) {
    if (row.name == name) {
      m.activation = row.activation;
      if (!row.unlike.empty()) {
        m.notes.push_back("activation '" + name + "' is planned as " +
                          std::string(name_of(row.activation)) + ": " + std::string(row.unlike));
      }
      return;
    }
  }
  std::vector<std::string> known;
  for (const ActivationRow& row : kActivations) known.emplace_back(row.name);
  f.error(names, "activation '" + name + "' is not supported", "known: " + join_words(known));
}

ModelSpec read_core(HfFields& f, const CoreNames& names) {
  ModelSpec m;
  m.num_layers = f.size("num_layers", names.layers, 100'000);
  m.hidden_size = f.size("hidden_size", names.hidden);
  const auto size = [&](const std::string& key, const HfNames& spelled, std::int64_t fallback) {
    return fallback > 0 ? f.size_or(key, spelled, fallback) : f.size(key, spelled);
  };
  m.num_attention_heads = size("num_attention_heads", names.heads, names.default_heads);
  m.vocab_size = size("vocab_size", names.vocab, names.default_vocab);
  m.num_query_groups = m.num_attention_heads;
  return m;
}

void read_groups(HfFields& f, ModelSpec& m, const HfNames& names, std::int64_t fallback) {
  const bool as_heads = f.is_null(names) || fallback == 0;
  m.num_query_groups =
      f.size_or("num_query_groups", names, as_heads ? m.num_attention_heads : fallback);
}

void read_head_dim(HfFields& f, ModelSpec& m, std::int64_t fallback) {
  if (!f.has({"head_dim"}) && fallback == 0) {
    const bool known = f.was_read("hidden_size") && f.was_read("num_attention_heads");
    if (known && m.hidden_size % m.num_attention_heads != 0) {
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

void read_dropout(HfFields& f, ModelSpec& m, const HfNames& hidden, double hidden_fallback,
                  const HfNames& attention, double attention_fallback) {
  m.dropout = std::max(f.real_or("dropout", hidden, hidden_fallback),
                       f.real_or("dropout", attention, attention_fallback));
}

void set_biases(ModelSpec& m, bool attention, bool mlp) {
  m.linear_bias = attention && mlp;
  if (m.linear_bias) return;
  m.qkv_bias = attention;
  m.attention_out_bias = attention;
  m.mlp_bias = mlp;
}

// `layer_types` overrides the older keys that say which layers are windowed.
void read_window(HfFields& f, ModelSpec& m, std::vector<bool> windowed, std::int64_t window) {
  const std::vector<std::string> types = f.texts({"layer_types"});
  if (types.empty()) {
    set_window(m, windowed, window);
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
  set_window(m, windowed, window);
}

std::vector<bool> all_layers(const ModelSpec& m, bool value) {
  return std::vector<bool>(static_cast<std::size_t>(m.num_layers), value);
}

void read_score_cap(HfFields& f, ModelSpec& m) {
  m.attn_logit_softcapping = f.has({"attn_logit_softcapping"});
  if (!m.attn_logit_softcapping) return;
  m.notes.emplace_back(
      "attention's scores are capped by a tanh, which fused attention is taken to hide");
}

void set_expert_layers(ModelSpec& m, const std::vector<bool>& experts) {
  if (std::find(experts.begin(), experts.end(), true) == experts.end()) {
    m.moe.reset();
    return;
  }
  const auto first = std::find(experts.begin(), experts.end(), true);
  const auto second = std::find(first + 1, experts.end(), true);
  m.moe->every = second == experts.end() ? 1 : second - first;
  m.moe->first_dense = (first - experts.begin()) - m.moe->every + 1;
  bool same = m.moe->first_dense >= 0 && m.layers.empty();
  for (std::size_t i = 0; same && i < experts.size(); ++i) {
    same = experts[i] == (layer_kind(m, static_cast<std::int64_t>(i)) == LayerKind::kMoe);
  }
  if (same) return;
  m.moe->first_dense = 0;
  m.moe->every = 1;
  const MoeSpec moe = *m.moe;
  edit_layers(m, [&](std::size_t i, LayerSpec& layer) {
    if (experts[i]) {
      layer.feed_forward = moe;
    } else {
      layer.feed_forward = DenseMlpSpec{m.ffn_hidden_size};
    }
  });
}

bool read_layer_types(HfFields& f, ModelSpec& m, const HfNames& names, const std::string& type,
                      const std::string& plain, const std::function<void(LayerSpec&)>& edit) {
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

void edit_layers(ModelSpec& m, const std::function<void(std::size_t, LayerSpec&)>& edit) {
  std::vector<LayerSpec> all;
  for (std::int64_t i = 0; i < m.num_layers; ++i) all.push_back(layer_spec(m, i));
  m.window = 0;
  m.window_every = 1;
  if (m.moe) m.moe->first_dense = 0, m.moe->every = 1;
  m.layers.clear();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (std::holds_alternative<MoeSpec>(all[i].feed_forward)) all[i].feed_forward = *m.moe;
    edit(i, all[i]);
    if (!m.layers.empty() && m.layers.back().layer == all[i]) {
      ++m.layers.back().count;
    } else {
      m.layers.push_back({1, all[i]});
    }
  }
}

MoeSpec read_experts(HfFields& f, const HfNames& experts, std::int64_t top_k, const HfNames& ffn) {
  MoeSpec moe;
  moe.num_experts = f.size("moe.num_experts", experts);
  moe.top_k = f.size_or("moe.top_k", {"num_experts_per_tok"}, top_k);
  moe.expert_ffn_hidden_size = f.size("moe.expert_ffn_hidden_size", ffn);
  return moe;
}

void read_router_groups(HfFields& f, MoeSpec& moe) {
  if (f.is_null({"n_group"}) || f.is_null({"topk_group"})) return;
  const std::int64_t groups = f.count_or("moe.router_num_groups", {"n_group"}, 0);
  const std::int64_t chosen = f.count_or("moe.router_group_top_k", {"topk_group"}, groups);
  if (groups <= 1 || chosen == 0 || chosen >= groups) return;
  moe.router_num_groups = groups, moe.router_group_top_k = chosen;
}

}  // namespace meshplan::hf
