#include "calibrate/run_posterior.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/check.hpp"

namespace meshplan {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kFreedom = 3;  // of Student's t

// How far all parameters are off, as multiples of their widths: the more the less likely.
constexpr std::array kDoubts{0.5, 1.0, 2.0, 4.0};
double doubt_weight(double doubt) { return 1 / (doubt * doubt); }

// What a run errs by for itself, from sources whose runs agree to those whose runs stall, each as
// likely (a scale, uniform in its logarithm).
constexpr std::array kScatters{0.02, 0.04, 0.08, 0.16};
constexpr double kTypicalScatter = 0.03;

MatrixXd squared(const VectorXd& v) { return v.cwiseProduct(v).asDiagonal(); }

}  // namespace

MatrixXd alike(const MatrixXd& runs, const MatrixXd& others, const Alikeness& of) {
  MatrixXd all(runs.rows(), others.rows());
  for (Index i = 0; i < runs.rows(); ++i) {
    for (Index k = 0; k < others.rows(); ++k) {
      const double apart = (runs.row(i) - others.row(k)).squaredNorm();
      all(i, k) = of.size * of.size * std::exp(-apart / (2 * of.length * of.length));
    }
  }
  return all;
}

RunPosterior::RunPosterior(LinearRuns runs) : runs_(std::move(runs)) {
  PLAN_CHECK(runs_.errors.size() > 0 && runs_.derivatives.rows() == runs_.errors.size());
  const MatrixXd scaled = runs_.derivatives * runs_.widths.asDiagonal();
  moved_ = scaled * scaled.transpose();
  alike_ = alike(runs_.derivatives, runs_.derivatives);
  for (const double doubt : kDoubts) {
    for (const double scatter : kScatters) cases_.push_back(solve(doubt, scatter));
  }
  const auto by_weight = [](const Case& a, const Case& b) { return a.log_weight < b.log_weight; };
  const double most = std::max_element(cases_.begin(), cases_.end(), by_weight)->log_weight;
  double sum = 0;
  for (const Case& c : cases_) sum += std::exp(c.log_weight - most);
  for (Case& c : cases_) c.log_weight -= most + std::log(sum);

  const Index n = runs_.errors.size();
  const MatrixXd own = MatrixXd::Identity(n, n) + alike_;
  const MatrixXd covariance =
      moved_ + kTypicalScatter * kTypicalScatter * own + squared(runs_.noise);
  typical_ = covariance.llt().solve(MatrixXd::Identity(n, n));
  const double squares = runs_.errors.dot(typical_ * runs_.errors);
  const auto count = static_cast<double>(n);
  misfit_ = std::max(1.0, (kFreedom + squares) / (kFreedom + count));
}

// Student's t by its scales (Lange, Little and Taylor 1989): a run's own variance grows with what
// is left of its error.
RunPosterior::Case RunPosterior::solve(double doubt, double scatter) const {
  constexpr int kRounds = 4;
  const Index n = runs_.errors.size();
  const double variance = scatter * scatter;
  Case c{doubt, scatter, 0, {}, {}};
  VectorXd own = VectorXd::Constant(n, variance);
  for (int round = 0; round < kRounds; ++round) {
    const MatrixXd covariance = doubt * doubt * moved_ + variance * alike_ + squared(runs_.noise) +
                                MatrixXd(own.asDiagonal());
    const Eigen::LLT<MatrixXd> factors(covariance);
    c.solved = factors.solve(runs_.errors);
    c.inverted = factors.solve(MatrixXd::Identity(n, n));
    c.log_weight = std::log(doubt_weight(doubt)) - runs_.errors.dot(c.solved) / 2 -
                   factors.matrixLLT().diagonal().array().log().sum();
    for (Index i = 0; i < n; ++i) {
      const double left = own[i] * c.solved[i];
      const double unsure = own[i] - own[i] * own[i] * c.inverted(i, i);
      own[i] = variance * (kFreedom + (left * left + unsure) / variance) / (kFreedom + 1);
    }
  }
  return c;
}

VectorXd RunPosterior::mean() const {
  VectorXd sum = VectorXd::Zero(runs_.widths.size());
  for (const Case& c : cases_) {
    const double weight = std::exp(c.log_weight) * c.doubt * c.doubt;
    sum -= weight * squared(runs_.widths) * (runs_.derivatives.transpose() * c.solved);
  }
  return sum;
}

VectorXd RunPosterior::deviations() const {
  const VectorXd middle = mean();
  const MatrixXd widths = squared(runs_.widths);
  VectorXd variance = VectorXd::Zero(middle.size());
  for (const Case& c : cases_) {
    const MatrixXd told = c.doubt * c.doubt * widths * runs_.derivatives.transpose();
    const VectorXd apart = -told * c.solved - middle;
    const MatrixXd left = c.doubt * c.doubt * widths - told * c.inverted * told.transpose();
    variance += std::exp(c.log_weight) * (left.diagonal() + apart.cwiseProduct(apart));
  }
  return variance.cwiseMax(0).cwiseSqrt();
}

VectorXd RunPosterior::deviations_untold() const {
  double sum = 0;
  for (const Case& c : cases_) sum += std::exp(c.log_weight) * c.doubt * c.doubt;
  return runs_.widths * std::sqrt(sum);
}

double RunPosterior::beyond(const VectorXd& derivatives) const {
  const VectorXd near = alike(runs_.derivatives, derivatives.transpose());
  double sum = 0;
  for (const Case& c : cases_)
    sum += std::exp(c.log_weight) * c.scatter * c.scatter * near.dot(c.solved);
  return -sum;
}

double RunPosterior::widening(const VectorXd& derivatives) const {
  constexpr double kVariance = kTypicalScatter * kTypicalScatter;
  const VectorXd scaled = runs_.widths.cwiseProduct(derivatives);
  const double before = scaled.squaredNorm() + kVariance * (1 + kAlikeness.size * kAlikeness.size);
  const VectorXd shared = runs_.derivatives * runs_.widths.asDiagonal() * scaled +
                          kVariance * alike(runs_.derivatives, derivatives.transpose());
  const double told = shared.dot(typical_ * shared);
  return std::sqrt(misfit_ * std::max(0.0, before - told) / before);
}

}  // namespace meshplan
