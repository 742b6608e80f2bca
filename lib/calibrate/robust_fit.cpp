#include "calibrate/robust_fit.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

namespace meshplan {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using Vector = RobustProblem::Vector;

constexpr double kFirst = 0.1, kLightest = 1e-3, kHeaviest = 1e3;  // damping
constexpr double kLighter = 0.2, kHeavier = 5;
constexpr double kWorthwhile = 1e-5;  // of the value

Eigen::Map<const VectorXd> mapped(const Vector& v) {
  return {v.data(), static_cast<Index>(v.size())};
}

struct Quadratic {
  VectorXd gradient;
  MatrixXd curvature;
};

// d/dx of w ln(1 + (e/s)^2) is 2 w e e' / (s^2 + e^2); the curvature leaves out what the weight
// itself changes, so that it is never negative.
Quadratic model_at(const RobustProblem& p, const Vector& x, const Vector& errors) {
  const auto e = mapped(errors), ridge = mapped(p.ridge);
  const std::vector<Vector> columns = p.derivatives(x, errors);
  MatrixXd jacobian(e.size(), static_cast<Index>(columns.size()));
  for (std::size_t k = 0; k < columns.size(); ++k)
    jacobian.col(static_cast<Index>(k)) = mapped(columns[k]);
  const VectorXd weights = 2 * mapped(p.weights).array() / (p.scale * p.scale + e.array().square());
  Quadratic q;
  q.gradient = jacobian.transpose() * (weights.asDiagonal() * e) +
               2 * ridge.cwiseProduct(mapped(x) - mapped(p.anchor));
  q.curvature = jacobian.transpose() * weights.asDiagonal() * jacobian;
  q.curvature.diagonal() += 2 * ridge;
  return q;
}

// x after the damped step; coordinates that would leave the box from its edge stay.
Vector stepped(const Quadratic& q, const Vector& x, double damping) {
  MatrixXd a = q.curvature;
  VectorXd g = q.gradient;
  a.diagonal() *= 1 + damping;
  for (Index k = 0; k < g.size(); ++k) {
    const double at = x[static_cast<std::size_t>(k)];
    const bool pushed_out = (at <= 0 && g[k] > 0) || (at >= 1 && g[k] < 0);
    if (!pushed_out && a(k, k) > 0) continue;
    a.row(k).setZero();
    a.col(k).setZero();
    a(k, k) = 1;
    g[k] = 0;
  }
  const VectorXd step = a.ldlt().solve(g);
  Vector to = x;
  for (std::size_t k = 0; k < to.size(); ++k)
    to[k] = std::clamp(to[k] - step[static_cast<Index>(k)], 0.0, 1.0);
  return to;
}

}  // namespace

double robust_loss(double error, double scale) {
  const double scaled = error / scale;
  return std::log1p(scaled * scaled);
}

double RobustProblem::value(const Vector& x, const Vector& e) const {
  double total = 0;
  for (std::size_t i = 0; i < e.size(); ++i) total += weights[i] * robust_loss(e[i], scale);
  for (std::size_t k = 0; k < x.size(); ++k)
    total += ridge[k] * (x[k] - anchor[k]) * (x[k] - anchor[k]);
  return total;
}

std::vector<double> robust_fit(const RobustProblem& problem, std::vector<double> start, int most) {
  Vector x = std::move(start), e = problem.errors(x);
  double best = problem.value(x, e), damping = kFirst;
  for (int i = 0; i < most; ++i) {
    const Quadratic q = model_at(problem, x, e);
    bool better = false;
    while (!better && damping < kHeaviest) {
      Vector trial = stepped(q, x, damping);
      Vector errors = problem.errors(trial);
      const double value = problem.value(trial, errors);
      better = value < best * (1 - kWorthwhile);
      damping = better ? std::max(kLightest, damping * kLighter) : damping * kHeavier;
      if (better) x = std::move(trial), e = std::move(errors), best = value;
    }
    if (!better) break;
  }
  return x;
}

}  // namespace meshplan
