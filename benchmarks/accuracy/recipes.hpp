#pragma once
// What the recipes behind a table set and the table does not print: NVIDIA's presets by model, GPU,
// precision and release where they are files (bridge_presets.hpp), else by release and GPU.
#include "bridge_presets.hpp"
#include "mapping.hpp"
#include "run.hpp"
#include "spec/model.hpp"
#include "spec/strategy.hpp"

namespace meshplan::accuracy {

// Year and month of the container that a row names ("26.06.01 container"): 2606; 0: none named.
[[nodiscard]] int stated_release(const std::string& text);

// The preset of a row of NVIDIA's tables for mixtures of experts; null where none is known.
[[nodiscard]] const BridgePreset* preset_of_table(const Source& source, const Run& run);

// Whether the recipe behind a row is known, and so what it recomputes.
[[nodiscard]] bool recipe_says_recompute(const Source& source, const Run& run);

void apply_recipe(Strategy& s, const Source& source, const Run& run);

// What the row says of adapters beside frozen weights, and of CUDA graphs.
void apply_adapters(Strategy& s, const Source& source, const Run& run);
void apply_trainer(Strategy& s, const Source& source, const Run& run);
void apply_optimizer(Strategy& s, const Run& run);
void apply_graphs(Strategy& s, const Run& run);

// Documents of a known data set that share rows, each attending to itself alone.
void apply_documents(Candidate& c, const Run& run);

// What the row says of recomputation, of a model of so many layers.
void apply_recompute(Strategy& s, const Run& run, std::int64_t layers);

}  // namespace meshplan::accuracy
