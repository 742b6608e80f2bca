#include "model/layer_prefix.hpp"

#include <algorithm>

namespace meshplan {
namespace {

constexpr int kMostLeading = 4;
constexpr std::size_t kLongestPeriod = 64;

// The period that the fewest layers are needed to tell.
void find_period(const std::vector<std::size_t>& blocks, LayerPrefix& prefix) {
  prefix.periodic_from = prefix.leading;
  if (prefix.has_uniform_tail()) return;
  for (std::size_t period = 2; period <= std::min(kLongestPeriod, blocks.size()); ++period) {
    std::size_t from = blocks.size() - period;
    while (from > 0 && blocks[from - 1] == blocks[from - 1 + period]) --from;
    const auto all = static_cast<std::int64_t>(from + period);
    if (all >= prefix.num_followings()) continue;
    prefix.periodic_from = static_cast<std::int64_t>(from);
    prefix.period = static_cast<std::int64_t>(period);
  }
}

}  // namespace

LayerPrefix layer_prefix(const ModelSpec& m, const Strategy& s) {
  LayerPrefix prefix;
  prefix.table = block_table(m, s);
  const std::vector<std::size_t>& blocks = prefix.table.of_layer;
  prefix.whole.assign(prefix.table.size(), 0);
  prefix.first.reserve((blocks.size() + 1) * prefix.table.size());
  const auto add_row = [&] {
    prefix.first.insert(prefix.first.end(), prefix.whole.begin(), prefix.whole.end());
  };
  add_row();
  for (const std::size_t block : blocks) {
    ++prefix.whole[block];
    add_row();
  }
  std::size_t leading = blocks.size();
  while (leading > 0 && blocks[leading - 1] == blocks.back()) --leading;
  prefix.leading = static_cast<int>(leading);
  find_period(blocks, prefix);
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
