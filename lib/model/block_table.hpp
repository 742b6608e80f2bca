#pragma once
// The distinct blocks of a model: whatever is worked out or stored per kind of block is numbered by
// this table (model/per_block.hpp).
#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/per_block.hpp"
#include "spec/model.hpp"

namespace meshplan {

// What tells one decoder layer from another.
struct LayerBlock {
  LayerKind kind = LayerKind::kDense;
  bool windowed = false;
  auto operator<=>(const LayerBlock&) const = default;
};

struct BlockTable {
  std::vector<LayerBlock> layers;     // distinct, in order
  std::vector<std::size_t> of_layer;  // number of each decoder layer's block

  [[nodiscard]] std::size_t size() const { return layers.size() + kEndBlocks; }
  [[nodiscard]] bool is_layer(std::size_t block) const {
    return block >= kFirstLayerBlock && block < mtp_block(size());
  }
  [[nodiscard]] const LayerBlock& layer(std::size_t block) const {
    return layers[block - kFirstLayerBlock];
  }
};

[[nodiscard]] BlockTable block_table(const ModelSpec& m);

// How many of each block the model has, ends included.
[[nodiscard]] BlockCounts all_blocks(const ModelSpec& m, const BlockTable& table);

// What a multi-token-prediction layer is built like: the last decoder layer.
[[nodiscard]] LayerBlock mtp_layer(const ModelSpec& m);

}  // namespace meshplan
