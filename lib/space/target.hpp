#pragma once
// Which framework a search space is about, and what that framework cannot be told. The answers are
// those of frameworks/target.hpp, which exporters and lint ask as well.
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "frameworks/target.hpp"
#include "space/request.hpp"

namespace meshplan {

[[nodiscard]] std::optional<Target> target_of(Space space);

// The framework whose preset plans of the space start from; none for the full space.
[[nodiscard]] std::optional<Framework> framework_of(Space space);

// The space of what the framework, or the target, can run, if there is one.
[[nodiscard]] std::optional<Space> space_of(Framework f);
[[nodiscard]] Space space_of(Target t);

// `base` as runs of the space start where their configuration says less than the preset's: data
// types, kernels and packing that it cannot say become those that it says. Recipes that share a
// framework, and so its preset, differ in these. What `base` states of the work is left alone.
[[nodiscard]] Strategy as_configured(Space space, const Strategy& base, const ModelSpec& m,
                                     const ClusterSpec& c);

// What the space's framework can be told of strategies of one model on one cluster, both of which
// are referred to. Of the full space everything.
class SpaceTarget {
 public:
  SpaceTarget(Space space, const ModelSpec& m, const ClusterSpec& c);

  // "megatron cannot express it (order, ep)" if the framework cannot be told the strategy, else
  // empty. Which framework the plan's preset is of does not matter here.
  [[nodiscard]] std::string refusal_of(const Strategy& s) const;

  // Whether the framework refuses `s` whatever becomes of the keys that a search has not settled
  // yet: `s` breaks a rule that is about settled keys and those that no search varies.
  [[nodiscard]] bool is_refused(const Strategy& s, std::span<const std::string_view> settled) const;

 private:
  std::optional<TargetModel> target_;
  const ClusterSpec& cluster_;
};

// What no choice of a search could mend: model features and fixed keys that the framework lacks.
[[nodiscard]] Diagnostics hopeless_for(Space space, const Strategy& s, const ModelSpec& m,
                                       const ClusterSpec& c);

}  // namespace meshplan
