#pragma once
// [F-CAL-10], [F-CAL-12] What runs say of parameters and of each other, where ln of their times is
// linear in ln of the parameters.
#include <Eigen/Dense>
#include <vector>

namespace meshplan {

// How alike the errors of two runs are whose derivatives by ln of the parameters lie d apart:
// `size` squared times exp(-d^2 / (2 length^2)), of the variance that each has for itself. Chosen
// by [F-CAL-11] together with the parameters' doubts (meshplan-accuracy --cross-validate
// --doubts).
struct Alikeness {
  double length = 0.04;
  double size = 2.4;
};
inline constexpr Alikeness kAlikeness{};

// Between runs, in rows, and others.
[[nodiscard]] Eigen::MatrixXd alike(const Eigen::MatrixXd& runs, const Eigen::MatrixXd& others,
                                    const Alikeness& of = kAlikeness);

struct LinearRuns {
  Eigen::MatrixXd derivatives;  // of ln(time) by ln of the parameters: a row per run
  Eigen::VectorXd errors;       // ln(predicted / measured) at the parameters' start
  Eigen::VectorXd noise;        // relative spread of the measurements
  Eigen::VectorXd widths;       // how far ln of the parameters may be off
};

class RunPosterior {
 public:
  explicit RunPosterior(LinearRuns runs);

  // Of ln(parameter / start).
  [[nodiscard]] Eigen::VectorXd mean() const;
  [[nodiscard]] Eigen::VectorXd deviations() const;
  // The same of a parameter that no run tells: how far the machine is off as a whole is told.
  [[nodiscard]] Eigen::VectorXd deviations_untold() const;

  // Of a run with these derivatives: ln(measured / predicted) beyond what the parameters' mean
  // tells, and how much wider or narrower its error is than before any run was seen.
  [[nodiscard]] double beyond(const Eigen::VectorXd& derivatives) const;
  [[nodiscard]] double widening(const Eigen::VectorXd& derivatives) const;

 private:
  // With parameters that may be off by `doubt` times their widths and errors of `scatter`.
  struct Case {
    double doubt = 1, scatter = 0;
    double log_weight = 0;
    Eigen::VectorXd solved;    // covariance^-1 errors
    Eigen::MatrixXd inverted;  // covariance^-1
  };
  [[nodiscard]] Case solve(double doubt, double scatter) const;

  LinearRuns runs_;
  Eigen::MatrixXd moved_;    // covariance of the runs that the parameters' widths make
  Eigen::MatrixXd alike_;    // how alike their errors are
  std::vector<Case> cases_;  // weights add up to one
  Eigen::MatrixXd typical_;  // covariance^-1 with typical errors
  double misfit_ = 1;        // of the runs, by which typical errors are too small; >= 1
};

}  // namespace meshplan
