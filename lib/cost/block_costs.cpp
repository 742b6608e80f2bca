// The table of block costs, and sums of passes.
#include <bit>

#include "cost/block.hpp"

namespace meshplan {

PassTime& PassTime::operator+=(const PassTime& o) {
  compute += o.compute;
  tp += o.tp;
  cp += o.cp;
  ep += o.ep;
  dp += o.dp;
  launch += o.launch;
  return *this;
}

PassTime operator+(PassTime a, const PassTime& b) { return a += b; }

PassTime operator*(PassTime a, double times) {
  return {a.compute * times, a.tp * times, a.cp * times,
          a.ep * times,      a.dp * times, a.launch * times};
}

Bytes SavedActivations::of(Recompute r) const {
  switch (r) {
    case Recompute::kNone:
      return none;
    case Recompute::kSelective:
      return selective;
    case Recompute::kFull:
      return full;
  }
  return none;
}

WeightShapes BlockCosts::place_of(std::int64_t rows, std::int64_t columns) {
  constexpr std::size_t kPlaces = 64;
  std::size_t place = 0;
  while (place < shapes_.size() &&
         (shapes_[place].rows != rows || shapes_[place].columns != columns)) {
    ++place;
  }
  if (place < shapes_.size()) return WeightShapes{1} << place;
  if (place < kPlaces) {
    shapes_.push_back({rows, columns, rows * columns});
  } else {
    shapes_.back().elements += rows * columns;
  }
  return WeightShapes{1} << (shapes_.size() - 1);
}

std::int64_t BlockCosts::elements(WeightShapes set) const {
  std::int64_t sum = 0;
  for (; set != 0; set &= set - 1) {
    sum += shapes_[static_cast<std::size_t>(std::countr_zero(set))].elements;
  }
  return sum;
}

}  // namespace meshplan
