#include "launch/bridge_precision.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace meshplan {
namespace {

struct PrecisionRecipe {
  std::string_view name;  // of its function
  std::string_view part;  // what says so in the names of releases, longer ones first
  std::string_view fp8;   // empty: none
  std::string_view scaling;
  std::string_view fp4 = {};
  bool gathers = false;  // weights in few bits
  // Its first and last layers in bf16.
  std::int64_t at_start = 0, at_end = 0;
};
constexpr std::array kRecipes{
    PrecisionRecipe{"bf16_with_mxfp8_mixed", "mxfp8", "e4m3", "mxfp8", {}, true},
    PrecisionRecipe{"nanov2_bf16_with_fp8_current_scaling_mixed",
                    "nanov2_bf16_with_fp8",
                    "hybrid",
                    "blockwise",
                    {},
                    true,
                    2,
                    2},
    PrecisionRecipe{"nemotron_h_bf16_with_fp8_current_scaling_mixed",
                    "nemotron_h_bf16_with_fp8",
                    "hybrid",
                    "tensorwise",
                    {},
                    true,
                    2,
                    2},
    PrecisionRecipe{"bf16_with_fp8_delayed_scaling_mixed",
                    "fp8_delayed_scaling",
                    "hybrid",
                    "delayed",
                    {},
                    true},
    PrecisionRecipe{"bf16_with_fp8_current_scaling_mixed",
                    "fp8_current_scaling",
                    "hybrid",
                    "tensorwise",
                    {},
                    true,
                    1,
                    1},
    PrecisionRecipe{"bf16_with_fp8_subchannel_scaling_mixed", "fp8_subchannel_scaling", "hybrid",
                    "blockwise"},
    PrecisionRecipe{"nemotron_3_super_bf16_with_nvfp4_mixed",
                    "nemotron_3_super_bf16_with_nvfp4",
                    {},
                    {},
                    "nvfp4",
                    false,
                    0,
                    14},
    PrecisionRecipe{"bf16_with_nvfp4_mixed", "nvfp4", {}, {}, "nvfp4"}};

}  // namespace

std::vector<std::pair<std::string, std::string>> precision_arguments(std::string_view name) {
  std::string plain(name);  // NeMo's names, which are taken too, have hyphens
  std::replace(plain.begin(), plain.end(), '-', '_');
  const auto* r = std::find_if(kRecipes.begin(), kRecipes.end(), [&](const PrecisionRecipe& row) {
    return plain.find(row.part) != std::string::npos;
  });
  if (r == kRecipes.end()) return {};
  std::vector<std::pair<std::string, std::string>> all;
  if (!r->fp4.empty()) {
    all = {{"fp4", "e2m1"}, {"fp4_recipe", std::string(r->fp4)}};
  } else {
    all = {{"fp8", std::string(r->fp8)}, {"fp8_recipe", std::string(r->scaling)}};
  }
  if (r->gathers) all.emplace_back("fp8_param_gather", "True");
  all.emplace_back("first_last_layers_bf16", r->at_start + r->at_end > 0 ? "True" : "False");
  all.emplace_back("num_layers_at_start_in_bf16", std::to_string(r->at_start));
  all.emplace_back("num_layers_at_end_in_bf16", std::to_string(r->at_end));
  return all;
}

std::optional<std::string> precision_recipe_of(const Strategy& s, ScalingRecipe scaling) {
  switch (s.precision) {
    case Precision::kFp16:
      return "fp16_mixed";
    case Precision::kBf16:
      return "bf16_mixed";
    case Precision::kFp32:
    case Precision::kTf32:
      return "null";
    case Precision::kFp8:
    case Precision::kNvfp4:
      break;
  }
  const bool eight = s.precision == Precision::kFp8;
  for (const PrecisionRecipe& r : kRecipes) {
    const bool same = eight ? r.scaling == name_of(scaling) : !r.fp4.empty();
    if (same && r.at_start == s.runtime.num_layers_at_start_in_bf16 &&
        r.at_end == s.runtime.num_layers_at_end_in_bf16) {
      return std::string(r.name);
    }
  }
  return std::nullopt;
}

}  // namespace meshplan
