#include "calibrate/levenberg_marquardt.hpp"

#include <cmath>
#include <functional>

#include "support/catch.hpp"

namespace meshplan {
namespace {

using Vector = LeastSquares::Vector;
using Errors = std::function<Vector(const Vector&)>;

// Errors of a known function, differentiated numerically.
LeastSquares problem_of(const Errors& errors, std::size_t runs, const Vector& anchor) {
  LeastSquares p;
  p.errors = errors;
  p.derivatives = [errors](const Vector& x, const Vector& e) {
    std::vector<Vector> columns;
    for (std::size_t k = 0; k < x.size(); ++k) {
      Vector moved = x;
      moved[k] += 1e-4;
      columns.push_back(errors(moved));
      for (std::size_t i = 0; i < e.size(); ++i) columns[k][i] = (columns[k][i] - e[i]) / 1e-4;
    }
    return columns;
  };
  p.weights = Vector(runs, 1.0 / static_cast<double>(runs));
  p.anchor = anchor;
  p.ridge = p.lowest = Vector(anchor.size());
  p.highest = Vector(anchor.size(), 1);
  p.scale = 0.1;
  return p;
}

TEST_CASE("one run that stalled weighs little against runs that did not") {
  CHECK(robust_loss(0, 0.1) == 0);
  // ln 2 at an error of the scale itself; ten times that is not a hundred times worse.
  CHECK(robust_loss(0.1, 0.1) == Approx(std::log(2.0)));
  CHECK(robust_loss(-1, 0.1) == Approx(std::log(101.0)));
}

TEST_CASE("[F-CAL-9] a valley that no single coordinate leads down is followed to its bottom") {
  // Errors of a product: only x y is told well, x - y a little.
  const auto errors = [](const Vector& x) {
    return Vector{std::log(x[0] * x[1] / 0.18), 0.02 * (x[0] - x[1] + 0.3)};
  };
  LeastSquares p = problem_of(errors, 2, {0.5, 0.5});
  const Vector x = levenberg_marquardt(p, {0.9, 0.2}, {.most = 50});
  CHECK(x[0] == Approx(0.3).margin(0.01));
  CHECK(x[1] == Approx(0.6).margin(0.01));
}

TEST_CASE("steps stay in the box, and a bound that holds does not stop the other coordinates") {
  const auto errors = [](const Vector& x) {
    return Vector{0.1 * (x[0] - 1.5), 0.1 * (x[1] - 0.7)};
  };
  const Vector x = levenberg_marquardt(problem_of(errors, 2, {0, 0}), {0, 0}, {.most = 50});
  CHECK(x[0] == 1);
  CHECK(x[1] == Approx(0.7).margin(0.01));
}

TEST_CASE("errors far off do not pull a fit that most runs agree on") {
  const auto errors = [](const Vector& x) {
    Vector e(10, x[0] - 0.4);
    e[9] = x[0] + 3;
    return e;
  };
  const Vector x = levenberg_marquardt(problem_of(errors, 10, {0}), {0}, {.most = 50});
  CHECK(x[0] == Approx(0.4).margin(0.01));
}

TEST_CASE("[F-CAL-9] without a scale the loss is the square, in any box") {
  const auto errors = [](const Vector& x) {
    Vector e(10, x[0] + 4);
    e[9] = x[0] - 6;
    return e;
  };
  LeastSquares p = problem_of(errors, 10, {0});
  p.scale = std::nullopt;
  p.lowest = {-10};
  p.highest = {10};
  CHECK(levenberg_marquardt(p, {5})[0] == Approx(-3).margin(1e-3));
  p.lowest = {-2};
  CHECK(levenberg_marquardt(p, {5})[0] == -2);
  // One step that may go no further.
  CHECK(levenberg_marquardt(p, {5}, {.most = 1, .most_change = 0.5})[0] == Approx(4.5));
  CHECK(levenberg_marquardt(p, {5}, {.least_change = 100})[0] == 5);
}

TEST_CASE("[F-CAL-9] the ridge holds what no run tells at its anchor") {
  const auto errors = [](const Vector& x) { return Vector{x[0] - 0.8}; };
  LeastSquares p = problem_of(errors, 1, {0.25, 0.25});
  p.ridge = {0.01, 0.01};
  const Vector x = levenberg_marquardt(p, {0.1, 0.9}, {.most = 50});
  CHECK(x[0] == Approx(0.8).margin(0.01));
  CHECK(x[1] == Approx(0.25).margin(1e-3));
}

}  // namespace
}  // namespace meshplan
