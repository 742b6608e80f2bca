#pragma once
// Megatron-LM's command line, by purpose.
#include <string>
#include <vector>

#include "launch/launch.hpp"

namespace meshplan {

using Options = std::vector<std::vector<std::string>>;

// Architecture: every size and switch that decides parameters and activations.
[[nodiscard]] Options megatron_model_options(const ModelSpec& m, const Strategy& s);

// "Ettt|tttt|ttL": one letter per layer, one stage per chunk in the order of depth (pipeline rank
// fastest), as --pipeline-model-parallel-layout reads it.
[[nodiscard]] std::string megatron_pipeline_layout(const ModelSpec& m, const Strategy& s);

// "([0]*3+[1]*58)": 1 where a layer is what `is_one` says.
template <class IsOne>
[[nodiscard]] std::string python_list(std::int64_t size, const IsOne& is_one) {
  std::string text;
  for (std::int64_t i = 0; i < size;) {
    std::int64_t end = i;
    while (end < size && is_one(end) == is_one(i)) ++end;
    text += (text.empty() ? "" : "+") + std::string(is_one(i) ? "[1]" : "[0]");
    if (end - i > 1) text += "*" + std::to_string(end - i);
    i = end;
  }
  return "(" + text + ")";
}

}  // namespace meshplan
