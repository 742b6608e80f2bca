#include "model/quantisation.hpp"

namespace meshplan {

namespace {

// [F-FP8-4] Products of compute capability 10.x read an operand in either order, so that one layout
// serves all of them where it has one scale (Transformer Engine common/transformer_engine.cpp,
// nvte_is_non_tn_fp8_gemm_supported; pytorch/csrc/quantizer.cpp). Cards of 12.x, which cannot, are
// not told apart.
double layouts_of_one_scale(const Strategy& s, const DeviceSpec& d) {
  return s.runtime.transformer_engine && d.architecture == Architecture::kBlackwell ? 1 : 2;
}

}  // namespace

Quantisation quantisation(const Strategy& s, const DeviceSpec& d) {
  if (s.precision == Precision::kNvfp4) return {0.5 + 1.0 / 16, 4, 3, 2, true, true};
  if (s.precision != Precision::kFp8) return {static_cast<double>(storage_size(s.precision))};
  switch (scaling_recipe(s, d.architecture)) {
    case ScalingRecipe::kTensorwise:
      // torchao's float8 is compiled: the largest element is found where the tensor is made
      // (estimate; torchtitan's measured runs in fp8 are within 2 %).
      if (!s.runtime.transformer_engine) return {1, 2, 2};
      return {1, 4, 4, layouts_of_one_scale(s, d)};
    case ScalingRecipe::kBlockwise:
      return {1 + 4.0 / 128, 2, 1, 2, false, true};
    case ScalingRecipe::kMxfp8:
      return {1 + 1.0 / 32, 2, 1, 2, false, true};
    case ScalingRecipe::kDelayed:
    case ScalingRecipe::kBest:
      break;
  }
  return {1, 2, 1, layouts_of_one_scale(s, d), true, false};
}

double scaled_product_rate(const Strategy& s, const DeviceSpec& d) {
  constexpr double kMxfp8 = 0.951, kBlockwise = 0.811;
  if (s.precision != Precision::kFp8) return 1;
  switch (scaling_recipe(s, d.architecture)) {
    case ScalingRecipe::kMxfp8:
      return kMxfp8;
    case ScalingRecipe::kBlockwise:
      return d.architecture == Architecture::kBlackwell ? kMxfp8 : kBlockwise;
    default:
      return 1;
  }
}

double gathered_weight_bytes(const Strategy& s, const DeviceSpec& d) {
  const double plain = storage_size(s.precision);
  if (!is_quantised(s.precision) || !s.runtime.fp8_param_gather) return plain;
  const bool eight = s.precision == Precision::kFp8;
  if (eight && scaling_recipe(s, d.architecture) == ScalingRecipe::kMxfp8) return plain;
  return quantisation(s, d).bytes;
}

bool shares_scales(const Strategy& s, const DeviceSpec& d) {
  const bool of_tensor = s.precision == Precision::kNvfp4 ||
                         (s.precision == Precision::kFp8 &&
                          scaling_recipe(s, d.architecture) == ScalingRecipe::kTensorwise);
  return of_tensor && s.runtime.transformer_engine && s.sequence_parallel && s.tp > 1;
}

}  // namespace meshplan
