#pragma once
// Optimizers by the names that recipes give them.
#include <optional>
#include <string_view>

#include "spec/kinds.hpp"

namespace meshplan {

// Transformers' training_args.py, default_optim, with PyTorch 2.8 and later. adamw_torch alone is
// PyTorch's foreach.
inline constexpr const char* kDefaultOptimizer = "adamw_torch_fused";

// Of Transformers' OptimizerNames (training_args.py) and axolotl's; nothing for those that the
// planner does not know.
[[nodiscard]] std::optional<Optimizer> recipe_optimizer(std::string_view name);

}  // namespace meshplan
