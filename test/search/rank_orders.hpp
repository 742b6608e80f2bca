#pragma once
// Orders in which ranks can be numbered.
#include <algorithm>
#include <vector>

#include "spec/axes.hpp"
#include "spec/strategy.hpp"

namespace meshplan::search_test {

// Those that differ on the mesh of `s`: experts and axes of one rank stay where the default order
// has them.
inline std::vector<RankOrder> every_order(const Strategy& s) {
  const auto stays = [&](Axis axis) {
    return axis == Axis::kEp || (axis == Axis::kTp && s.tp == 1) ||
           (axis == Axis::kCp && s.cp == 1) || (axis == Axis::kDp && s.dp == 1) ||
           (axis == Axis::kPp && s.pp == 1);
  };
  std::vector<RankOrder> orders;
  RankOrder order{};
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<Axis>(i);
  do {
    bool moved = false;
    for (std::size_t i = 0; i < order.size(); ++i) {
      moved |= stays(kDefaultOrder[i]) && order[i] != kDefaultOrder[i];
    }
    if (!moved) orders.push_back(order);
  } while (std::next_permutation(order.begin(), order.end()));
  return orders;
}

}  // namespace meshplan::search_test
