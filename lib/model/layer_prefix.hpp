#pragma once
// The decoder layers of a model, by kind and in order.
#include <cstdint>
#include <span>
#include <vector>

#include "model/block_table.hpp"
#include "spec/model.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

struct LayerPrefix {
  BlockTable table;
  // How many of each block are in the first n layers, n = 0 .. num_layers, one row after the other.
  std::vector<std::int64_t> first;
  BlockCounts whole;  // of each block in all layers
  // Layers before the last run of layers that are alike: 0 where all are alike, 3 in DeepSeek-V3.
  int leading = 0;

  // Layers from this one on are alike to those `period` later.
  std::int64_t periodic_from = 0, period = 1;

  // Equal for two layers only if those that follow them are alike, one by one, as far as both have
  // any. Below num_followings().
  [[nodiscard]] std::int64_t following(std::int64_t layer) const {
    if (layer < periodic_from) return layer;
    return periodic_from + (layer - periodic_from) % period;
  }
  [[nodiscard]] std::int64_t num_followings() const { return periodic_from + period; }

  [[nodiscard]] const BlockCounts& all() const { return whole; }
  // With the embedding, the head and the layers of multi-token prediction.
  [[nodiscard]] BlockCounts with_ends(const ModelSpec& m) const;
  // By block, in the layers before this one.
  [[nodiscard]] std::span<const std::int64_t> until(std::int64_t layer) const {
    return std::span(first).subspan(static_cast<std::size_t>(layer) * whole.size(), whole.size());
  }
  // Whether all layers are alike but for a few leading ones, which the first round of a pipeline's
  // chunks can hold: then it does not matter which layers later rounds hold.
  [[nodiscard]] bool has_uniform_tail() const;
};
[[nodiscard]] LayerPrefix layer_prefix(const ModelSpec& m, const Strategy& s);

}  // namespace meshplan
