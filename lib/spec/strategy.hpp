#pragma once
// How the work is split: the keys of the command line, of files and of results.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/diagnostic.hpp"
#include "base/units.hpp"
#include "spec/cluster.hpp"
#include "spec/framework.hpp"
#include "spec/kinds.hpp"
#include "spec/lora.hpp"
#include "spec/model.hpp"
#include "spec/module_set.hpp"
#include "spec/runtime.hpp"

namespace meshplan {

struct Overlap {
  bool grad_reduce = false;   // gradient reduction beside the backward pass
  bool param_gather = false;  // parameter all-gather beside the next forward pass
  // That of a rank's first chunk begins while the optimizer updates the others (Megatron-Core
  // overlap_param_gather_with_optimizer_step).
  bool param_gather_with_optimizer_step = false;
  bool tp = false;          // tensor-parallel collectives pipelined with their matrix products
  bool tp_backward = true;  // those of the backward pass beside the weight-gradient products
  bool ep = false;          // dispatch and combine of one microbatch beside the layers of another
  // Weight gradients of layers that `ep` interleaves are issued by themselves, behind those of the
  // inputs (Megatron-Core delay_wgrad_compute).
  bool delay_wgrad_compute = false;
  bool pp = false;              // sends and receives beside computation
  bool shared_experts = false;  // dispatch and combine beside the experts that every token passes

  bool operator==(const Overlap&) const = default;
};

struct Offload {
  bool optimizer = false;    // optimizer states and step on the host
  bool activations = false;  // saved activations copied to the host
  // With `activations` those of so many layers, from the first on; 0: of all of them.
  std::int64_t activation_layers = 0;
  // Of the parameters, with `optimizer`; the others' states and update stay on the device
  // (Megatron-Core optimizer/cpu_offloading/hybrid_optimizer.py).
  double optimizer_fraction = 1;
  // The fp32 weights leave the device with the moments; else their copy on the host is a second
  // one.
  bool master_weights = true;
  bool overlap_copies = false;  // gradients and weights are copied beside the host's update
  // With `optimizer` and zero 3 the shards of weights and gradients are on the host too: each
  // gather copies its shard to the device first, each reduction its result back (PyTorch
  // CPUOffloadPolicy, DeepSpeed offload_param).
  bool weights = false;
  // Of what these modules of a layer save goes to the host, the rest stays on the device.
  OffloadModules modules = {};
  double activation_fraction = 1;  // of what `modules` name

  // Of the layers' saved activations, what goes to the host. Kinds of layers are taken to share
  // alike.
  [[nodiscard]] double share_of_layers(std::int64_t num_layers) const {
    if (!activations) return 0;
    const bool all = activation_layers <= 0 || activation_layers >= num_layers;
    return all ? 1 : static_cast<double>(activation_layers) / static_cast<double>(num_layers);
  }
  // What of the optimizer is on the host, and what on the device.
  [[nodiscard]] double host_share() const { return optimizer ? optimizer_fraction : 0; }
  [[nodiscard]] double device_share() const { return 1 - host_share(); }

