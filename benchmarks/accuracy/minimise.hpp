#pragma once
// A small, derivative-free minimiser whose every step is the same on every machine.
#include <cstddef>
#include <functional>
#include <vector>

namespace meshplan::accuracy {

struct Coordinate {
  double value = 0;  // where it starts, and where it ends
  double low = 0, high = 0;
};

// A function of all coordinates that is cheap to look at when one of them moves.
struct Objective {
  // The function with coordinate `k` at `x` and the others where they stand.
  std::function<double(std::size_t k, double x)> with;
  // The last look becomes where the coordinates stand.
  std::function<void()> accept;
  double value = 0;  // at the start
};

// Shares of a coordinate's range.
struct StepSizes {
  double coarsest = 0.25, finest = 1.0 / 256;
};

// Compass search in a box (Hooke and Jeeves 1961; Kolda, Lewis and Torczon 2003, sec. 3): one step
// up and one down in each coordinate, halved where neither is better, until all steps are below
// the finest size. Returns the value reached and moves `at` there.
double minimise(std::vector<Coordinate>& at, const Objective& objective, StepSizes sizes = {});

}  // namespace meshplan::accuracy
