#include "calibrate/levenberg_marquardt.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

namespace meshplan {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using Vector = LeastSquares::Vector;

constexpr double kFirst = 0.1, kLightest = 1e-3, kHeaviest = 1e3;  // damping
constexpr double kLighter = 0.2, kHeavier = 5;

Eigen::Map<const VectorXd> mapped(const Vector& v) {
  return {v.data(), static_cast<Index>(v.size())};
}

struct Quadratic {
  VectorXd gradient;
  MatrixXd curvature;
};

// d/dx of w e^2 is 2 w e e', that of w ln(1 + (e/s)^2) is 2 w e e' / (s^2 + e^2); the curvature
// leaves out what the weight itself changes, so that it is never negative.
Quadratic model_at(const LeastSquares& p, const Vector& x, const Vector& errors) {
  const auto e = mapped(errors), ridge = mapped(p.ridge);
  const std::vector<Vector> columns = p.derivatives(x, errors);
  MatrixXd jacobian(e.size(), static_cast<Index>(columns.size()));
  for (std::size_t k = 0; k < columns.size(); ++k)
    jacobian.col(static_cast<Index>(k)) = mapped(columns[k]);
  VectorXd weights = 2 * mapped(p.weights);
  if (p.scale) weights.array() /= *p.scale * *p.scale + e.array().square();
  Quadratic q;
  q.gradient = jacobian.transpose() * (weights.asDiagonal() * e) +
               2 * ridge.cwiseProduct(mapped(x) - mapped(p.anchor));
  q.curvature = jacobian.transpose() * weights.asDiagonal() * jacobian;
  q.curvature.diagonal() += 2 * ridge;
  return q;
}

// The damped step from x; coordinates that would leave the box from its edge stay.
VectorXd step_of(const LeastSquares& p, const Quadratic& q, const Vector& x, double damping) {
  MatrixXd a = q.curvature;
  VectorXd g = q.gradient;
  a.diagonal() *= 1 + damping;
  for (Index k = 0; k < g.size(); ++k) {
    const auto i = static_cast<std::size_t>(k);
    const bool pushed_out = (x[i] <= p.lowest[i] && g[k] > 0) || (x[i] >= p.highest[i] && g[k] < 0);
    if (!pushed_out && a(k, k) > 0) continue;
    a.row(k).setZero();
    a.col(k).setZero();
    a(k, k) = 1;
    g[k] = 0;
  }
  return a.ldlt().solve(g);
}

Vector stepped(const LeastSquares& p, const Vector& x, const VectorXd& step, double most_change) {
  Vector to = x;
  for (std::size_t k = 0; k < to.size(); ++k) {
    const double change = std::clamp(step[static_cast<Index>(k)], -most_change, most_change);
    to[k] = std::clamp(to[k] - change, p.lowest[k], p.highest[k]);
  }
  return to;
}

}  // namespace

double robust_loss(double error, double scale) {
  const double scaled = error / scale;
  return std::log1p(scaled * scaled);
}

double LeastSquares::value(const Vector& x, const Vector& e) const {
  double total = 0;
  for (std::size_t i = 0; i < e.size(); ++i)
    total += weights[i] * (scale ? robust_loss(e[i], *scale) : e[i] * e[i]);
  for (std::size_t k = 0; k < x.size(); ++k)
    total += ridge[k] * (x[k] - anchor[k]) * (x[k] - anchor[k]);
  return total;
}

std::vector<double> levenberg_marquardt(const LeastSquares& problem, std::vector<double> start,
                                        const FitSteps& steps) {
  Vector x = std::move(start), e = problem.errors(x);
  double best = problem.value(x, e), damping = kFirst;
  for (int i = 0; i < steps.most; ++i) {
    const Quadratic q = model_at(problem, x, e);
    bool better = false;
    while (!better && damping < kHeaviest) {
      const VectorXd step = step_of(problem, q, x, damping);
      if (step.cwiseAbs().maxCoeff() < steps.least_change) return x;
      Vector trial = stepped(problem, x, step, steps.most_change);
      Vector errors = problem.errors(trial);
      const double value = problem.value(trial, errors);
      better = value < best * (1 - steps.worthwhile);
      damping = better ? std::max(kLightest, damping * kLighter) : damping * kHeavier;
      if (better) x = std::move(trial), e = std::move(errors), best = value;
    }
    if (!better) break;
  }
  return x;
}

}  // namespace meshplan
