#pragma once
// Which divisions of layers over chunks the search goes through.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "cost/chunks.hpp"
#include "search/cases.hpp"

namespace meshplan::search_test {

// Layers before the last run of layers of one kind.
inline std::int64_t leading(const ModelSpec& m, const Strategy& s) {
  const std::vector<std::size_t> blocks = block_table(m, s).of_layer;
  std::size_t n = blocks.size() - 1;
  while (n > 0 && blocks[n - 1] == blocks[n]) --n;
  return static_cast<std::int64_t>(n);
}

// DualPipe: the layers taken from both ends differ by three at most. Chunks in rounds or in a V: up
// to four leading layers are all in the first round; if more layers differ, any two rounds hold
// about as many.
inline bool is_in_space(const Strategy& s, const ModelSpec& m) {
  if (s.schedule == Schedule::kDualPipe) {
    std::int64_t lead = 0;
    for (std::size_t r = 0; r < s.stage_layers.size() / 2; ++r) {
      lead += s.stage_layers[s.stage_layers.size() - 1 - r] - s.stage_layers[r];
      if (std::abs(lead) > 3) return false;
    }
    return true;
  }
  if (s.vp == 1) return true;
  const std::vector<Chunk> chunks = chunk_plan(m, s);
  std::vector<std::int64_t> rounds(static_cast<std::size_t>(s.vp), 0);
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    rounds[c / static_cast<std::size_t>(s.pp)] += chunks[c].layers;
  }
  const std::int64_t first = leading(m, s);
  if (first <= 4) return rounds.front() >= first;
  const auto [low, high] = std::minmax_element(rounds.begin(), rounds.end());
  return *high - *low <= (s.vp <= 4 ? 3 : s.vp <= 8 ? 2 : 1);
}

}  // namespace meshplan::search_test
