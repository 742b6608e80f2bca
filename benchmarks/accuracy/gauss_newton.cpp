#include "gauss_newton.hpp"

#include <cmath>

namespace meshplan::accuracy {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kLightest = 1e-3, kHeaviest = 1e3;  // damping
constexpr double kLighter = 0.2, kHeavier = 5;
constexpr double kWorthwhile = 1e-5;  // of the value

struct Quadratic {
  VectorXd gradient;
  MatrixXd curvature;
};

// d/dx of w ln(1 + (e/s)^2) is 2 w e e' / (s^2 + e^2); the curvature leaves out what the weight
// itself changes, so that it is never negative.
Quadratic model_at(const RobustProblem& p, const VectorXd& x, const VectorXd& e) {
  const MatrixXd jacobian = p.jacobian(x, e);
  const VectorXd weights = 2 * p.weights.array() / (p.scale * p.scale + e.array().square());
  Quadratic q;
  q.gradient =
      jacobian.transpose() * (weights.asDiagonal() * e) + 2 * p.ridge.cwiseProduct(x - p.anchor);
  q.curvature = jacobian.transpose() * weights.asDiagonal() * jacobian;
  q.curvature.diagonal() += 2 * p.ridge;
  return q;
}

// The damped step; coordinates that would leave the box from its edge stay.
VectorXd step(const Quadratic& q, const VectorXd& x, double damping) {
  MatrixXd a = q.curvature;
  VectorXd g = q.gradient;
  a.diagonal() *= 1 + damping;
  for (Eigen::Index k = 0; k < x.size(); ++k) {
    const bool pushed_out = (x[k] <= 0 && g[k] > 0) || (x[k] >= 1 && g[k] < 0);
    if (!pushed_out && a(k, k) > 0) continue;
    a.row(k).setZero();
    a.col(k).setZero();
    a(k, k) = 1;
    g[k] = 0;
  }
  return -a.ldlt().solve(g);
}

}  // namespace

double robust_loss(double error, double scale) {
  const double scaled = error / scale;
  return std::log1p(scaled * scaled);
}

double RobustProblem::value(const VectorXd& x, const VectorXd& e) const {
  double total = (x - anchor).cwiseAbs2().dot(ridge);
  for (Eigen::Index i = 0; i < e.size(); ++i) total += weights[i] * robust_loss(e[i], scale);
  return total;
}

VectorXd gauss_newton(const RobustProblem& problem, VectorXd start, int most) {
  VectorXd x = std::move(start), e = problem.errors(x);
  double best = problem.value(x, e), damping = 0.1;
  for (int i = 0; i < most; ++i) {
    const Quadratic q = model_at(problem, x, e);
    bool better = false;
    while (!better && damping < kHeaviest) {
      const VectorXd trial = (x + step(q, x, damping)).cwiseMax(0).cwiseMin(1);
      const VectorXd errors = problem.errors(trial);
      const double value = problem.value(trial, errors);
      better = value < best * (1 - kWorthwhile);
      damping = better ? std::max(kLightest, damping * kLighter) : damping * kHeavier;
      if (better) x = trial, e = errors, best = value;
    }
    if (!better) break;
  }
  return x;
}

}  // namespace meshplan::accuracy
