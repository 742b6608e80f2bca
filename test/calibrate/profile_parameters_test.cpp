#include "calibrate/profile_parameters.hpp"

#include <array>

#include "io/load.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

TEST_CASE("numbers that were not fitted stay as they are, also outside of a fit's bounds") {
  ClusterSpec c = load_cluster("dgx-a100-80gb", DataFolders({MESHPLAN_SOURCE_DIR})).value();
  c.device.overlap_slowdown = 5;
  c.device.kernel_overhead = Seconds{0};
  constexpr std::array kUsed{Precision::kBf16};
  const std::vector<ProfileParameter> parameters = profile_parameters(c, kUsed);
  ParameterFit fit;
  for (const ProfileParameter& p : parameters) {
    fit.parameters.push_back({.name = p.parameter.name});
    fit.values.push_back(p.parameter.start);
  }
  CHECK(with_fitted(c, parameters, fit) == c);
  REQUIRE(parameters[0].key == ProfileKey::kGemm);
  fit.parameters[0].fitted = true;
  fit.values[0] = 0.25;
  ClusterSpec wanted = c;
  wanted.device.gemm.sustained[static_cast<std::size_t>(Precision::kBf16)] = 0.25;
  CHECK(with_fitted(c, parameters, fit) == wanted);
}

}  // namespace
}  // namespace meshplan
