#pragma once
// Megatron-Bridge's recipes of precision (training/mixed_precision.py), by their names.
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launch/megatron_namespace.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

// Whether mixed_precision, the recipe's or the script's, replaces this field where training begins
// (training/mixed_precision.py, update_config_with_precision_overrides): "ddp.grad_reduce_in_fp32",
// "model.fp8_dot_product_attention".
[[nodiscard]] bool is_precision_field(std::string_view path);

// Arguments that a recipe's name stands for, as Megatron-LM has them; none of a name of no type.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> precision_arguments(
    std::string_view name);

// Where mixed_precision says no other fp8_recipe than its default, tensorwise, or one that is not
// "delayed", with or without fp8, the precision-aware optimizer holds whole fp32 weights
// (Megatron-Core optimizer_config.py, use_precision_aware_optimizer_no_fp8_or_ds_fp8, which
// Megatron-Bridge works out after mixed_precision.setup).
void settle_remainders(Namespace& all);

// The name that says all of the strategy's precision; none where no recipe has its type of
// gradients, its weights, attention in 8 bits or as many layers in bf16. `scaling`: of fp8.
[[nodiscard]] std::optional<std::string> precision_recipe_of(const Strategy& s,
                                                             ScalingRecipe scaling);

// What no name says, in fields of mixed_precision.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> precision_fields(
    const Strategy& s, ScalingRecipe scaling);

}  // namespace meshplan
