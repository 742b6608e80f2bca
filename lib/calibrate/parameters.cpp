#include "calibrate/parameters.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "base/text.hpp"
#include "calibrate/levenberg_marquardt.hpp"
#include "calibrate/statistics.hpp"

namespace meshplan {
namespace {

using Values = std::vector<double>;
using Indices = std::vector<std::size_t>;

struct Problem {
  std::span<const Parameter> parameters;
  std::span<const Observation> observations;
  const Predictor& predict;

  // ln(predicted / measured) over the noise.
  [[nodiscard]] Eigen::VectorXd residuals(const Values& values, const Indices& rows) const {
    const Values predicted = predict(values);
    PLAN_CHECK(predicted.size() == observations.size());
    Eigen::VectorXd r(static_cast<Eigen::Index>(rows.size()));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Observation& o = observations[rows[i]];
      PLAN_CHECK(predicted[rows[i]] > 0);
      r(static_cast<Eigen::Index>(i)) =
          std::log(predicted[rows[i]] / o.value) / std::max(o.noise, kLeastNoise);
    }
    return r;
  }

  [[nodiscard]] double inside(std::size_t parameter, double value) const {
    return std::clamp(value, parameters[parameter].lowest, parameters[parameter].highest);
  }

  // Central differences in ln of each parameter, one-sided at a bound. Over the whole doubt they
  // also see what a model that takes the least of several times hides from a small step.
  enum class Step { kSmall, kDoubt };
  [[nodiscard]] Eigen::MatrixXd jacobian(const Values& values, const Indices& columns,
                                         const Indices& rows, Step step = Step::kSmall) const {
    constexpr double kSmallStep = 0.02;
    Eigen::MatrixXd j(static_cast<Eigen::Index>(rows.size()),
                      static_cast<Eigen::Index>(columns.size()));
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const std::size_t p = columns[c];
      Values up = values, down = values;
      const double factor = step == Step::kSmall ? std::exp(kSmallStep) : 1 + parameters[p].doubt;
      up[p] = inside(p, values[p] * factor);
      down[p] = inside(p, values[p] / factor);
      const double width = std::log(up[p] / down[p]);
      const auto column = static_cast<Eigen::Index>(c);
      if (width <= 0) {
        j.col(column).setZero();
      } else {
        j.col(column) = (residuals(up, rows) - residuals(down, rows)) / width;
      }
    }
    return j;
  }
};

Indices all_of(std::size_t n) {
  Indices all(n);
  for (std::size_t i = 0; i < n; ++i) all[i] = i;
  return all;
}

// Whether the smallest singular value of m is at least kLeastSingularValue: then m'm, less its
// square on the diagonal, still has no negative direction.
bool can_be_told_apart(const Eigen::MatrixXd& m) {
  Eigen::MatrixXd rest = m.transpose() * m;
  rest.diagonal().array() -= kLeastSingularValue * kLeastSingularValue;
  return rest.ldlt().isPositive();
}

Eigen::MatrixXd columns_of(const Eigen::MatrixXd& m, const Indices& columns) {
  Eigen::MatrixXd part(m.rows(), static_cast<Eigen::Index>(columns.size()));
  for (std::size_t c = 0; c < columns.size(); ++c) {
    part.col(static_cast<Eigen::Index>(c)) = m.col(static_cast<Eigen::Index>(columns[c]));
  }
  return part;
}

// Which parameters the observations determine, and why the others are not among them.
Indices determined(const Problem& problem, const Values& values,
                   std::vector<FittedParameter>& report) {
  const std::size_t rows = problem.observations.size();
  Eigen::MatrixXd scaled = problem.jacobian(values, all_of(problem.parameters.size()), all_of(rows),
                                            Problem::Step::kDoubt);
  std::vector<double> length;
  for (std::size_t p = 0; p < problem.parameters.size(); ++p) {
    const auto column = static_cast<Eigen::Index>(p);
    scaled.col(column) *= std::log1p(problem.parameters[p].doubt);
    length.push_back(scaled.col(column).norm());
    double most = 0;
    for (std::size_t i = 0; i < rows; ++i) {
      const double noise = std::max(problem.observations[i].noise, kLeastNoise);
      most = std::max(most, std::abs(scaled(static_cast<Eigen::Index>(i), column)) * noise);
    }
    report[p].sensitivity = most;
  }
  Indices order = all_of(problem.parameters.size());
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return length[a] > length[b]; });
  const std::size_t room = std::max<std::size_t>(rows - 1, 1);
  Indices chosen;
  for (const std::size_t p : order) {
    Indices with = chosen;
    with.push_back(p);
    if (length[p] < kLeastSingularValue) {
      report[p].reason = "the runs hardly depend on it: a change by " +
                         human_percent(problem.parameters[p].doubt) + " moves them by " +
                         human_percent(report[p].sensitivity) + " at most";
    } else if (with.size() <= rows && !can_be_told_apart(columns_of(scaled, with))) {
      report[p].reason = "its effect cannot be told apart from that of " +
                         report[chosen.front()].name + (chosen.size() > 1 ? " and others" : "");
    } else if (with.size() > room) {
      report[p].reason = "there are too few runs: " + std::to_string(rows) + " determine " +
                         std::to_string(room) + " at most";
    } else {
      chosen = std::move(with);
    }
  }
  return chosen;
}

