#include "calibrate/posterior.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "base/check.hpp"
#include "base/text.hpp"
#include "calibrate/statistics.hpp"

namespace meshplan {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using Values = std::vector<double>;

constexpr double kFreedom = 3;  // of Student's t

// How errors count: as Student's t, or as squares, which have no second minimum.
enum class Tails { kHeavy, kNormal };

double rho(double z, Tails tails) {
  return tails == Tails::kHeavy ? (kFreedom + 1) / 2 * std::log1p(z * z / kFreedom) : z * z / 2;
}

// rho'(z) / z
double weight(double z, Tails tails) {
  return tails == Tails::kHeavy ? (kFreedom + 1) / (kFreedom + z * z) : 1;
}

// How widely the runs of one code on one machine scatter is not known beforehand: all by s, or by
// one of these times as much, each as likely (a common scale, uniform in its logarithm).
constexpr std::array kScatters{1.0, 2.0, 4.0};
using Scatters = std::array<double, kScatters.size()>;

// Coordinates are ln(parameter / start) over its width.
class Problem {
 public:
  Problem(std::span<const Parameter> parameters, std::span<const Observation> observations,
          const Predictor& predict)
      : parameters_(parameters), observations_(observations), predict_(predict) {}

  void leave_out(std::size_t observation) { left_out_ = observation; }

  [[nodiscard]] Index size() const { return static_cast<Index>(parameters_.size()); }
  [[nodiscard]] VectorXd start() const { return VectorXd::Zero(size()); }

  // How far parameters may be off: one run moves none of them beyond what they were thought to be.
  [[nodiscard]] Tails prior(Tails tails) const {
    return observations_.size() == 1 ? Tails::kNormal : tails;
  }

  [[nodiscard]] double model_error() const {
    return observations_.size() == 1 ? kSingleRunError : kModelError;
  }

  [[nodiscard]] double width(Index k) const { return std::log1p(parameter(k).doubt); }
  [[nodiscard]] double lowest(Index k) const {
    return std::log(parameter(k).lowest / parameter(k).start) / width(k);
  }
  [[nodiscard]] double highest(Index k) const {
    return std::log(parameter(k).highest / parameter(k).start) / width(k);
  }

  [[nodiscard]] Values values(const VectorXd& x) const {
    Values all;
    for (Index k = 0; k < size(); ++k) {
      const double exact = parameter(k).start * std::exp(x[k] * width(k));
      all.push_back(std::clamp(exact, parameter(k).lowest, parameter(k).highest));
    }
    return all;
  }

  // ln(predicted / measured) over its deviation; zero for what is left out.
  [[nodiscard]] VectorXd residuals(const VectorXd& x) const {
    const Values predicted = predict_(values(x));
    PLAN_CHECK(predicted.size() == observations_.size());
    VectorXd r = VectorXd::Zero(static_cast<Index>(predicted.size()));
    for (std::size_t i = 0; i < predicted.size(); ++i) {
      if (i == left_out_) continue;
      const double noise = std::max(observations_[i].noise, kLeastNoise);
      r[static_cast<Index>(i)] =
          std::log(predicted[i] / observations_[i].value) / std::hypot(noise, model_error());
    }
    return r;
  }

  [[nodiscard]] double cost(const VectorXd& x, const VectorXd& r, Tails tails) const {
    const Scatters each = cost_by_scatter(r, tails);
    const double least = *std::min_element(each.begin(), each.end());
    double likelihood = 0;
    for (const double of : each) likelihood += std::exp(least - of);
    double sum = least - std::log(likelihood);
    for (const double z : x) sum += rho(z, prior(tails));
    return sum;
  }

  // Over steps that see past single kernels' kinks, one-sided at a bound.
  [[nodiscard]] MatrixXd jacobian(const VectorXd& x) const {
    constexpr double kStep = 0.25;
    MatrixXd j(static_cast<Index>(observations_.size()), size());
    for (Index k = 0; k < size(); ++k) {
      VectorXd up = x, down = x;
      up[k] = std::min(x[k] + kStep, highest(k));
      down[k] = std::max(x[k] - kStep, lowest(k));
      const double between = up[k] - down[k];
      if (between > 0) {
        j.col(k) = (residuals(up) - residuals(down)) / between;
      } else {
        j.col(k).setZero();
      }
    }
    return j;
  }

