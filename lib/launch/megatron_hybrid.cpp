// Hybrids of Megatron-LM: layers by a pattern (megatron/core/models/hybrid), Mamba and linear
// attention (megatron/training/arguments.py).
#include "launch/megatron_hybrid.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include "spec/hybrid_pattern.hpp"

namespace meshplan {
namespace {

std::string pattern_option(const ArgumentReader& o) {
  return o.has("--hybrid-layer-pattern") ? "--hybrid-layer-pattern" : "--hybrid-override-pattern";
}

// Defaults of MambaMixer and of the arguments.
Mamba2Spec mamba_of(const ArgumentReader& o, const ModelSpec& m) {
  Mamba2Spec kind;
  kind.head_dim = std::max<std::int64_t>(o.number("--mamba-head-dim", 64), 1);
  kind.num_heads =
      o.number("--mamba-num-heads", std::max<std::int64_t>(2 * m.hidden_size / kind.head_dim, 1));
  kind.state_size = o.number("--mamba-state-dim", 128);
  kind.num_groups = o.number("--mamba-num-groups", 8);
  return kind;
}

GatedDeltaNetSpec delta_of(const ArgumentReader& o) {
  GatedDeltaNetSpec kind;
  kind.num_key_heads = o.number("--linear-num-key-heads", 16);
  kind.num_value_heads = o.number("--linear-num-value-heads", 32);
  kind.key_head_dim = o.number("--linear-key-head-dim", 128);
  kind.value_head_dim = o.number("--linear-value-head-dim", 128);
  kind.conv_kernel = o.number("--linear-conv-kernel-dim", 4);
  return kind;
}

HybridProblem apply_pattern(const ArgumentReader& o, ModelSpec& m, const std::string& text) {
  if (m.moe) m.moe->first_dense = 0, m.moe->every = 1;
  const LayerSpec flat = layer_spec(m, LayerKind::kDense, m.window > 0);
  const auto lookup = [&](const HybridSymbol& symbol) -> std::optional<LayerSpec> {
    switch (symbol.symbol) {
      case 'M':
        return LayerSpec{mamba_of(o, m), NoneSpec{}};
      case 'G':
        return LayerSpec{delta_of(o), NoneSpec{}};
      case '-':
        return LayerSpec{NoneSpec{}, flat.feed_forward};
      case 'E':
        if (m.moe) return LayerSpec{NoneSpec{}, *m.moe};
        return std::nullopt;
      case 'D':
        return std::nullopt;
      default:
        return LayerSpec{flat.mixer, NoneSpec{}};
    }
  };
  const std::int64_t passes = m.mtp_layers;
  const std::string problem = apply_hybrid_pattern(parse_hybrid_pattern(text), lookup, m);
  if (!problem.empty()) return {pattern_option(o), pattern_option(o) + ": " + problem};
  m.window = 0, m.window_every = 1;
  m.mtp_layers = std::max(m.mtp_layers, passes);
  if (num_moe_layers(m) == 0) m.moe.reset();
  return {};
}

// "[1,1,1,0]*3" and the like: which layers are linear. Empty where the text is no such list.
std::vector<bool> listed_layers(std::string text, std::int64_t layers) {
  std::int64_t times = 1;
  const std::size_t star =
      text.rfind(']') == std::string::npos ? std::string::npos : text.find('*', text.rfind(']'));
  if (star != std::string::npos) {
    std::from_chars(text.data() + star + 1, text.data() + text.size(), times);
    text.resize(star);
  }
  std::vector<bool> once, all;
  for (const char c : text) {
    if (c == '0' || c == '1') once.push_back(c == '1');
  }
  const auto wanted = static_cast<std::size_t>(layers);
  if (once.empty() || times < 1 || once.size() > wanted ||
      static_cast<std::size_t>(times) > wanted) {
    return {};
  }
  for (std::int64_t i = 0; i < times; ++i) all.insert(all.end(), once.begin(), once.end());
  return all.size() == wanted ? all : std::vector<bool>{};
}

// Linear attention in all layers but every n-th, or where a list has ones (A:
// linear_attention_freq).
HybridProblem apply_linear_attention(const ArgumentReader& o, ModelSpec& m) {
  constexpr const char* kOption = "--linear-attention-freq";
  const bool asked = o.text("--linear-attention-type") == "gated_delta_net" ||
                     o.text("--experimental-attention-variant") == "gated_delta_net";
  if (!asked) return {};
  const std::string text = o.text(kOption);
  std::vector<bool> linear(static_cast<std::size_t>(m.num_layers), true);
  if (text.find('[') != std::string::npos) {
    linear = listed_layers(text, m.num_layers);
    if (linear.empty()) {
      return {kOption, std::string(kOption) + " " + text + " says nothing of " +
                           std::to_string(m.num_layers) + " layers"};
    }
  } else if (const std::int64_t every = o.number(kOption, 1); every > 0) {
    for (std::size_t i = 0; i < linear.size(); ++i) {
      linear[i] = (static_cast<std::int64_t>(i) + 1) % every != 0;
    }
  }
  std::vector<LayerSpec> layers;
  for (std::int64_t i = 0; i < m.num_layers; ++i) layers.push_back(layer_spec(m, i));
  m.window = 0, m.window_every = 1;
  if (m.moe) m.moe->first_dense = 0, m.moe->every = 1;
  m.layers.clear();
  const GatedDeltaNetSpec delta = delta_of(o);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (linear[i]) layers[i].mixer = delta;
    if (auto* moe = std::get_if<MoeSpec>(&layers[i].feed_forward)) *moe = *m.moe;
    if (!m.layers.empty() && m.layers.back().layer == layers[i]) {
      ++m.layers.back().count;
    } else {
      m.layers.push_back({1, layers[i]});
    }
  }
  return {};
}

}  // namespace

