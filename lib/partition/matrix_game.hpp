#pragma once
// The value of a matrix game: the weighted mean of rows that is largest where it is least.
#include <span>
#include <vector>

namespace meshplan {

struct GameValue {
  std::vector<double> weights;  // of the rows: none negative, 1 in all
  std::vector<double> mixture;  // of the columns: that of which no row has more than the value
  double value = 0;             // no column of the mean has less
};

// [F-SEARCH-14] Of rows of the same length, one or more of each, none of their numbers negative. By
// the simplex method (von Neumann's game as a linear program: Dantzig 1951), to about 1 part in
// 10^9 of the largest number. A search asks for thousands a second, of ten rows or twenty: no
// library's problem is set up for them.
[[nodiscard]] GameValue solve_game(std::span<const std::vector<double>> rows);

}  // namespace meshplan
