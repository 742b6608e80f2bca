#pragma once
// Which of two divisions of the layers is the better one where the objective does not tell.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tuple>

#include "search/divisions.hpp"

namespace meshplan::search_test {

struct DivisionRank {
  double cost = 0, largest = 0;
  std::int64_t squares = 0;
  List order;  // sizes, as the partition breaks ties
};

inline bool before(const DivisionRank& a, const DivisionRank& b) {
  const auto differ = [](double x, double y) { return std::abs(x - y) > 1e-9 * std::max(x, y); };
  if (differ(a.cost, b.cost)) return a.cost < b.cost;
  if (differ(a.largest, b.largest)) return a.largest < b.largest;
  return std::tie(a.squares, a.order) < std::tie(b.squares, b.order);
}

inline bool needs_less(const DivisionRank& a, const DivisionRank& b) {
  return std::tie(a.largest, a.cost, a.squares, a.order) <
         std::tie(b.largest, b.cost, b.squares, b.order);
}

}  // namespace meshplan::search_test