  [[nodiscard]] MatrixXd curvature(const VectorXd& x, const VectorXd& r, const MatrixXd& j,
                                   Tails tails) const {
    MatrixXd h = j.transpose() * weights(r, tails).asDiagonal() * j;
    for (Index k = 0; k < size(); ++k) h(k, k) += weight(x[k], prior(tails));
    return h;
  }

  [[nodiscard]] VectorXd gradient(const VectorXd& x, const VectorXd& r, const MatrixXd& j,
                                  Tails tails) const {
    const Tails of = prior(tails);
    return j.transpose() * weights(r, tails).cwiseProduct(r) +
           x.unaryExpr([of](double z) { return weight(z, of) * z; });
  }

 private:
  // Of one run nothing tells its scatter.
  [[nodiscard]] std::size_t scatters(Tails tails) const {
    return tails == Tails::kHeavy && observations_.size() > 1 ? kScatters.size() : 1;
  }

  // Minus the logarithm of the likelihood with every scatter; infinite for those that do not count.
  [[nodiscard]] Scatters cost_by_scatter(const VectorXd& r, Tails tails) const {
    Scatters sums;
    sums.fill(std::numeric_limits<double>::infinity());
    const auto shown = static_cast<double>(r.size() - (left_out_ ? 1 : 0));
    for (std::size_t i = 0; i < scatters(tails); ++i) {
      sums[i] = shown * std::log(kScatters[i]);
      for (const double z : r) sums[i] += rho(z / kScatters[i], tails);
    }
    return sums;
  }

  // rho'(z) / z of every run, over the scatters as likely as they are then.
  [[nodiscard]] VectorXd weights(const VectorXd& r, Tails tails) const {
    const Scatters each = cost_by_scatter(r, tails);
    const double least = *std::min_element(each.begin(), each.end());
    VectorXd sum = VectorXd::Zero(r.size());
    double likelihood = 0;
    for (std::size_t i = 0; i < scatters(tails); ++i) {
      const double share = std::exp(least - each[i]), scatter = kScatters[i];
      likelihood += share;
      sum += r.unaryExpr(
          [&](double z) { return share * weight(z / scatter, tails) / (scatter * scatter); });
    }
    return sum / likelihood;
  }

  [[nodiscard]] const Parameter& parameter(Index k) const {
    return parameters_[static_cast<std::size_t>(k)];
  }

