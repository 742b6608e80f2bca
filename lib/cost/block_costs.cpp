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

void take_memory(const BlockCosts& largest, BlockCosts& costs) {
  for (std::size_t k = 0; k < costs.size(); ++k) {
    costs[k].saved = largest[k].saved;
    costs[k].saved_for_weight_gradient = largest[k].saved_for_weight_gradient;
    costs[k].working_set = largest[k].working_set;
    costs[k].graph_inputs = largest[k].graph_inputs;
    costs[k].graph_saved = largest[k].graph_saved;
    costs[k].graph_working = largest[k].graph_working;
    costs[k].working_beside = largest[k].working_beside;
    costs[k].offloaded = largest[k].offloaded;
    costs[k].repeated_set = largest[k].repeated_set;
  }
}

}  // namespace meshplan