  bool operator==(const Offload&) const = default;
};

using RankOrder = std::array<Axis, 5>;  // innermost first
inline constexpr RankOrder kDefaultOrder{Axis::kTp, Axis::kCp, Axis::kEp, Axis::kDp, Axis::kPp};

struct Strategy {
  // dp 0: not stated, to be derived from the cluster (with_derived_dp) before anything else.
  std::int64_t tp = 1, pp = 1, vp = 1, cp = 1, ep = 1, etp = 1, dp = 1;
  CpKind cp_kind = CpKind::kRing;
  int zero = 1;  // 0..3; 1 is Megatron's distributed optimizer, 3 shards everything
  std::int64_t zero_group =
      0;  // ranks that share one copy of the sharded states; 0: all of dp * cp
  bool sequence_parallel = false;
  std::int64_t micro_batch = 1;      // sequences
  std::int64_t global_batch = 1;     // sequences
  std::int64_t seq_len = 0;          // tokens
  Packing packing = Packing::kPack;  // of documents, where their lengths are known
  Schedule schedule = kPlainSchedule;
  std::vector<std::int64_t> stage_layers;  // layers per pipeline rank; empty: as even as can be
  std::vector<std::int64_t>
      chunk_layers;  // per chunk, by depth; empty: a rank's evenly over its own
  Recompute recompute = Recompute::kNone;
  // What selective recomputation repeats. Empty: scores of attention where they are materialised,
  // else outputs of norms and of activation functions, and latent attention's up-projections.
  RecomputeModules recompute_modules;
  // Layers per pipeline rank that are fully recomputed; empty: every layer follows `recompute`.
  // The other layers of a rank follow `recompute` if it is none or selective.
  std::vector<std::int64_t> recompute_layers;
  Precision precision = Precision::kBf16;
  bool master_weights = true;  // fp32 copy of the weights in the optimizer
  Dtype grad_dtype = Dtype::kFp32;
  Dtype optimizer_dtype = Dtype::kFp32;  // Adam moments
  Optimizer optimizer = Optimizer::kAdam;
  Loss loss = Loss::kLm;
  bool flash_attention = true;
  Overlap overlap;
  Offload offload;
  FrozenParts frozen;  // besides what adapters leave alone
  Lora lora;
  Runtime runtime;
  // Their preset (frameworks/preset.hpp) gave the values above that nobody stated.
  Framework framework = Framework::kMegatron;
  Release release;
  RankOrder order = kDefaultOrder;