  std::span<const Parameter> parameters_;
  std::span<const Observation> observations_;
  const Predictor& predict_;
  std::optional<std::size_t> left_out_;
};

// Gauss-Newton steps with weights anew at each, halved until they help.
VectorXd descend(const Problem& problem, VectorXd x, Tails tails) {
  constexpr int kMost = 20, kHalvings = 8;
  constexpr double kWorthwhile = 1e-6;
  VectorXd r = problem.residuals(x);
  double best = problem.cost(x, r, tails);
  for (int i = 0; i < kMost; ++i) {
    const MatrixXd j = problem.jacobian(x);
    const VectorXd step =
        problem.curvature(x, r, j, tails).ldlt().solve(problem.gradient(x, r, j, tails));
    bool better = false;
    double length = 1;
    for (int halving = 0; halving < kHalvings && !better; ++halving, length /= 2) {
      VectorXd trial = x - length * step;
      for (Index k = 0; k < problem.size(); ++k)
        trial[k] = std::clamp(trial[k], problem.lowest(k), problem.highest(k));
      VectorXd errors = problem.residuals(trial);
      const double cost = problem.cost(trial, errors, tails);
      better = cost < best - kWorthwhile;
      if (better) x = std::move(trial), r = std::move(errors), best = cost;
    }
    if (!better) break;
  }
  return x;
}

// From where the parameters were thought to be, and from where runs that are all believed would put
// them: the better of the two minima.
VectorXd solve(const Problem& problem) {
  const VectorXd here = descend(problem, problem.start(), Tails::kHeavy);
  const VectorXd there =
      descend(problem, descend(problem, problem.start(), Tails::kNormal), Tails::kHeavy);
  const auto cost = [&](const VectorXd& x) {
    return problem.cost(x, problem.residuals(x), Tails::kHeavy);
  };
  return cost(there) < cost(here) ? there : here;
}

double median_error(const Values& predicted, std::span<const Observation> observations) {
  Values errors;
  for (std::size_t i = 0; i < predicted.size(); ++i)
    errors.push_back(std::abs(predicted[i] / observations[i].value - 1));
  return median(std::move(errors));
}

void report(const Problem& problem, const VectorXd& x, std::span<const Parameter> parameters,
            ParameterFit& fit) {
  const MatrixXd j = problem.jacobian(x);
  const MatrixXd covariance = problem.curvature(x, problem.residuals(x), j, Tails::kHeavy)
                                  .ldlt()
                                  .solve(MatrixXd::Identity(problem.size(), problem.size()));
  // Beforehand, by the same quadratic.
  const double before = 1 / std::sqrt(weight(0, problem.prior(Tails::kHeavy)));
  for (Index k = 0; k < problem.size(); ++k) {
    const auto p = static_cast<std::size_t>(k);
    FittedParameter& row = fit.parameters.emplace_back(FittedParameter{
        .name = parameters[p].name, .before = parameters[p].start, .after = fit.values[p]});
    const double deviation = std::sqrt(std::max(0.0, covariance(k, k)));
    row.deviation = std::min(deviation, before) / before * problem.width(k);
    const double farthest = j.rows() > 0 ? j.col(k).cwiseAbs().maxCoeff() : 0;
    row.sensitivity = std::expm1(farthest * std::hypot(kLeastNoise, problem.model_error()));
    row.fitted = std::abs(x[k]) > kToldApart || deviation < (1 - kToldApart) * before;
    if (row.fitted) continue;
    row.after = row.before;
    fit.values[p] = row.before;
    row.reason = "the runs hardly tell it: a change by " + human_percent(parameters[p].doubt) +
                 " moves them by " + human_percent(row.sensitivity) + " at most";
  }
}

Diagnostics bad_input(std::span<const Parameter> parameters,
                      std::span<const Observation> observations) {
  if (observations.empty()) return {error("there is nothing to learn from")};
  for (const Observation& o : observations) {
    if (!(o.value > 0) || !std::isfinite(o.value))
      return {error("the measurement of " + o.name + " is not above zero")};
  }
  for (const Parameter& p : parameters)
    PLAN_CHECK(p.lowest > 0 && p.lowest <= p.start && p.start <= p.highest && p.doubt > 0);
  return {};
}

void add_leave_one_out(std::span<const Parameter> parameters,
                       std::span<const Observation> observations, const Predictor& predict,
                       ParameterFit& fit) {
  if (observations.size() < 2) return;
  Values errors;
  for (std::size_t i = 0; i < observations.size(); ++i) {
    Problem others(parameters, observations, predict);
    others.leave_out(i);
    const double error = predict(others.values(solve(others)))[i] / observations[i].value - 1;
    fit.leave_one_out_errors.push_back(error);
    errors.push_back(std::abs(error));
  }
  fit.leave_one_out = median(std::move(errors));
}

}  // namespace

Result<ParameterFit> update_parameters(std::span<const Parameter> parameters,
                                       std::span<const Observation> observations,
                                       const Predictor& predict, LeaveOneOut leave_one_out) {
  if (Diagnostics bad = bad_input(parameters, observations); !bad.empty()) return bad;
  const Problem problem(parameters, observations, predict);
  const VectorXd x = solve(problem);
  ParameterFit fit;
  fit.values = problem.values(x);
  report(problem, x, parameters, fit);
  fit.before = predict(problem.values(problem.start()));
  fit.after = predict(fit.values);
  fit.error_before = median_error(fit.before, observations);
  fit.error_after = median_error(fit.after, observations);
  if (leave_one_out == LeaveOneOut::kYes) add_leave_one_out(parameters, observations, predict, fit);
  return fit;
}

}  // namespace meshplan