// Minimises the squared residuals of `rows` over `columns`, from `values`: over ln of each
// parameter's ratio to where it starts.
Values descend(const Problem& problem, const Values& values, const Indices& columns,
               const Indices& rows) {
  const auto at = [&](const Values& x) {
    Values moved = values;
    for (std::size_t c = 0; c < columns.size(); ++c)
      moved[columns[c]] = problem.inside(columns[c], values[columns[c]] * std::exp(x[c]));
    return moved;
  };
  const auto copied = [](const auto& column) { return Values(column.begin(), column.end()); };
  LeastSquares squares;
  squares.errors = [&](const Values& x) { return copied(problem.residuals(at(x), rows)); };
  squares.derivatives = [&](const Values& x, const Values&) {
    const Eigen::MatrixXd j = problem.jacobian(at(x), columns, rows);
    std::vector<Values> all;
    for (Eigen::Index c = 0; c < j.cols(); ++c) all.push_back(copied(j.col(c)));
    return all;
  };
  squares.weights = Values(rows.size(), 1);
  squares.anchor = squares.ridge = Values(columns.size());
  for (const std::size_t p : columns) {
    squares.lowest.push_back(std::log(problem.parameters[p].lowest / values[p]));
    squares.highest.push_back(std::log(problem.parameters[p].highest / values[p]));
  }
  // In ln of a parameter: far below what any run can tell, and at most a factor of two at once.
  constexpr FitSteps kSteps{
      .most = 40, .worthwhile = 1e-10, .least_change = 1e-6, .most_change = 0.7};
  return at(levenberg_marquardt(squares, Values(columns.size()), kSteps));
}

// The same, not held up where the model does not change with a small step: each parameter is tried
// at the ends of its doubt as well.
Values solve(const Problem& problem, Values values, const Indices& columns, const Indices& rows) {
  constexpr int kRounds = 2;
  for (int round = 0; round < kRounds; ++round) {
    for (const std::size_t p : columns) {
      const double here = values[p], factor = 1 + problem.parameters[p].doubt;
      double least = problem.residuals(values, rows).squaredNorm();
      for (const double tried : {here / factor, here * factor}) {
        Values other = values;
        other[p] = problem.inside(p, tried);
        other = descend(problem, other, columns, rows);
        const double cost = problem.residuals(other, rows).squaredNorm();
        if (cost < least) {
          least = cost;
          values = std::move(other);
        }
      }
    }
    values = descend(problem, values, columns, rows);
  }
  return values;
}

double median_error(const Values& predicted, std::span<const Observation> observations) {
  Values errors;
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    errors.push_back(std::abs(predicted[i] / observations[i].value - 1));
  }
  return median(std::move(errors));
}

// Relative standard deviations of `columns`; the noise is what the residuals show where that is
// more.
Values deviations(const Problem& problem, const Values& values, const Indices& columns) {
  const Indices rows = all_of(problem.observations.size());
  const Eigen::MatrixXd j = problem.jacobian(values, columns, rows);
  const auto free = static_cast<double>(rows.size()) - static_cast<double>(columns.size());
  const double misfit = problem.residuals(values, rows).squaredNorm();
  const double variance = free > 0 ? std::max(1.0, misfit / free) : 1.0;
  // A direction that the runs do not see is as uncertain as can be, not as certain.
  const auto n = static_cast<Eigen::Index>(columns.size());
  Eigen::MatrixXd normal = j.transpose() * j;
  normal.diagonal().array() += 1e-9;
  const Eigen::MatrixXd covariance =
      normal.ldlt().solve(Eigen::MatrixXd::Identity(n, n)) * variance;
  Values all;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const auto at = static_cast<Eigen::Index>(c);
    all.push_back(std::sqrt(std::max(0.0, covariance(at, at))));
  }
  return all;
}

