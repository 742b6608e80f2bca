#include "calibrate/posterior.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.hpp"
#include "base/text.hpp"
#include "calibrate/run_posterior.hpp"
#include "calibrate/statistics.hpp"

namespace meshplan {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using Values = std::vector<double>;

constexpr double kMostNoise = 10;  // beyond that a measurement says nothing

// Coordinates are ln(parameter / start).
class Problem {
 public:
  Problem(std::span<const Parameter> parameters, std::span<const Observation> observations,
          const Predictor& predict)
      : parameters_(parameters), observations_(observations), predict_(predict) {}

  [[nodiscard]] Index size() const { return static_cast<Index>(parameters_.size()); }
  [[nodiscard]] Index runs() const { return static_cast<Index>(observations_.size()); }
  [[nodiscard]] double lowest(Index k) const {
    return std::log(parameter(k).lowest / parameter(k).start);
  }
  [[nodiscard]] double highest(Index k) const {
    return std::log(parameter(k).highest / parameter(k).start);
  }

  [[nodiscard]] Values values(const VectorXd& x) const {
    Values all;
    for (Index k = 0; k < size(); ++k) {
      const double exact = parameter(k).start * std::exp(x[k]);
      all.push_back(std::clamp(exact, parameter(k).lowest, parameter(k).highest));
    }
    return all;
  }

  // ln(predicted / measured).
  [[nodiscard]] VectorXd errors(const VectorXd& x) const {
    const Values predicted = predict_(values(x));
    PLAN_CHECK(predicted.size() == observations_.size());
    VectorXd all(runs());
    for (std::size_t i = 0; i < predicted.size(); ++i)
      all[static_cast<Index>(i)] = std::log(predicted[i] / observations_[i].value);
    return all;
  }

  [[nodiscard]] MatrixXd jacobian(const VectorXd& x) const {
    MatrixXd j(runs(), size());
    for (Index k = 0; k < size(); ++k) {
      VectorXd up = x, down = x;
      up[k] = std::min(x[k] + kSensitivityStep, highest(k));
      down[k] = std::max(x[k] - kSensitivityStep, lowest(k));
      const double between = up[k] - down[k];
      if (between > 0) {
        j.col(k) = (errors(up) - errors(down)) / between;
      } else {
        j.col(k).setZero();
      }
    }
    return j;
  }

  [[nodiscard]] LinearRuns linear(const VectorXd& x) const {
    LinearRuns all{jacobian(x), {}, VectorXd(runs()), VectorXd(size())};
    all.errors = errors(x) - all.derivatives * x;
    for (Index i = 0; i < runs(); ++i) {
      const double noise = observations_[static_cast<std::size_t>(i)].noise;
      all.noise[i] = std::clamp(noise, kLeastNoise, kMostNoise);
    }
    for (Index k = 0; k < size(); ++k) all.widths[k] = std::log1p(parameter(k).doubt);
    return all;
  }

  [[nodiscard]] VectorXd inside(VectorXd x) const {
    for (Index k = 0; k < size(); ++k) x[k] = std::clamp(x[k], lowest(k), highest(k));
    return x;
  }

 private:
  [[nodiscard]] const Parameter& parameter(Index k) const {
    return parameters_[static_cast<std::size_t>(k)];
  }

  std::span<const Parameter> parameters_;
  std::span<const Observation> observations_;
  const Predictor& predict_;
};

struct Solution {
  LinearRuns runs;  // at the mean, nearly
  VectorXd mean;
};

// Where times bend at the mean itself, steps get shorter, so that they end.
Solution solve(const Problem& problem) {
  constexpr int kMost = 8, kWhole = 3;
  constexpr double kSmall = 1e-4;
  Solution s{problem.linear(VectorXd::Zero(problem.size())), VectorXd::Zero(problem.size())};
  for (int i = 0; i < kMost; ++i) {
    const VectorXd step = problem.inside(RunPosterior(s.runs).mean()) - s.mean;
    s.mean += i < kWhole ? step : step / 2;
    if (step.cwiseAbs().maxCoeff() < kSmall) break;
    s.runs = problem.linear(s.mean);
  }
  return s;
}

double median_error(const Values& predicted, std::span<const Observation> observations) {
  Values errors;
  for (std::size_t i = 0; i < predicted.size(); ++i)
    errors.push_back(std::abs(predicted[i] / observations[i].value - 1));
  return median(std::move(errors));
}

// Which parameters were learned; the others go back to where they were.
void report(const Solution& solution, const RunPosterior& posterior,
            std::span<const Parameter> parameters, ParameterFit& fit) {
  const VectorXd after = posterior.deviations(), untold = posterior.deviations_untold();
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const auto k = static_cast<Index>(p);
    FittedParameter& row = fit.parameters.emplace_back(FittedParameter{
        .name = parameters[p].name, .before = parameters[p].start, .after = fit.values[p]});
    const double width = solution.runs.widths[k];
    row.deviation = std::min(1.0, after[k] / untold[k]) * width;
    row.sensitivity = std::expm1(solution.runs.derivatives.col(k).cwiseAbs().maxCoeff() * width);
    row.fitted =
        std::abs(solution.mean[k]) > kToldApart * width || after[k] < (1 - kToldApart) * untold[k];
    if (row.fitted) continue;
    row.after = row.before;
    fit.values[p] = row.before;
    row.reason = "the runs hardly tell it: a change by " + human_percent(parameters[p].doubt) +
                 " moves them by " + human_percent(row.sensitivity) + " at most";
  }
}