// The newer option says stages and prediction as well; the older ones have options of their own for
// these.
std::string hybrid_pattern_text(const ArgumentReader& o) {
  if (o.has("--hybrid-layer-pattern")) return o.text("--hybrid-layer-pattern");
  std::string text = o.text("--hybrid-override-pattern");
  if (text.empty()) return text;
  const std::string prediction = o.text("--mtp-hybrid-override-pattern");
  const std::int64_t passes = std::min<std::int64_t>(o.number("--mtp-num-layers", 0), 100);
  for (std::int64_t i = 0; i < passes && !prediction.empty(); ++i) text += "/" + prediction;
  return text;
}

std::int64_t hybrid_layers(const ArgumentReader& o) {
  const std::string text = hybrid_pattern_text(o);
  if (text.empty()) return 0;
  // What is no pattern is reported where it is read.
  const auto layers = static_cast<std::int64_t>(parse_hybrid_pattern(text).layers.size());
  return std::max<std::int64_t>(layers, 1);
}

HybridProblem read_hybrid(const ArgumentReader& o, ModelSpec& m) {
  m.attention_output_gate = o.has("--attention-output-gate");
  if (const std::string share = o.text("--rotary-percent"); !share.empty()) {
    double value = 1;
    std::from_chars(share.data(), share.data() + share.size(), value);
    m.rotary_percent = std::clamp(value, 0.0, 1.0);
  }
  if (m.moe) m.moe->latent_size = o.number("--moe-latent-size", 0);
  const std::string pattern = hybrid_pattern_text(o);
  if (pattern.empty() && o.has("--is-hybrid-model")) {
    return {"--is-hybrid-model",
            "--is-hybrid-model without --hybrid-override-pattern: nothing says which layers are "
            "Mamba"};
  }
  const HybridProblem problem =
      pattern.empty() ? apply_linear_attention(o, m) : apply_pattern(o, m, pattern);
  m.mtp_shared = o.has("--mtp-use-repeated-layer") && m.mtp_layers > 0;
  return problem;
}

HybridStages hybrid_stages(const ArgumentReader& o, std::int64_t pp) {
  const HybridPattern pattern = parse_hybrid_pattern(hybrid_pattern_text(o));
  const auto ranks = static_cast<std::size_t>(std::max<std::int64_t>(pp, 1));
  if (pattern.stages.empty() || pattern.stages.size() % ranks != 0) return {};
  HybridStages stages;
  stages.chunks = static_cast<std::int64_t>(pattern.stages.size() / ranks);
  stages.layers_per_rank.assign(ranks, 0);
  for (std::size_t i = 0; i < pattern.stages.size(); ++i) {
    stages.layers_per_rank[i % ranks] += pattern.stages[i];
  }
  stages.layers_per_chunk = pattern.stages;
  return stages;
}

}  // namespace meshplan
