#include "partition/matrix_game.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "search/cases.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

// Weights that say the value is no less, and a mixture that says it is no more: together a proof.
void check_solved(const std::vector<std::vector<double>>& rows, double value) {
  const GameValue game = solve_game(rows);
  REQUIRE(game.weights.size() == rows.size());
  REQUIRE(game.mixture.size() == rows.front().size());
  const auto is_share = [](double share) { return share >= 0; };
  CHECK(std::all_of(game.weights.begin(), game.weights.end(), is_share));
  CHECK(std::all_of(game.mixture.begin(), game.mixture.end(), is_share));
  CHECK(std::abs(std::accumulate(game.weights.begin(), game.weights.end(), -1.0)) < 1e-9);
  CHECK(std::abs(std::accumulate(game.mixture.begin(), game.mixture.end(), -1.0)) < 1e-9);
  double largest = 0;
  for (const std::vector<double>& row : rows) {
    largest = std::max(largest, *std::max_element(row.begin(), row.end()));
  }
  double least = 1e300, most = 0;
  for (std::size_t j = 0; j < rows.front().size(); ++j) {
    double column = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) column += game.weights[i] * rows[i][j];
    least = std::min(least, column);
  }
  for (const std::vector<double>& row : rows) {
    most = std::max(most, std::inner_product(row.begin(), row.end(), game.mixture.begin(), 0.0));
  }
  CHECK(std::abs(game.value - least) <= 1e-9 * largest);
  CHECK(most - least <= 1e-8 * largest);
  if (value >= 0) CHECK(std::abs(game.value - value) <= 1e-9 * largest);
}

}  // namespace

TEST_CASE("[F-SEARCH-14] the value of a game is what weights and mixture prove") {
  check_solved({{3}}, 3);
  check_solved({{1, 2}, {4, 3}}, 3);    // the second row is never less
  check_solved({{2, 0}, {0, 2}}, 1);    // half and half
  check_solved({{3, 1}, {0, 2}}, 1.5);  // weights 1/2 and 1/2, mixture 1/4 and 3/4
  check_solved({{0, 0}, {0, 0}}, 0);    // nothing has a price
  check_solved({{5, 0}, {7, 0}}, 0);    // a column of zeros
  check_solved({{1, 1}, {1, 1}}, 1);    // all alike
  check_solved({{0, 2, 2}, {2, 0, 2}, {2, 2, 0}}, 4.0 / 3);
  Dice dice(31);
  for (int i = 0; i < 300; ++i) {
    CAPTURE(i);
    std::vector<std::vector<double>> rows(static_cast<std::size_t>(dice.between(1, 25)));
    const std::int64_t columns = dice.between(1, 40);
    const bool alike = dice.between(0, 2) == 0;  // many ties
    for (std::vector<double>& row : rows) {
      for (std::int64_t j = 0; j < columns; ++j) {
        row.push_back(alike ? static_cast<double>(dice.between(3, 5))
                            : 1 + static_cast<double>(dice.between(0, 1'000'000)) / 5e6);
      }
    }
    check_solved(rows, -1);
  }
}

}  // namespace meshplan
