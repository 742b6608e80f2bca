#pragma once
// Hybrids of Megatron-LM's arguments: layers by a pattern, Mamba, linear attention, and what else
// they say of layers that differ.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "spec/model.hpp"

namespace meshplan {

// How the arguments are asked. A number that is missing or wrong is the default, and reported by
// whoever answers.
struct ArgumentReader {
  std::function<bool(const std::string& name)> has;
  std::function<std::string(const std::string& name)> text;
  std::function<std::int64_t(const std::string& name, std::int64_t otherwise)> number;
};

// The pattern with its stages and passes of multi-token prediction; empty without any.
[[nodiscard]] std::string hybrid_pattern_text(const ArgumentReader& arguments);

// Layers that the pattern has; 0 without any.
[[nodiscard]] std::int64_t hybrid_layers(const ArgumentReader& arguments);

struct HybridProblem {
  std::string option;  // the one to point at; empty: there is none
  std::string message;
};

// Completes `m`, whose flat keys the other arguments have filled.
[[nodiscard]] HybridProblem read_hybrid(const ArgumentReader& arguments, ModelSpec& m);

// Layers of every pipeline rank where the pattern says them, and the chunks of a rank; empty: not
// said, or not for so many ranks.
struct HybridStages {
  std::vector<std::int64_t> layers_per_rank;
  std::vector<std::int64_t> layers_per_chunk;  // by depth
  std::int64_t chunks = 1;
};
[[nodiscard]] HybridStages hybrid_stages(const ArgumentReader& arguments, std::int64_t pp);

}  // namespace meshplan
