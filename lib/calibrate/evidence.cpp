#include "calibrate/evidence.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <limits>

#include "base/check.hpp"
#include "calibrate/run_posterior.hpp"

namespace meshplan {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

VectorXd copied(const std::vector<double>& v) {
  return Eigen::Map<const VectorXd>(v.data(), static_cast<Index>(v.size()));
}

}  // namespace

double negative_log_evidence(const EvidenceRuns& runs, std::span<const double> widths,
                             double alike_length, double alike_size) {
  PLAN_CHECK(!runs.errors.empty() && runs.derivatives.size() == widths.size());
  const VectorXd errors = copied(runs.errors);
  const auto n = errors.size();
  MatrixXd told = MatrixXd::Zero(n, n);
  MatrixXd derivatives(n, static_cast<Index>(widths.size()));
  for (std::size_t k = 0; k < widths.size(); ++k) {
    PLAN_CHECK(runs.derivatives[k].size() == runs.errors.size());
    derivatives.col(static_cast<Index>(k)) = copied(runs.derivatives[k]);
    const VectorXd moved = widths[k] * copied(runs.derivatives[k]);
    told += moved * moved.transpose();
  }
  const MatrixXd own =
      MatrixXd::Identity(n, n) + alike(derivatives, derivatives, {alike_length, alike_size});
  constexpr double kLeast = 0.01, kMost = 0.15, kApart = 1.3;
  double least = std::numeric_limits<double>::infinity();
  for (double noise = kLeast; noise <= kMost; noise *= kApart) {
    const MatrixXd covariance = told + noise * noise * own;
    const Eigen::LLT<MatrixXd> factors(covariance);
    const double log_root = factors.matrixLLT().diagonal().array().log().sum();
    least = std::min(least, errors.dot(factors.solve(errors)) / 2 + log_root);
  }
  return least;
}

}  // namespace meshplan
