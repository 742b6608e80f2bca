#include "launch/bridge_precision.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>

namespace meshplan {
namespace {

struct PrecisionRecipe {
  std::string_view name;  // of its function
  std::string_view part;  // what says so in the names of releases, longer ones first
  std::string_view fp8;   // empty: none
  std::string_view scaling;
  std::string_view fp4 = {};
  bool gathers = false;  // weights in few bits; those of nvfp4 since ecbd4ead5, 2026-04-21
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
                    true,
                    0,
                    14},
    PrecisionRecipe{"bf16_with_nvfp4_mixed", "nvfp4", {}, {}, "nvfp4", true}};

}  // namespace

bool is_precision_field(std::string_view path) {
  constexpr auto kNames = std::to_array<std::string_view>(
      {"fp32", "fp16", "bf16", "params_dtype", "pipeline_dtype", "grad_reduce_in_fp32",
       "first_last_layers_bf16", "num_layers_at_start_in_bf16", "num_layers_at_end_in_bf16",
       "reuse_grad_buf_for_mxfp8_param_ag", "loss_scale", "initial_loss_scale", "min_loss_scale",
       "loss_scale_window", "hysteresis"});
  constexpr auto kFewBits = std::to_array<std::string_view>(
      {"", "_recipe", "_margin", "_amax_history_len", "_amax_compute_algo", "_wgrad",
       "_dot_product_attention", "_multi_head_attention", "_param", "_param_gather"});
  for (const std::string_view section : {"model.", "optimizer.", "ddp."}) {
    if (!path.starts_with(section)) continue;
    const std::string_view field = path.substr(section.size());
    if (std::find(kNames.begin(), kNames.end(), field) != kNames.end()) return true;
    return (field.starts_with("fp8") || field.starts_with("fp4")) &&
           std::find(kFewBits.begin(), kFewBits.end(), field.substr(3)) != kFewBits.end();
  }
  return false;
}

std::vector<std::pair<std::string, std::string>> precision_arguments(std::string_view name) {
  std::string plain(name);  // NeMo's names, which are taken too, have hyphens
  std::replace(plain.begin(), plain.end(), '-', '_');
  std::vector<std::pair<std::string, std::string>> all;
  if (plain.find("bf16") != std::string::npos) {
    all = {{"bf16", "True"}, {"accumulate_allreduce_grads_in_fp32", "True"}};
  } else if (plain.find("fp16") != std::string::npos) {  // gradients in fp16
    all = {{"fp16", "True"}};
  } else {
    return {};
  }
  const auto* r = std::find_if(kRecipes.begin(), kRecipes.end(), [&](const PrecisionRecipe& row) {
    return plain.find(row.part) != std::string::npos;
  });
  if (r == kRecipes.end()) return all;
  const std::string bits = r->fp4.empty() ? "fp8" : "fp4";
  all.emplace_back(bits, r->fp4.empty() ? r->fp8 : "e2m1");
  all.emplace_back(bits + "_recipe", r->fp4.empty() ? r->scaling : r->fp4);
  if (r->gathers) all.emplace_back(bits + "_param_gather", "True");
  all.emplace_back("first_last_layers_bf16", r->at_start + r->at_end > 0 ? "True" : "False");
  all.emplace_back("num_layers_at_start_in_bf16", std::to_string(r->at_start));
  all.emplace_back("num_layers_at_end_in_bf16", std::to_string(r->at_end));
  return all;
}

void settle_remainders(Namespace& all) {
  const auto aware = all.find("use_precision_aware_optimizer");
  if (aware == all.end() || aware->second.value != "True") return;
  const auto recipe = all.find("fp8_recipe");
  const std::string name = recipe != all.end() ? recipe->second.value : "tensorwise";
  if (name == "delayed" || name == "None") return;
  NamespaceArgument whole = aware->second;
  whole.name = "store_param_remainders", whole.value = "False";
  all[whole.name] = whole;
}

std::optional<std::string> precision_recipe_of(const Strategy& s, ScalingRecipe scaling) {
  // The names' fp8_recipe is one even without fp8, and another than the optimizer's needs.
  if (engine_holds_masters(s) && s.precision != Precision::kFp8) return std::nullopt;
  const bool wide = s.grad_dtype == Dtype::kFp32;
  switch (s.precision) {
    case Precision::kFp16:
      return wide ? std::nullopt : std::optional<std::string>("fp16_mixed");
    case Precision::kBf16:
      return wide ? std::optional<std::string>("bf16_mixed") : std::nullopt;
    case Precision::kFp32:
    case Precision::kTf32:
      return "null";
    case Precision::kFp8:
    case Precision::kNvfp4:
      break;
  }
  if (!wide || has_fp8_attention(s)) return std::nullopt;
  const bool eight = s.precision == Precision::kFp8;
  for (const PrecisionRecipe& r : kRecipes) {
    const bool same = eight ? r.scaling == name_of(scaling) : !r.fp4.empty();
    if (same && r.gathers == s.runtime.fp8_param_gather &&
        r.at_start == s.runtime.num_layers_at_start_in_bf16 &&
        r.at_end == s.runtime.num_layers_at_end_in_bf16) {
      return std::string(r.name);
    }
  }
  return std::nullopt;
}

std::vector<std::pair<std::string, std::string>> precision_fields(const Strategy& s,
                                                                  ScalingRecipe scaling) {
  const auto text = [](bool on) { return std::string(on ? "true" : "false"); };
  const std::string gathers = text(s.runtime.fp8_param_gather);
  std::vector<std::pair<std::string, std::string>> all;
  if (s.precision == Precision::kFp16) {
    all = {
        {"bf16", "false"}, {"fp16", "true"}, {"params_dtype", "fp16"}, {"pipeline_dtype", "fp16"}};
  } else {
    all = {{"bf16", "true"}};
  }
  all.emplace_back("grad_reduce_in_fp32", text(s.grad_dtype == Dtype::kFp32));
  // The recipe's own may be in the other number of bits.
  if (s.precision != Precision::kFp8) all.emplace_back("fp8", "null");
  if (s.precision != Precision::kNvfp4) all.emplace_back("fp4", "null");
  if (s.precision == Precision::kFp8) {
    const bool blocks = scaling == ScalingRecipe::kMxfp8;
    all.emplace_back("fp8", blocks ? "e4m3" : "hybrid");
    all.emplace_back("fp8_recipe", name_of(scaling));
    all.emplace_back("fp8_param_gather", gathers);
    if (blocks) all.emplace_back("reuse_grad_buf_for_mxfp8_param_ag", gathers);
    all.emplace_back("fp8_dot_product_attention", text(has_fp8_attention(s)));
  } else if (s.precision == Precision::kNvfp4) {
    all.emplace_back("fp4", "e2m1");
    all.emplace_back("fp4_recipe", "nvfp4");
    all.emplace_back("fp4_param_gather", gathers);
  }
  if (s.precision != Precision::kFp8 && engine_holds_masters(s)) {
    all.emplace_back("fp8_recipe", "delayed");
  }
  if (!is_quantised(s.precision)) return all;
  const Runtime& k = s.runtime;
  all.emplace_back("first_last_layers_bf16", text(has_bf16_layers(s)));
  all.emplace_back("num_layers_at_start_in_bf16", std::to_string(k.num_layers_at_start_in_bf16));
  all.emplace_back("num_layers_at_end_in_bf16", std::to_string(k.num_layers_at_end_in_bf16));
  return all;
}

}  // namespace meshplan
