#include "model/block_table.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "spec/layer_keys.hpp"

namespace meshplan {
namespace {

// Kinds before sizes: sums over blocks add up in an order that no file's order of layers changes.
using Place = std::pair<std::size_t, bool>;

Place place_of(const LayerSpec& layer) {
  return {layer.feed_forward.index(), window_of(layer.mixer) > 0};
}

}  // namespace

BlockTable block_table(const ModelSpec& m, const Strategy& s) {
  const BlockTable all = block_table(m);
  if (!has_bf16_layers(s)) return all;
  const auto count = static_cast<std::int64_t>(all.of_layer.size());
  const auto is_in_bf16 = [&](std::int64_t layer) {
    return layer < s.runtime.num_layers_at_start_in_bf16 ||
           layer >= count - s.runtime.num_layers_at_end_in_bf16;
  };
  BlockTable table;
  table.of_layer.resize(all.of_layer.size());
  for (std::size_t k = kFirstLayerBlock; k < mtp_block(all.size()); ++k) {
    for (const bool in_bf16 : {false, true}) {
      const std::size_t number = kFirstLayerBlock + table.layers.size();
      bool any = false;
      for (std::size_t i = 0; i < all.of_layer.size(); ++i) {
        if (all.of_layer[i] != k || is_in_bf16(static_cast<std::int64_t>(i)) != in_bf16) continue;
        table.of_layer[i] = number;
        any = true;
      }
      if (!any) continue;
      table.layers.push_back(all.layer(k));
      table.in_bf16.push_back(in_bf16);
    }
  }
  return table;
}

BlockTable block_table(const ModelSpec& m) {
  BlockTable table;
  std::map<Place, std::vector<LayerSpec>> by_place;
  for (const LayerSpec& layer : distinct_layers(m)) by_place[place_of(layer)].push_back(layer);
  for (const auto& [place, layers] : by_place) {
    table.layers.insert(table.layers.end(), layers.begin(), layers.end());
  }
  table.in_bf16.assign(table.layers.size(), false);
  const auto number = [&](const LayerSpec& layer) {
    const auto at = std::find(table.layers.begin(), table.layers.end(), layer);
    return kFirstLayerBlock + static_cast<std::size_t>(at - table.layers.begin());
  };
  for (const LayerRun& run : m.layers) {
    table.of_layer.insert(table.of_layer.end(), static_cast<std::size_t>(run.count),
                          number(run.layer));
  }
  if (!m.layers.empty()) return table;
  // By kind and window: 0 where no layer so far was of that kind.
  std::size_t known[2][2] = {};
  for (std::int64_t i = 0; i < m.num_layers; ++i) {
    std::size_t& block = known[layer_kind(m, i) == LayerKind::kMoe][layer_is_windowed(m, i)];
    if (block == 0) block = number(layer_spec(m, i));
    table.of_layer.push_back(block);
  }
  return table;
}

BlockCounts all_blocks(const ModelSpec& m, const BlockTable& table) {
  BlockCounts counts(table.size());
  for (const std::size_t block : table.of_layer) ++counts[block];
  counts.embedding() = counts.head() = 1;
  counts.mtp() = m.mtp_layers;
  return counts;
}

LayerSpec mtp_layer(const ModelSpec& m) {
  return m.mtp_layer ? *m.mtp_layer : layer_spec(m, m.num_layers - 1);
}

std::vector<LayerKindCount> layer_kinds(const BlockTable& table, const BlockCounts& counts) {
  const auto name = [](const auto& part) {
    return std::visit([](const auto& spec) { return std::string(kind_name(spec)); }, part);
  };
  std::vector<LayerKindCount> all;
  for (std::size_t i = 0; i < table.layers.size(); ++i) {
    const std::int64_t count = counts[kFirstLayerBlock + i];
    if (count == 0) continue;
    const LayerSpec& layer = table.layers[i];
    const bool mixes = !std::holds_alternative<NoneSpec>(layer.mixer);
    const bool feeds = !std::holds_alternative<NoneSpec>(layer.feed_forward);
    std::string kind = mixes ? name(layer.mixer) : std::string();
    if (mixes && window_of(layer.mixer) > 0) kind += " window";
    if (feeds) kind += (mixes ? " + " : "") + name(layer.feed_forward);
    if (table.in_bf16[i]) kind += " in bf16";
    const auto same = std::find_if(all.begin(), all.end(),
                                   [&](const LayerKindCount& k) { return k.kind == kind; });
    if (same == all.end()) {
      all.push_back({std::move(kind), count});
    } else {
      same->layers += count;
    }
  }
  return all;
}

}  // namespace meshplan
