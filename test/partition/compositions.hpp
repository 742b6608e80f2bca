#pragma once
// Every way to divide a number of layers.
#include <cstdint>
#include <vector>

namespace meshplan::search_test {

using List = std::vector<std::int64_t>;

// All ways to write `total` as a sum of `parts` positive numbers, in lexicographic order.
inline void compositions(std::int64_t total, std::int64_t parts, List& begun,
                         std::vector<List>& all) {
  if (parts == 0) {
    if (total == 0) all.push_back(begun);
    return;
  }
  for (std::int64_t n = 1; n <= total; ++n) {
    begun.push_back(n);
    compositions(total - n, parts - 1, begun, all);
    begun.pop_back();
  }
}

}  // namespace meshplan::search_test
