#pragma once
// What the recipes behind a table set and the table does not print. A recipe is chosen by release,
// GPU and precision; its options apply to every model.
#include "run.hpp"
#include "spec/strategy.hpp"

namespace meshplan::accuracy {

// Year and month of the container that a row names ("26.06.01 container"): 2606; 0: none named.
[[nodiscard]] int container_release(const std::string& text);

void apply_recipe(Strategy& s, const Source& source, const Run& run);

}  // namespace meshplan::accuracy
