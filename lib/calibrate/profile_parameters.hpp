#pragma once
// The numbers of a profile that training runs can determine, as parameters of a fit.
#include <span>
#include <string_view>
#include <vector>

#include "calibrate/parameters.hpp"
#include "spec/cluster.hpp"

namespace meshplan {

enum class ProfileKey {
  kGemm,          // gemm.sustained of one precision
  kMemory,        // memory_efficiency
  kHost,          // launch_gap: how fast the host issues kernels
  kInsideNodes,   // factor on the bandwidth of every level that is no network
  kBetweenNodes,  // factor on the bandwidth of every network level
  kOverlap,       // overlap_slowdown
};

struct ProfileParameter {
  ProfileKey key = ProfileKey::kGemm;
  Precision precision = Precision::kBf16;  // of kGemm
  std::string_view unit;                   // "": a share or a factor; "s"
  Parameter parameter;
};

// All of them, at the cluster's own values: gemm.sustained once per precision of `used` that the
// device computes in. Bounds are physical: shares up to 1, bandwidth up to 1.2 times the nominal.
[[nodiscard]] std::vector<ProfileParameter> profile_parameters(const ClusterSpec& c,
                                                               std::span<const Precision> used);

// How far the parameter of that name may be off on a machine that nobody measured, as a factor of
// 1 + doubt.
[[nodiscard]] double doubt_of(std::string_view name);

// The cluster with one value per parameter in place of its own.
[[nodiscard]] ClusterSpec with_parameters(ClusterSpec c,
                                          std::span<const ProfileParameter> parameters,
                                          std::span<const double> values);

// The cluster with what was fitted; every other number stays its own, even outside of the bounds of
// a fit.
[[nodiscard]] ClusterSpec with_fitted(ClusterSpec c, std::span<const ProfileParameter> parameters,
                                      const ParameterFit& fit);

}  // namespace meshplan
