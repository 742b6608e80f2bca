#include "launch/recipe_optimizers.hpp"

#include <array>

namespace meshplan {

std::optional<Optimizer> recipe_optimizer(std::string_view name) {
  struct Row {
    std::string_view name;
    Optimizer optimizer;
  };
  static constexpr auto kRows = std::to_array<Row>({
      {"adamw_8bit", Optimizer::kAdam8bit},
      {"adamw_bnb_8bit", Optimizer::kAdam8bit},
      {"adamw_torch_8bit", Optimizer::kAdam8bit},
      {"paged_adamw_32bit", Optimizer::kPagedAdam},
      {"paged_adamw", Optimizer::kPagedAdam},
      {"paged_adamw_8bit", Optimizer::kPagedAdam8bit},
      {"adafactor", Optimizer::kAdafactor},
      {"sgd", Optimizer::kSgd},
      {"muon", Optimizer::kMuon},
      {"adamw_hf", Optimizer::kAdam},
  });
  for (const Row& row : kRows) {
    if (row.name == name) return row.optimizer;
  }
  const bool adam = name.find("adamw_torch") == 0 || name.find("adamw_apex") == 0;
  const bool low =
      name.find("4bit") != std::string_view::npos || name.find("8bit") != std::string_view::npos;
  return adam && !low ? std::optional(Optimizer::kAdam) : std::nullopt;
}

}  // namespace meshplan
