#include "partition/matrix_game.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace meshplan {
namespace {

constexpr double kZero = 1e-10;

// Of the program "largest sum of y with A y <= 1, y >= 0" in dictionary form, 1 more in all of A so
// that no column is of zeros: a variable enters the
// basis, another leaves it, until no exchange helps. One row of `a` for each basic variable, one
// column for each other.
class Dictionary {
 public:
  Dictionary(std::span<const std::vector<double>> rows, double scale)
      : num_rows_(rows.size()),
        num_columns_(rows.front().size()),
        width_(num_columns_ + 1),
        a_((num_rows_ + 1) * width_) {
    for (std::size_t i = 0; i < num_rows_; ++i) {
      for (std::size_t j = 0; j < num_columns_; ++j) at(i, j) = 1 + rows[i][j] / scale;
      at(i, num_columns_) = 1;
      basic_.push_back(num_columns_ + i);
    }
    for (std::size_t j = 0; j < num_columns_; ++j) at(num_rows_, j) = -1, free_.push_back(j);
  }

  // Largest gain first, and after many exchanges the first of all: that cannot go round in circles
  // (Bland 1977).
  void solve() {
    const std::size_t many = 8 * (num_rows_ + num_columns_), most = 8 * many;
    for (std::size_t n = 0; n < most; ++n) {
      const std::size_t column = entering(n >= many);
      if (column == num_columns_) return;
      const std::size_t row = leaving(column);
      if (row == num_rows_) return;
      exchange(row, column);
    }
  }

  // What a row is worth: zero unless its slack has left the basis.
  [[nodiscard]] std::vector<double> prices() const {
    std::vector<double> prices(num_rows_, 0.0);
    for (std::size_t j = 0; j < num_columns_; ++j) {
      if (free_[j] >= num_columns_) {
        prices[free_[j] - num_columns_] = std::max(0.0, a_[num_rows_ * width_ + j]);
      }
    }
    return prices;
  }

  // How much of each column.
  [[nodiscard]] std::vector<double> amounts() const {
    std::vector<double> amounts(num_columns_, 0.0);
    for (std::size_t i = 0; i < num_rows_; ++i) {
      if (basic_[i] < num_columns_) {
        amounts[basic_[i]] = std::max(0.0, a_[i * width_ + num_columns_]);
      }
    }
    return amounts;
  }

 private:
  [[nodiscard]] double& at(std::size_t row, std::size_t column) {
    return a_[row * width_ + column];
  }

  [[nodiscard]] std::size_t entering(bool first) {
    std::size_t best = num_columns_;
    for (std::size_t j = 0; j < num_columns_; ++j) {
      if (at(num_rows_, j) > -kZero) continue;
      const bool better = best == num_columns_ ||
                          (first ? free_[j] < free_[best] : at(num_rows_, j) < at(num_rows_, best));
      if (better) best = j;
    }
    return best;
  }

  [[nodiscard]] std::size_t leaving(std::size_t column) {
    std::size_t best = num_rows_;
    double least = 0;
    for (std::size_t i = 0; i < num_rows_; ++i) {
      if (at(i, column) < kZero) continue;
      const double ratio = at(i, num_columns_) / at(i, column);
      if (best == num_rows_ || ratio < least || (ratio == least && basic_[i] < basic_[best])) {
        best = i, least = ratio;
      }
    }
    return best;
  }

  void exchange(std::size_t row, std::size_t column) {
    const double pivot = 1 / at(row, column);
    at(row, column) = 1;
    for (std::size_t j = 0; j < width_; ++j) at(row, j) *= pivot;
    for (std::size_t i = 0; i <= num_rows_; ++i) {
      const double factor = at(i, column);
      if (i == row || factor == 0) continue;
      at(i, column) = 0;
      for (std::size_t j = 0; j < width_; ++j) at(i, j) -= factor * at(row, j);
    }
    std::swap(basic_[row], free_[column]);
  }

  std::size_t num_rows_, num_columns_, width_;
  std::vector<double> a_;                  // the last row: what a column adds to the sum; the last
                                           // column: values of basic variables
  std::vector<std::size_t> basic_, free_;  // columns, then slacks of rows
};

std::vector<double> shares_of(std::vector<double> amounts) {
  const double sum = std::accumulate(amounts.begin(), amounts.end(), 0.0);
  for (double& amount : amounts) amount /= sum;
  return amounts;
}

}  // namespace

GameValue solve_game(std::span<const std::vector<double>> rows) {
  double largest = 0;
  for (const std::vector<double>& row : rows) {
    largest = std::max(largest, *std::max_element(row.begin(), row.end()));
  }
  Dictionary dictionary(rows, largest > 0 ? largest : 1);
  dictionary.solve();
  GameValue game{shares_of(dictionary.prices()), shares_of(dictionary.amounts())};
  std::vector<double> mean(rows.front().size(), 0.0);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < mean.size(); ++j) mean[j] += game.weights[i] * rows[i][j];
  }
  game.value = *std::min_element(mean.begin(), mean.end());
  return game;
}

}  // namespace meshplan
