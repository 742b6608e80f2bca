#pragma once
// Layers of hybrid models as Megatron-LM writes them: one letter per layer, which is a mixer alone
// or a feed-forward alone, '|' between pipeline stages, and behind '/' what each pass of
// multi-token prediction consists of (megatron/core/models/hybrid/hybrid_layer_allocation.py).
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spec/model.hpp"

namespace meshplan {

struct HybridPattern {
  std::string layers;                // without '|'
  std::vector<std::int64_t> stages;  // layers of each, where '|' says
  std::string prediction;            // of one pass of multi-token prediction; empty: none
  std::int64_t num_predictions = 0;
  std::string problem;  // why the text is no pattern; empty if it is one
};

[[nodiscard]] HybridPattern parse_hybrid_pattern(std::string_view text);

// The section of a model file that a letter means, and whether it is one of `mixers`.
struct HybridSymbol {
  char symbol;
  std::string_view section;
  bool is_mixer;
};
[[nodiscard]] const HybridSymbol* hybrid_symbol(char symbol);

// What a letter stands for; none where it has no section.
using HybridLookup = std::function<std::optional<LayerSpec>(const HybridSymbol&)>;

// Sets layers, their number and multi-token prediction of `m`. Returns why that is not possible, or
// an empty text.
[[nodiscard]] std::string apply_hybrid_pattern(const HybridPattern& pattern,
                                               const HybridLookup& lookup, ModelSpec& m);

// The pattern of a model whose layers are mixers or feed-forwards alone, one kind for every letter;
// none for others. `stages`: layers of each pipeline stage, or of each of its chunks, to separate.
[[nodiscard]] std::optional<std::string> hybrid_pattern(
    const ModelSpec& m, const std::vector<std::int64_t>& stages = {});

// The letter of a layer; 0 where Megatron-LM has none.
[[nodiscard]] char hybrid_letter(const LayerSpec& layer);

}  // namespace meshplan
