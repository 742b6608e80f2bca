#pragma once
// What the recipes behind a table set and the table does not print. A recipe is chosen by release,
// GPU and precision; its options apply to every model.
#include "run.hpp"
#include "spec/strategy.hpp"

namespace meshplan::accuracy {

// Year and month of the container that a row names ("26.06.01 container"): 2606; 0: none named.
[[nodiscard]] int container_release(const std::string& text);

void apply_recipe(Strategy& s, const Source& source, const Run& run);

// What the row says of adapters beside frozen weights, and of CUDA graphs.
void apply_adapters(Strategy& s, const Run& run);
void apply_graphs(Strategy& s, const Run& run);

// What the row says of recomputation, of a model of so many layers.
void apply_recompute(Strategy& s, const Run& run, std::int64_t layers);

}  // namespace meshplan::accuracy
