#pragma once
// What a model must satisfy to be planned for.
#include "spec/findings.hpp"
#include "spec/model.hpp"

namespace meshplan {

// Every rule that `m` breaks; empty if it can be planned for. Messages name the keys.
[[nodiscard]] Diagnostics validate(const ModelSpec& m);

// The same with the keys that they concern.
[[nodiscard]] Findings findings(const ModelSpec& m);

}  // namespace meshplan
