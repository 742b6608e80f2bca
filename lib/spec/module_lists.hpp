#pragma once
// Which modules of selective recomputation, of offloading and of CUDA graphs a model has, and which
// lists of them differ.
#include <vector>

#include "spec/model.hpp"
#include "spec/module_set.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

// Whether a layer has the part that the module names; a norm every one has.
[[nodiscard]] bool has_module(const ModelSpec& m, RecomputeModule module);
[[nodiscard]] bool has_module(const ModelSpec& m, CudaGraphModule module);
[[nodiscard]] bool has_module(const ModelSpec& m, OffloadModule module);

// The lists of which no other drops and repeats the same, the empty one first. Where norms are
// inside of their products' modules (Runtime::transformer_engine) a model without experts and
// latent attention has none apart.
[[nodiscard]] std::vector<RecomputeModules> module_lists(const ModelSpec& m,
                                                         const Runtime& runtime);

// The lists of modules whose saved inputs may go to the host, the empty one first: of those that
// the model has, attn_proj beside core_attn alone, norms where they are modules of their own.
[[nodiscard]] std::vector<OffloadModules> offload_lists(const ModelSpec& m, const Runtime& runtime);

}  // namespace meshplan
