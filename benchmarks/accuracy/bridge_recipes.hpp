#pragma once
// What the recipes set that NVIDIA's model verification cards name, read from their source
// (bridge_recipes.py makes bridge_recipes.jsonl).
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bridge_presets.hpp"
#include "run.hpp"

namespace meshplan::accuracy {

// An absent optional means that the recipe leaves it to its model's defaults.
struct BridgeRecipe {
  std::string name;       // "qwen3_30b_a3b_pretrain_16gpu_h100_bf16_config"
  bool tuned = false;     // of perf_recipes/; the others are the library's
  BridgePreset setting;   // without a release
  std::string recompute;  // granularity: "none", "selective", "full"
  std::string loss;       // cross_entropy_fusion_impl: "te", "native", or empty
  std::optional<bool> fp32_gradients, overlap_grad_reduce, overlap_param_gather;
  std::optional<bool> router_fusion, rope_fusion;
  bool deferred_head = false;  // defer_embedding_wgrad_compute
  std::int64_t wgrad_deferral_limit = 0;

  bool operator==(const BridgeRecipe&) const = default;
};

// The recipes that ship, in the order of their file: tuned ones first.
[[nodiscard]] const std::vector<BridgeRecipe>& bridge_recipes();

struct NamedRecipe {
  const BridgeRecipe* recipe = nullptr;
  // Two recipes bear the name, and the row's batch is that of this one alone.
  bool by_batch = false;

  bool operator==(const NamedRecipe&) const = default;
};

// The recipe that a row's notes name ("recipe qwen3_8b_sft_4gpu_h100_bf16_config"); null where they
// name none that ships. Of two of one name that whose global batch is the row's, else the tuned.
[[nodiscard]] NamedRecipe named_recipe(const std::vector<BridgeRecipe>& all, const Run& run);

// Whether the library's recipes of a row's model, GPU, precision and layout send tokens through
// DeepEP or HybridEP; nothing where there are none or they differ.
[[nodiscard]] std::optional<bool> library_dispatcher(const std::vector<BridgeRecipe>& all,
                                                     const Run& run);

}  // namespace meshplan::accuracy
