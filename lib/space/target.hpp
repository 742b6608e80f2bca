#pragma once
// Which framework a search space is about, and what that framework cannot be told.
#include <optional>
#include <string>

#include "space/request.hpp"
#include "spec/target.hpp"

namespace meshplan {

[[nodiscard]] std::optional<Target> target_of(Space space);

// The framework whose preset plans of the space start from; none for the full space.
[[nodiscard]] std::optional<Framework> framework_of(Space space);

// "megatron cannot express it (order, ep)" if the space's framework cannot be told the strategy,
// else empty. Which framework the plan's preset is of does not matter here.
[[nodiscard]] std::string refusal_of(Space space, const Strategy& s, const ModelSpec& m,
                                     const ClusterSpec& c);

// What no choice of a search could mend: model features and fixed keys that the framework lacks.
// `is_searched` tells the keys that a search varies.
[[nodiscard]] Diagnostics hopeless_for(Space space, const Strategy& s, const ModelSpec& m,
                                       const ClusterSpec& c);

}  // namespace meshplan
