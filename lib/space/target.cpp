#include "space/target.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "space/fixed_keys.hpp"

namespace meshplan {
namespace {

bool is_about_preset(const Finding& f) { return f.keys.front() == "framework"; }

}  // namespace

std::optional<Target> target_of(Space space) {
  switch (space) {
    case Space::kFull:
      return std::nullopt;
    case Space::kMegatron:
      return Target::kMegatron;
    case Space::kDeepspeed:
      return Target::kDeepspeed;
    case Space::kFsdp:
      return Target::kAccelerate;
    case Space::kTorchtitan:
      return Target::kTorchtitan;
  }
  return std::nullopt;
}

std::optional<Framework> framework_of(Space space) {
  switch (space) {
    case Space::kFull:
      return std::nullopt;
    case Space::kMegatron:
      return Framework::kMegatron;
    case Space::kDeepspeed:
      return Framework::kDeepspeed;
    case Space::kFsdp:
      return Framework::kFsdp;
    case Space::kTorchtitan:
      return Framework::kTorchtitan;
  }
  return std::nullopt;
}

std::string refusal_of(Space space, const Strategy& s, const ModelSpec& m, const ClusterSpec& c) {
  const std::optional<Target> target = target_of(space);
  if (!target) return {};
  for (const Finding& f : target_findings(*target, s, m, c).all()) {
    if (is_about_preset(f)) continue;
    return std::string(name_of(*target)) + " cannot express it (" + join_words(f.keys, ", ") + ")";
  }
  return {};
}

Diagnostics hopeless_for(Space space, const Strategy& s, const ModelSpec& m, const ClusterSpec& c) {
  const std::optional<Target> target = target_of(space);
  Diagnostics problems;
  if (!target) return problems;
  for (const Finding& f : target_findings(*target, s, m, c).all()) {
    const bool can_change = std::any_of(f.keys.begin(), f.keys.end(), is_searched);
    if (!can_change && !is_about_preset(f)) problems.push_back(f.diagnostic);
  }
  return problems;
}

}  // namespace meshplan
