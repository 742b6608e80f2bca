#include "model/layer_prefix.hpp"

namespace meshplan {
namespace {

constexpr int kMostLeading = 4;

}  // namespace

LayerPrefix layer_prefix(const ModelSpec& m) {
  LayerPrefix prefix;
  prefix.table = block_table(m);
  const std::vector<std::size_t>& blocks = prefix.table.of_layer;
  prefix.first.emplace_back(prefix.table.size());
  for (const std::size_t block : blocks) {
    prefix.first.push_back(prefix.first.back());
    ++prefix.first.back()[block];
  }
  std::size_t leading = blocks.size();
  while (leading > 0 && blocks[leading - 1] == blocks.back()) --leading;
  prefix.leading = static_cast<int>(leading);
  return prefix;
}

BlockCounts LayerPrefix::with_ends(const ModelSpec& m) const {
  BlockCounts counts = all();
  counts.embedding() = counts.head() = 1;
  counts.mtp() = m.mtp_layers;
  return counts;
}

bool LayerPrefix::has_uniform_tail() const { return leading <= kMostLeading; }

}  // namespace meshplan
