#include "gauss_newton.hpp"

#include <cmath>

#include "support/catch.hpp"

namespace meshplan::accuracy {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

// Errors of a known function, differentiated numerically.
RobustProblem problem_of(std::function<VectorXd(const VectorXd&)> errors, Eigen::Index runs,
                         const VectorXd& anchor) {
  RobustProblem p;
  p.errors = errors;
  p.jacobian = [errors](const VectorXd& x, const VectorXd& e) {
    MatrixXd j(e.size(), x.size());
    for (Eigen::Index k = 0; k < x.size(); ++k) {
      VectorXd moved = x;
      moved[k] += 1e-4;
      j.col(k) = (errors(moved) - e) / 1e-4;
    }
    return j;
  };
  p.weights = VectorXd::Constant(runs, 1.0 / static_cast<double>(runs));
  p.anchor = anchor;
  p.ridge = VectorXd::Zero(anchor.size());
  return p;
}

TEST_CASE("one run that stalled weighs little against runs that did not") {
  CHECK(robust_loss(0, 0.1) == 0);
  // ln 2 at an error of the scale itself; ten times that is not a hundred times worse.
  CHECK(robust_loss(0.1, 0.1) == Approx(std::log(2.0)));
  CHECK(robust_loss(-1, 0.1) == Approx(std::log(101.0)));
}

TEST_CASE("a valley that no single coordinate leads down is followed to its bottom") {
  // Errors of a product: only x y is told well, x - y a little.
  const auto errors = [](const VectorXd& x) {
    VectorXd e(2);
    e << std::log(x[0] * x[1] / 0.18), 0.02 * (x[0] - x[1] + 0.3);
    return e;
  };
  RobustProblem p = problem_of(errors, 2, VectorXd::Constant(2, 0.5));
  VectorXd start(2);
  start << 0.9, 0.2;
  const VectorXd x = gauss_newton(p, start, 50);
  CHECK(x[0] == Approx(0.3).margin(0.01));
  CHECK(x[1] == Approx(0.6).margin(0.01));
}

TEST_CASE("steps stay in the box, and a bound that holds does not stop the other coordinates") {
  const auto errors = [](const VectorXd& x) {
    VectorXd e(2);
    e << 0.1 * (x[0] - 1.5), 0.1 * (x[1] - 0.7);
    return e;
  };
  const VectorXd x = gauss_newton(problem_of(errors, 2, VectorXd::Zero(2)), VectorXd::Zero(2), 50);
  CHECK(x[0] == 1);
  CHECK(x[1] == Approx(0.7).margin(0.01));
}

TEST_CASE("errors far off do not pull a fit that most runs agree on") {
  const auto errors = [](const VectorXd& x) {
    VectorXd e = VectorXd::Constant(10, x[0] - 0.4);
    e[9] = x[0] + 3;
    return e;
  };
  const VectorXd x = gauss_newton(problem_of(errors, 10, VectorXd::Zero(1)), VectorXd::Zero(1), 50);
  CHECK(x[0] == Approx(0.4).margin(0.01));
}

TEST_CASE("the ridge holds what no run tells at its anchor") {
  const auto errors = [](const VectorXd& x) { return VectorXd::Constant(1, x[0] - 0.8); };
  RobustProblem p = problem_of(errors, 1, VectorXd::Constant(2, 0.25));
  p.ridge = VectorXd::Constant(2, 0.01);
  VectorXd start(2);
  start << 0.1, 0.9;
  const VectorXd x = gauss_newton(p, start, 50);
  CHECK(x[0] == Approx(0.8).margin(0.01));
  CHECK(x[1] == Approx(0.25).margin(1e-3));
}

}  // namespace
}  // namespace meshplan::accuracy
