// What Megatron-LM's arguments say of data types, and of which layers' products are in few bits.
#include <algorithm>

#include "launch/megatron_parts.hpp"

namespace meshplan {
namespace {

// T: first_last_layers_bf16 and its numbers, of 1 each. More than there are is all there are
// (core/fp8_utils.py, is_first_last_bf16_layer).
void read_bf16_layers(ProgramOptions& options, ImportedRun& run) {
  const bool on = options.has("--first-last-layers-bf16");
  const std::int64_t first = options.number("--num-layers-at-start-in-bf16", 1, kCount);
  const std::int64_t last = options.number("--num-layers-at-end-in-bf16", 1, kCount);
  if (!on) return;
  if (!is_quantised(run.strategy.precision)) {
    run.notes.emplace_back(
        "first and last layers are asked for in bf16, but none are in fp8 or fp4: without effect");
    return;
  }
  Runtime& k = run.strategy.runtime;
  k.num_layers_at_start_in_bf16 = std::min(first, run.model.num_layers);
  k.num_layers_at_end_in_bf16 =
      std::min(last, run.model.num_layers - k.num_layers_at_start_in_bf16);
}

}  // namespace

void read_data_types(ProgramOptions& options, ImportedRun& run) {
  Strategy& s = run.strategy;
  const bool bf16 = options.has("--bf16"), fp16 = options.has("--fp16");
  s.precision = bf16 ? Precision::kBf16 : fp16 ? Precision::kFp16 : Precision::kFp32;
  const Dtype own = s.precision == Precision::kFp16 ? Dtype::kFp16 : Dtype::kBf16;
  const bool sums = options.has("--accumulate-allreduce-grads-in-fp32"),
             reduced = options.has("--grad-reduce-in-bf16");
  const bool fp32 = s.precision != Precision::kFp16 || sums;
  s.grad_dtype = fp32 && !reduced ? Dtype::kFp32 : own;
  const bool old_fp8 = options.has("--fp8-hybrid"), old_e4m3 = options.has("--fp8-e4m3");
  const bool fp8 = !options.text("--fp8-format").empty();
  if (fp8 || old_fp8 || old_e4m3) s.precision = Precision::kFp8;
  s.optimizer_dtype =
      from_name<Dtype>(options.text("--exp-avg-dtype", "fp32")).value_or(Dtype::kFp32);
  const std::string recipe = options.text("--fp8-recipe", "delayed");
  if (s.precision == Precision::kFp8) {
    s.runtime.fp8_recipe = from_name<ScalingRecipe>(recipe).value_or(ScalingRecipe::kBest);
  }
  if (!options.text("--fp4-format").empty()) s.precision = Precision::kNvfp4;
  const bool fp8_gather = options.has("--fp8-param-gather"),
             fp4_gather = options.has("--fp4-param-gather");
  s.runtime.fp8_param_gather = (fp8_gather && s.precision == Precision::kFp8) ||
                               (fp4_gather && s.precision == Precision::kNvfp4);
  const bool attention = options.has("--fp8-dot-product-attention");
  s.runtime.fp8_attention = attention && s.precision == Precision::kFp8;
  read_bf16_layers(options, run);
}

void read_optimizer(ProgramOptions& options, ImportedRun& run) {
  Strategy& s = run.strategy;
  const std::string name = options.text("--optimizer", "adam");
  if (name == "muon" || name == "dist_muon") {
    s.optimizer = Optimizer::kMuon;
    s.runtime.layer_wise_param_layout = !options.has("--no-use-layer-wise-param-layout");
    if (name == "dist_muon") s.zero = std::max(s.zero, 1);
  } else if (name == "sgd") {
    s.optimizer = Optimizer::kSgd;
  } else if (name != "adam") {
    run.notes.push_back("--optimizer " + name + " is not modelled: it is estimated as Adam");
  }
}

void read_precision_aware(ProgramOptions& options, ImportedRun& run) {
  Strategy& s = run.strategy;
  const bool on = options.has("--use-precision-aware-optimizer");
  s.runtime.param_remainders = !options.has("--no-store-param-remainders");
  if (!on || options.has("--optimizer-cpu-offload")) return;  // beside that it says something else
  Strategy aware = s;
  aware.runtime.precision_aware_optimizer = true;
  if (is_precision_aware(aware)) {
    s.runtime.precision_aware_optimizer = s.optimizer_dtype == Dtype::kFp32;
  } else {
    run.notes.emplace_back(
        "the precision-aware optimizer is counted only with the distributed optimizer, Adam and "
        "16-bit weights: it is estimated as without");
  }
}

}  // namespace meshplan