  bool operator==(const Strategy&) const = default;
};

[[nodiscard]] inline bool has_adapters(const Strategy& s) { return s.lora.rank > 0; }
// Whether the language model's weights are not trained, but for adapters.
[[nodiscard]] inline bool is_frozen(const Strategy& s) {
  return has_adapters(s) || s.frozen.has(FrozenPart::kLanguageModel);
}
// Whether the adapter of a column-parallel `layer` gathers its input again backward, as
// lora.input_regather asks (Megatron-Bridge peft/utils.py,
// _sequence_parallel_input_regather_eligibility): of qkv and an MLP's first layer alone, and
// neither beside graphs or adapters' all-to-all nor where the MLP is made anew. Full recomputation
// and activations on the host, beside which none is, are the rules' to refuse.
[[nodiscard]] bool regathers_input(const Strategy& s, LoraTarget layer);
[[nodiscard]] inline bool regathers_input(const Strategy& s) {
  return regathers_input(s, LoraTarget::kQkv) || regathers_input(s, LoraTarget::kFc1);
}
// Whether shards of weights and gradients are on the host.
[[nodiscard]] inline bool has_host_weights(const Strategy& s) {
  return s.offload.weights && s.offload.optimizer && s.zero == 3;
}
// Whether what surrounds frozen weights in 4 or 8 bits is fp32.
[[nodiscard]] inline bool casts_unquantised(const Strategy& s) {
  return s.runtime.fp32_unquantised && has_adapters(s) &&
         s.lora.frozen_dtype != FrozenDtype::kTraining;
}
// Whether a part of the vision encoder is trained; adapters are the language model's.
[[nodiscard]] inline bool trains(const Strategy& s, FrozenPart part) {
  return !has_adapters(s) && !s.frozen.has(part);
}
// What the operands of products in 8 bits are scaled over on a device of this architecture; without
// Transformer Engine a tensor (torchao float8).
[[nodiscard]] inline ScalingRecipe scaling_recipe(const Strategy& s, Architecture a) {
  if (s.runtime.fp8_recipe != ScalingRecipe::kBest) return s.runtime.fp8_recipe;
  const bool blocks = s.runtime.transformer_engine && a == Architecture::kBlackwell;
  return blocks ? ScalingRecipe::kMxfp8 : ScalingRecipe::kTensorwise;
}
// Whether some layers' products are in bf16 while the others' are not.
[[nodiscard]] inline bool has_bf16_layers(const Strategy& s) {
  return s.runtime.num_layers_at_start_in_bf16 > 0 || s.runtime.num_layers_at_end_in_bf16 > 0;
}
[[nodiscard]] inline bool has_fp8_attention(const Strategy& s) {
  return s.runtime.fp8_attention && s.flash_attention && s.precision == Precision::kFp8;
}
// The precision-aware optimizer, with its weights on the device.
[[nodiscard]] inline bool is_precision_aware(const Strategy& s) {
  const bool whole = s.precision == Precision::kFp32 || s.precision == Precision::kTf32;
  if (s.optimizer != Optimizer::kAdam || s.zero != 1 || !s.master_weights || whole) return false;
  const bool low_moments = s.runtime.transformer_engine && s.optimizer_dtype != Dtype::kFp32;
  return (s.runtime.precision_aware_optimizer || low_moments) && !s.offload.optimizer;
}
// Whether that one holds the fp32 weights itself, which it does with one scale per tensor of
// delayed scaling alone; and whether only their remainders, which weights in 8 or 4 bits have none
// of.
[[nodiscard]] inline bool engine_holds_masters(const Strategy& s) {
  const bool scaled =
      s.precision == Precision::kFp8 && s.runtime.fp8_recipe != ScalingRecipe::kDelayed;
  return is_precision_aware(s) && s.runtime.param_remainders && !scaled;
}
[[nodiscard]] inline bool holds_param_remainders(const Strategy& s) {
  return engine_holds_masters(s) && s.precision != Precision::kFp16 && !s.runtime.fp8_param_gather;
}
// Whether fp32 sums of gradients travel as one copy of them in 16 bits.
[[nodiscard]] inline bool casts_reduction(const Strategy& s) {
  return s.runtime.cast_reduction && s.zero == 1 && s.precision == Precision::kBf16 &&
         s.grad_dtype == Dtype::kFp32;
}
// As what gradients travel.
[[nodiscard]] inline Dtype reduction_dtype(const Strategy& s) {
  if (casts_reduction(s)) return Dtype::kBf16;
  return s.runtime.fp32_reduction ? Dtype::kFp32 : s.grad_dtype;
}
[[nodiscard]] std::int64_t num_gpus(const Strategy& s);
[[nodiscard]] std::int64_t num_microbatches(const Strategy& s);  // per pipeline and step
// Ranks that share one copy of the sharded states: zero_group, or dp * cp.
[[nodiscard]] std::int64_t shard_group(const Strategy& s);
// Data-parallel ranks of an expert: (tp * cp * dp) / (etp * ep).
[[nodiscard]] std::int64_t expert_dp(const Strategy& s);

// dp filled in where it is 0: what `gpus` devices leave over (rounded down, at least 1; validate()
// then reports a product that misses the cluster's number of devices).
[[nodiscard]] Strategy with_derived_dp(Strategy s, std::int64_t gpus);

// The handful of sizes that tell plans apart in tables: "tp8 pp16 vp7 dp128 mbs1 zero1 ...".
[[nodiscard]] std::string short_text(const Strategy& s);

// Every rule of the strategy itself, against the model and the cluster, that `s` breaks. Memory is
// not looked at. Each message says what would make it legal.
[[nodiscard]] Diagnostics validate(const Strategy& s, const ModelSpec& m, const ClusterSpec& c);
// Whether validate() finds no error; rules after the first broken one are not asked.
[[nodiscard]] bool is_legal(const Strategy& s, const ModelSpec& m, const ClusterSpec& c);

// Layers per pipeline rank with `stage_layers` filled in: as even as can be, where the first and
// last rank give way for the embedding and the output head when it does not divide. Multiples of
// vp; a stated layout need not be (chunks of a rank then differ by one layer).
[[nodiscard]] std::vector<std::int64_t> stage_layers(const Strategy& s, const ModelSpec& m);

}  // namespace meshplan