// A fitted parameter that is no better known than before, or that the fit drives to a bound.
std::optional<std::size_t> undetermined(const Problem& problem, const Values& values,
                                        const Indices& columns, const Values& deviation,
                                        std::vector<FittedParameter>& report) {
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const Parameter& p = problem.parameters[columns[c]];
    const double value = values[columns[c]];
    const bool at_bound = value <= p.lowest * 1.0001 || value >= p.highest / 1.0001;
    if (at_bound && value != p.start) {
      report[columns[c]].reason =
          "the runs would drive it to " + fixed(value, 3) + ", the bound of what is possible";
      return c;
    }
  }
  const auto worst = std::max_element(deviation.begin(), deviation.end()) - deviation.begin();
  const std::size_t p = columns[static_cast<std::size_t>(worst)];
  const double known = std::log1p(problem.parameters[p].doubt);
  if (deviation[static_cast<std::size_t>(worst)] < known) return std::nullopt;
  report[p].reason = "the fit leaves it as uncertain as before, by " +
                     human_percent(deviation[static_cast<std::size_t>(worst)]);
  return static_cast<std::size_t>(worst);
}

void add_leave_one_out(const Problem& problem, const Values& start, const Indices& chosen,
                       ParameterFit& fit) {
  const std::size_t n = problem.observations.size();
  if (n < 2) return;
  Values errors;
  for (std::size_t left_out = 0; left_out < n; ++left_out) {
    Indices rows = all_of(n);
    rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(left_out));
    const Values values = solve(problem, start, chosen, rows);
    const double error =
        problem.predict(values)[left_out] / problem.observations[left_out].value - 1;
    fit.leave_one_out_errors.push_back(error);
    errors.push_back(std::abs(error));
  }
  fit.leave_one_out = median(std::move(errors));
}

Diagnostics bad_input(std::span<const Parameter> parameters,
                      std::span<const Observation> observations) {
  if (observations.empty()) return {error("there is nothing to fit to")};
  for (const Observation& o : observations) {
    if (!(o.value > 0) || !std::isfinite(o.value)) {
      return {error("the measurement of " + o.name + " is not above zero")};
    }
  }
  for (const Parameter& p : parameters) {
    PLAN_CHECK(p.lowest > 0 && p.lowest <= p.start && p.start <= p.highest && p.doubt > 0);
  }
  return {};
}

}  // namespace

Result<ParameterFit> fit_parameters(std::span<const Parameter> parameters,
                                    std::span<const Observation> observations,
                                    const Predictor& predict, LeaveOneOut leave_one_out) {
  if (Diagnostics bad = bad_input(parameters, observations); !bad.empty()) return bad;
  const Problem problem{parameters, observations, predict};
  ParameterFit fit;
  Values start;
  for (const Parameter& p : parameters) {
    start.push_back(p.start);
    fit.parameters.push_back({.name = p.name, .before = p.start, .after = p.start});
  }
  Indices chosen = determined(problem, start, fit.parameters);
  const Indices all = all_of(observations.size());
  while (!chosen.empty()) {
    fit.values = solve(problem, start, chosen, all);
    const Values deviation = deviations(problem, fit.values, chosen);
    for (std::size_t c = 0; c < chosen.size(); ++c) {
      fit.parameters[chosen[c]].deviation = deviation[c];
    }
    const auto drop = undetermined(problem, fit.values, chosen, deviation, fit.parameters);
    if (!drop) break;
    chosen.erase(chosen.begin() + static_cast<std::ptrdiff_t>(*drop));
  }
  if (chosen.empty()) {
    Diagnostics reasons{error("the runs determine none of the parameters")};
    for (const FittedParameter& p : fit.parameters) {
      reasons.push_back(error(p.name + ": " + p.reason));
    }
    return reasons;
  }
  fit.before = predict(start);
  fit.after = predict(fit.values);
  for (const std::size_t p : chosen) {
    fit.parameters[p].fitted = true;
    fit.parameters[p].after = fit.values[p];
  }
  fit.error_before = median_error(fit.before, observations);
  fit.error_after = median_error(fit.after, observations);
  if (leave_one_out == LeaveOneOut::kYes) add_leave_one_out(problem, start, chosen, fit);
  return fit;
}

}  // namespace meshplan
