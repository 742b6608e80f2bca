#pragma once
// The decoder layers of a model, by kind and in order.
#include <cstdint>
#include <vector>

#include "model/block_table.hpp"
#include "spec/model.hpp"

namespace meshplan {

struct LayerPrefix {
  BlockTable table;
  std::vector<BlockCounts> first;  // of each block in the first n layers, n = 0 .. num_layers
  // Layers before the last run of layers that are alike: 0 where all are alike, 3 in DeepSeek-V3.
  int leading = 0;

  [[nodiscard]] const BlockCounts& all() const { return first.back(); }
  // With the embedding, the head and the layers of multi-token prediction.
  [[nodiscard]] BlockCounts with_ends(const ModelSpec& m) const;
  [[nodiscard]] const BlockCounts& until(std::int64_t layer) const {
    return first[static_cast<std::size_t>(layer)];
  }
  // Whether ranks with several chunks may hold any number of layers. Which layers a chunk holds
  // then depends on all ranks before it in its round, so it takes a model that is uniform but for a
  // few leading layers, all of them in the first round. Otherwise every chunk of a rank has one
  // size.
  [[nodiscard]] bool has_free_chunks() const;
};
[[nodiscard]] LayerPrefix layer_prefix(const ModelSpec& m);

}  // namespace meshplan
