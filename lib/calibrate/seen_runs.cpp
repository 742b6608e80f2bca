#include "calibrate/seen_runs.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "calibrate/run_posterior.hpp"

namespace meshplan {

TimeDerivatives time_derivatives(const ClusterSpec& c, Precision precision,
                                 const std::function<double(const ClusterSpec&)>& step_time) {
  TimeDerivatives all;
  const std::vector<Precision> used{precision};
  for (const ProfileParameter& p : profile_parameters(c, used)) {
    const auto at = [&](double step) {
      return std::clamp(p.parameter.start * std::exp(step), p.parameter.lowest,
                        p.parameter.highest);
    };
    const double above = at(kSensitivityStep), below = at(-kSensitivityStep);
    const auto time = [&](double value) {
      return step_time(with_parameters(c, std::vector{p}, std::vector{value}));
    };
    all[p.parameter.name] = std::log(time(above) / time(below)) / std::log(above / below);
  }
  return all;
}

SeenEffect effect_of(std::span<const SeenRun> runs, const TimeDerivatives& plan) {
  if (runs.empty()) return {};
  std::set<std::string> names;
  for (const auto& [name, value] : plan) names.insert(name);
  for (const SeenRun& run : runs) {
    for (const auto& [name, value] : run.sensitivity) names.insert(name);
  }
  const auto n = static_cast<Eigen::Index>(runs.size());
  const auto columns = static_cast<Eigen::Index>(names.size());
  LinearRuns linear{Eigen::MatrixXd::Zero(n, columns), Eigen::VectorXd(n), Eigen::VectorXd(n),
                    Eigen::VectorXd(columns)};
  Eigen::VectorXd own = Eigen::VectorXd::Zero(columns);
  const auto value_of = [](const TimeDerivatives& all, const std::string& name) {
    const auto found = all.find(name);
    return found == all.end() ? 0 : found->second;
  };
  Eigen::Index column = 0;
  for (const std::string& name : names) {
    for (Eigen::Index i = 0; i < n; ++i)
      linear.derivatives(i, column) = value_of(runs[static_cast<std::size_t>(i)].sensitivity, name);
    own[column] = value_of(plan, name);
    linear.widths[column++] = std::log1p(doubt_of(name));
  }
  for (Eigen::Index i = 0; i < n; ++i) {
    linear.errors[i] = runs[static_cast<std::size_t>(i)].error;
    linear.noise[i] = runs[static_cast<std::size_t>(i)].noise;
  }
  const RunPosterior posterior(std::move(linear));
  return {std::exp(posterior.beyond(own)), posterior.widening(own)};
}

}  // namespace meshplan
