#pragma once
// Fits the few parameters of a model that observations determine, and says which they do not.
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace meshplan {

// A positive number of the model. What is known of it beforehand: somewhere around `start`, within
// a factor of about 1 + `doubt`.
struct Parameter {
  std::string name;
  double start = 0;
  double lowest = 0, highest = 0;
  double doubt = 0.5;
};

struct Observation {
  std::string name;
  double value = 0;     // measured, above zero
  double noise = 0.02;  // relative spread of the measurement; at least kLeastNoise is assumed
};
inline constexpr double kLeastNoise = 0.01;
// Derivatives are taken over steps of ln of a parameter that see past single kernels' kinks.
inline constexpr double kSensitivityStep = 0.1;

// All observations' values for one value per parameter.
using Predictor = std::function<std::vector<double>(std::span<const double> parameters)>;

struct FittedParameter {
  std::string name;
  double before = 0, after = 0;
  bool fitted = false;
  double deviation = 0;    // relative standard deviation, where fitted
  double sensitivity = 0;  // largest relative change of an observation for a change by `doubt`
  std::string reason{};    // why it was not fitted
};

struct ParameterFit {
  std::vector<FittedParameter> parameters;   // in the order given
  std::vector<double> values;                // of all, fitted or not
  std::vector<double> before, after;         // predicted observations
  double error_before = 0, error_after = 0;  // median of |predicted / measured - 1|
  // The same with each observation predicted by a fit of the others; nothing with fewer than two or
  // where it was not asked for.
  std::optional<double> leave_one_out;
  std::vector<double> leave_one_out_errors;  // signed, per observation
};

// [F-CAL-6] Levenberg-Marquardt on ln(predicted / measured) over ln of the parameters, weighted by
// the noise. A parameter takes part if the observations tell it apart: with the columns of the
// Jacobian scaled by doubt / noise, taken up from the longest, the least singular value must stay
// above kLeastSingularValue (then the data narrow every direction down to a third of the doubt),
// and one observation must be left to judge the fit by (but one parameter may be fitted to one).
// Fails where no parameter is determined, and where a value is not above zero. Leaving out takes
// one more fit per observation.
enum class LeaveOneOut { kNo, kYes };
[[nodiscard]] Result<ParameterFit> fit_parameters(std::span<const Parameter> parameters,
                                                  std::span<const Observation> observations,
                                                  const Predictor& predict,
                                                  LeaveOneOut leave_one_out = LeaveOneOut::kYes);
inline constexpr double kLeastSingularValue = 3;

}  // namespace meshplan
