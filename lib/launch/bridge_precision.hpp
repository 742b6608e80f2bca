#pragma once
// Megatron-Bridge's recipes of precision (training/mixed_precision.py), by their names.
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "spec/strategy.hpp"

namespace meshplan {

// Fields of the model that a recipe's name stands for beyond 16 bits, and their values; none of a
// name that says no more.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> precision_arguments(
    std::string_view name);

// The name that says the strategy's precision; none where no recipe leaves as many layers in bf16.
// `scaling`: of fp8.
[[nodiscard]] std::optional<std::string> precision_recipe_of(const Strategy& s,
                                                             ScalingRecipe scaling);

}  // namespace meshplan
