#pragma once
// The distinct blocks of a model: whatever is worked out or stored per kind of block is numbered by
// this table (model/per_block.hpp).
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/per_block.hpp"
#include "spec/model.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

struct BlockTable {
  // Each once, or twice where some of its kind are in bf16 and others not; without experts first,
  // full attention first.
  std::vector<LayerSpec> layers;
  std::vector<bool> in_bf16;  // of each of `layers`: whether precision's products are not its
  std::vector<std::size_t> of_layer;  // number of each decoder layer's block

  [[nodiscard]] std::size_t size() const { return layers.size() + kEndBlocks; }
  [[nodiscard]] bool is_layer(std::size_t block) const {
    return block >= kFirstLayerBlock && block < mtp_block(size());
  }
  [[nodiscard]] const LayerSpec& layer(std::size_t block) const {
    return layers[block - kFirstLayerBlock];
  }
};

[[nodiscard]] BlockTable block_table(const ModelSpec& m);  // whatever precision layers are in

// [F-FP8-6] The first and last layers that the strategy leaves in bf16 are blocks of their own,
// beside those of the same kind that follow its precision (Megatron-Core fp8_utils.py,
// is_first_last_bf16_layer: by number over all ranks, those of multi-token prediction aside).
[[nodiscard]] BlockTable block_table(const ModelSpec& m, const Strategy& s);

// Layers by what they consist of, whatever their sizes: "gqa + dense", "mamba2", "experts", or "gqa
// window + experts" where tokens see only those near them, with " in bf16" behind it where the
// strategy's precision leaves them so. In the order of the table.
struct LayerKindCount {
  std::string kind;
  std::int64_t layers = 0;

  bool operator==(const LayerKindCount&) const = default;
};
[[nodiscard]] std::vector<LayerKindCount> layer_kinds(const BlockTable& table,
                                                      const BlockCounts& counts);

// How many of each block the model has, ends included.
[[nodiscard]] BlockCounts all_blocks(const ModelSpec& m, const BlockTable& table);

// What a multi-token-prediction layer is built like: the last decoder layer unless the model says.
[[nodiscard]] LayerSpec mtp_layer(const ModelSpec& m);

}  // namespace meshplan
