#include "fitted_profile.hpp"

#include <ctime>

namespace meshplan {

std::vector<CalibrationParameter> fitted_parameters(std::span<const ProfileParameter> parameters,
                                                    const ParameterFit& fit) {
  std::vector<CalibrationParameter> all;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const FittedParameter& p = fit.parameters[i];
    all.push_back({p.name, std::string(parameters[i].unit), p.before, p.after, p.fitted,
                   p.deviation, p.reason});
  }
  return all;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d", &utc);
  return text;
}

ClusterSpec documented(ClusterSpec c, std::span<const CalibrationParameter> parameters,
                       const std::string& basis, const std::string& method) {
  if (!c.measured) {
    c.measured.emplace();
    c.measured->method = method;
    c.measured->date = today();
  }
  for (const CalibrationParameter& p : parameters) {
    c.measured->notes[p.name] = p.fitted ? basis : "not fitted: " + p.reason;
    const bool of_device = p.name.find(' ') == std::string::npos;
    if (p.fitted && of_device) c.device.sources[p.name] = basis;
  }
  return c;
}

}  // namespace meshplan
