#include "calibrate/profile_parameters.hpp"

#include <algorithm>
#include <set>

#include "base/check.hpp"

namespace meshplan {
namespace {

bool is_network_level(const LinkLevel& level) {
  switch (level.kind) {
    case LinkKind::kInfiniband:
    case LinkKind::kRoce:
    case LinkKind::kEfa:
    case LinkKind::kEthernet:
      return true;
    case LinkKind::kNvswitch:
    case LinkKind::kNvlink:
    case LinkKind::kXgmi:
    case LinkKind::kPcie:
      return false;
  }
  return false;
}

// Precision that the device really computes the products of `p` in (peak_rate()).
Precision computed_in(const DeviceSpec& d, Precision p) {
  const auto has = [&](Precision q) { return d.peak[static_cast<std::size_t>(q)].si() > 0; };
  if (has(p)) return p;
  if (p == Precision::kTf32) return Precision::kFp32;
  if (is_quantised(p)) return computed_in(d, Precision::kBf16);
  return p == Precision::kBf16 ? Precision::kFp16 : p;
}

// [F-CAL-11] How far what ships may be off on a machine that nobody measured, as a factor of
// 1 + doubt: of largest marginal likelihood over published sources, each predicted by constants
// that were chosen without it (meshplan-accuracy --cross-validate --doubts).
constexpr double kProductDoubt = 0.04, kMemoryDoubt = 0.06, kHostDoubt = 0.11, kInsideDoubt = 0.11,
                 kBetweenDoubt = 0.08, kOverlapDoubt = 0.06;

constexpr std::string_view kInsideName = "bandwidth inside nodes",
                           kBetweenName = "bandwidth between nodes";

Parameter bounded(std::string name, double start, double lowest, double highest) {
  const double doubt = doubt_of(name);
  return {.name = std::move(name),
          .start = std::clamp(start, lowest, highest),
          .lowest = lowest,
          .highest = highest,
          .doubt = doubt};
}

}  // namespace

double doubt_of(std::string_view name) {
  if (name == "memory_efficiency") return kMemoryDoubt;
  if (name == "launch_gap") return kHostDoubt;
  if (name == kInsideName) return kInsideDoubt;
  if (name == kBetweenName) return kBetweenDoubt;
  if (name == "overlap_slowdown") return kOverlapDoubt;
  return kProductDoubt;
}

std::vector<ProfileParameter> profile_parameters(const ClusterSpec& c,
                                                 std::span<const Precision> used) {
  const DeviceSpec& d = c.device;
  std::vector<ProfileParameter> all;
  std::set<Precision> precisions;
  for (const Precision p : used) precisions.insert(computed_in(d, p));
  for (const Precision p : precisions) {
    const double share = d.gemm.sustained[static_cast<std::size_t>(p)];
    if (share <= 0) continue;
    all.push_back({ProfileKey::kGemm, p, "",
                   bounded("gemm.sustained." + std::string(name_of(p)), share, 0.02, 1)});
  }
  all.push_back(
      {ProfileKey::kMemory, {}, "", bounded("memory_efficiency", d.memory_efficiency, 0.05, 1)});
  all.push_back({ProfileKey::kHost, {}, "s", bounded("launch_gap", d.launch_gap.si(), 2e-7, 1e-4)});
  bool inside = false, between = false;
  for (const LinkLevel& level : c.levels) {
    (is_network_level(level) ? between : inside) = true;
  }
  constexpr double kLeast = 0.05, kMost = 1.2;
  if (inside) {
    all.push_back(
        {ProfileKey::kInsideNodes, {}, "", bounded(std::string(kInsideName), 1, kLeast, kMost)});
  }
  if (between) {
    all.push_back(
        {ProfileKey::kBetweenNodes, {}, "", bounded(std::string(kBetweenName), 1, kLeast, kMost)});
  }
  all.push_back(
      {ProfileKey::kOverlap, {}, "", bounded("overlap_slowdown", d.overlap_slowdown, 1, 2)});
  return all;
}

ClusterSpec with_parameters(ClusterSpec c, std::span<const ProfileParameter> parameters,
                            std::span<const double> values) {
  PLAN_CHECK(parameters.size() == values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    switch (parameters[i].key) {
      case ProfileKey::kGemm:
        c.device.gemm.sustained[static_cast<std::size_t>(parameters[i].precision)] = values[i];
        break;
      case ProfileKey::kMemory:
        c.device.memory_efficiency = values[i];
        break;
      case ProfileKey::kHost:
        c.device.launch_gap = Seconds{values[i]};
        break;
      case ProfileKey::kInsideNodes:
      case ProfileKey::kBetweenNodes:
        for (LinkLevel& level : c.levels) {
          const bool between = parameters[i].key == ProfileKey::kBetweenNodes;
          if (is_network_level(level) == between) level.bandwidth *= values[i];
        }
        break;
      case ProfileKey::kOverlap:
        c.device.overlap_slowdown = values[i];
        break;
    }
  }
  return c;
}

ClusterSpec with_fitted(ClusterSpec c, std::span<const ProfileParameter> parameters,
                        const ParameterFit& fit) {
  PLAN_CHECK(parameters.size() == fit.parameters.size() && parameters.size() == fit.values.size());
  std::vector<ProfileParameter> fitted;
  std::vector<double> values;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!fit.parameters[i].fitted) continue;
    fitted.push_back(parameters[i]);
    values.push_back(fit.values[i]);
  }
  return with_parameters(std::move(c), fitted, values);
}

}  // namespace meshplan
