#include "spec/model.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace meshplan {
namespace {

// The run that holds a layer, or the last one.
const LayerRun& run_of(const ModelSpec& m, std::int64_t index) {
  for (const LayerRun& run : m.layers) {
    if (index < run.count) return run;
    index -= run.count;
  }
  return m.layers.back();
}

}  // namespace

LayerKind layer_kind(const ModelSpec& m, std::int64_t index) {
  if (!m.layers.empty()) {
    return experts_of(run_of(m, index).layer) != nullptr ? LayerKind::kMoe : LayerKind::kDense;
  }
  if (!m.moe) return LayerKind::kDense;
  // A multi-token-prediction layer is built like the last decoder layer (DeepSeek-V3 sec. 2.2).
  const std::int64_t layer = std::min(index, m.num_layers - 1) - m.moe->first_dense;
  if (layer < 0) return LayerKind::kDense;
  return (layer + 1) % m.moe->every == 0 ? LayerKind::kMoe : LayerKind::kDense;
}

bool layer_is_windowed(const ModelSpec& m, std::int64_t index) {
  if (!m.layers.empty()) return window_of(run_of(m, index).layer.mixer) > 0;
  return m.window > 0 && index % m.window_every == 0;
}

std::int64_t num_moe_layers(const ModelSpec& m) {
  if (!m.layers.empty()) {
    std::int64_t n = 0;
    for (const LayerRun& run : m.layers) n += experts_of(run.layer) != nullptr ? run.count : 0;
    return n;
  }
  if (!m.moe) return 0;
  return std::max<std::int64_t>(m.num_layers - m.moe->first_dense, 0) / m.moe->every;
}

LayerSpec layer_spec(const ModelSpec& m, LayerKind kind, bool windowed) {
  LayerSpec layer;
  const std::int64_t window = windowed ? m.window : 0;
  if (m.mla) {
    layer.mixer = LatentAttentionSpec{m.num_attention_heads, *m.mla, window};
  } else {
    AttentionSpec attention{m.num_attention_heads, m.num_query_groups, m.head_dim, window};
    attention.output_gate = m.attention_output_gate;
    layer.mixer = attention;
  }
  if (kind == LayerKind::kMoe) {
    PLAN_CHECK(m.moe.has_value());
    layer.feed_forward = *m.moe;
  } else {
    layer.feed_forward = DenseMlpSpec{m.ffn_hidden_size};
  }
  return layer;
}

LayerSpec layer_spec(const ModelSpec& m, std::int64_t index) {
  if (!m.layers.empty()) return run_of(m, index).layer;
  return layer_spec(m, layer_kind(m, index), layer_is_windowed(m, index));
}

std::vector<LayerSpec> distinct_layers(const ModelSpec& m) {
  std::vector<LayerSpec> distinct;
  const auto add = [&](const LayerSpec& layer) {
    if (std::find(distinct.begin(), distinct.end(), layer) == distinct.end()) {
      distinct.push_back(layer);
    }
  };
  if (!m.layers.empty()) {
    for (const LayerRun& run : m.layers) add(run.layer);
    return distinct;
  }
  // Dense layers come first; then kinds and windows repeat. Strategies are checked one after the
  // other against these, so a deep model's layers are not all looked at each time.
  const std::int64_t all = m.num_layers,
                     windows = std::min(std::max<std::int64_t>(m.window_every, 1), all);
  const std::int64_t dense = m.moe ? std::min(m.moe->first_dense, all) : 0;
  const std::int64_t kinds = m.moe ? std::min(std::max<std::int64_t>(m.moe->every, 1), all) : 1;
  bool seen[2][2] = {};
  const auto look_at = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      bool& known = seen[layer_kind(m, i) == LayerKind::kMoe][layer_is_windowed(m, i)];
      if (!known) add(layer_spec(m, i));
      known = true;
    }
  };
  look_at(0, std::min(dense, windows));
  look_at(dense, std::min(all, dense + kinds * windows));
  return distinct;
}

}  // namespace meshplan
