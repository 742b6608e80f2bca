#include "model/block_table.hpp"

#include <algorithm>

namespace meshplan {
namespace {

LayerBlock block_of(const ModelSpec& m, std::int64_t layer) {
  return {layer_kind(m, layer), layer_is_windowed(m, layer)};
}

}  // namespace

BlockTable block_table(const ModelSpec& m) {
  BlockTable table;
  for (std::int64_t i = 0; i < m.num_layers; ++i) {
    const LayerBlock block = block_of(m, i);
    const auto at = std::lower_bound(table.layers.begin(), table.layers.end(), block);
    if (at == table.layers.end() || *at != block) table.layers.insert(at, block);
  }
  table.of_layer.reserve(static_cast<std::size_t>(m.num_layers));
  for (std::int64_t i = 0; i < m.num_layers; ++i) {
    const auto at = std::lower_bound(table.layers.begin(), table.layers.end(), block_of(m, i));
    table.of_layer.push_back(kFirstLayerBlock +
                             static_cast<std::size_t>(at - table.layers.begin()));
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

LayerBlock mtp_layer(const ModelSpec& m) { return block_of(m, m.num_layers - 1); }

}  // namespace meshplan
