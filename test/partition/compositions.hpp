#pragma once
// Every way to divide a number of layers.
#include <cstdint>
#include <vector>

namespace meshplan::search_test {

using List = std::vector<std::int64_t>;

// All ways to write `total` as `parts` positive multiples of `unit`, in lexicographic order.
inline void compositions(std::int64_t total, std::int64_t parts, std::int64_t unit, List& begun,
                         std::vector<List>& all) {
  if (parts == 0) {
    if (total == 0) all.push_back(begun);
    return;
  }
  for (std::int64_t n = unit; n <= total; n += unit) {
    begun.push_back(n);
    compositions(total - n, parts - 1, unit, begun, all);
    begun.pop_back();
  }
}

}  // namespace meshplan::search_test