// Predictions with the fit's values and what runs of the same parts took longer.
Values expected(const Predictor& predict, const Values& values, const LinearRuns& runs,
                const RunPosterior& posterior) {
  Values all = predict(values);
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] *= std::exp(posterior.beyond(runs.derivatives.row(static_cast<Index>(i)).transpose()));
  return all;
}

// Of many, some that are evenly spread.
std::vector<SeenRun> seen_runs(std::span<const Parameter> parameters,
                               std::span<const Observation> observations, const LinearRuns& runs) {
  std::vector<SeenRun> all;
  const std::size_t n = std::min(observations.size(), kMostSeenRuns);
  for (std::size_t k = 0; k < n; ++k) {
    const std::size_t i = k * observations.size() / n;
    const auto row = static_cast<Index>(i);
    SeenRun& run =
        all.emplace_back(SeenRun{observations[i].name, {}, runs.errors[row], runs.noise[row]});
    for (std::size_t p = 0; p < parameters.size(); ++p)
      run.sensitivity[parameters[p].name] = runs.derivatives(row, static_cast<Index>(p));
  }
  return all;
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

LinearRuns without(const LinearRuns& runs, Index left_out) {
  const Index n = runs.errors.size();
  LinearRuns others{MatrixXd(n - 1, runs.derivatives.cols()), VectorXd(n - 1), VectorXd(n - 1),
                    runs.widths};
  for (Index i = 0, to = 0; i < n; ++i) {
    if (i == left_out) continue;
    others.derivatives.row(to) = runs.derivatives.row(i);
    others.errors[to] = runs.errors[i];
    others.noise[to++] = runs.noise[i];
  }
  return others;
}

// Each run as predicted by what the others tell, with the derivatives of all.
void add_leave_one_out(const Problem& problem, const Solution& solution,
                       std::span<const Observation> observations, const Predictor& predict,
                       ParameterFit& fit) {
  if (observations.size() < 2) return;
  Values errors;
  for (std::size_t i = 0; i < observations.size(); ++i) {
    const auto row = static_cast<Index>(i);
    const RunPosterior others(without(solution.runs, row));
    const double beyond = others.beyond(solution.runs.derivatives.row(row).transpose());
    const double predicted =
        predict(problem.values(problem.inside(others.mean())))[i] * std::exp(beyond);
    const double error = predicted / observations[i].value - 1;
    fit.leave_one_out_errors.push_back(error);
    errors.push_back(std::abs(error));
  }
  fit.leave_one_out = median(std::move(errors));
}

}  // namespace

Result<Posterior> update_parameters(std::span<const Parameter> parameters,
                                    std::span<const Observation> observations,
                                    const Predictor& predict, LeaveOneOut leave_one_out) {
  if (Diagnostics bad = bad_input(parameters, observations); !bad.empty()) return bad;
  const Problem problem(parameters, observations, predict);
  const Solution solution = solve(problem);
  const RunPosterior posterior(solution.runs);
  Posterior result;
  ParameterFit& fit = result.fit;
  fit.values = problem.values(solution.mean);
  report(solution, posterior, parameters, fit);
  fit.before = predict(problem.values(VectorXd::Zero(problem.size())));
  fit.after = expected(predict, fit.values, solution.runs, posterior);
  fit.error_before = median_error(fit.before, observations);
  fit.error_after = median_error(fit.after, observations);
  result.seen = seen_runs(parameters, observations, solution.runs);
  if (leave_one_out == LeaveOneOut::kYes)
    add_leave_one_out(problem, solution, observations, predict, fit);
  return result;
}

}  // namespace meshplan
