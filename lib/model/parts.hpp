#pragma once
// Building stones that kinds of layers are put together from: their kernels and collectives with
// times, and what they leave for the backward pass.
#include <cstdint>
#include <span>
#include <string_view>

#include "base/units.hpp"
#include "model/adapters.hpp"
#include "model/context.hpp"
#include "model/operations.hpp"
#include "model/parameters.hpp"

namespace meshplan {

// Times of the products of a linear layer, behind which collectives may hide.
struct LinearTimes {
  Seconds forward, backward_input, backward_weight;
};

inline constexpr std::string_view kResidualName = "residual";  // of append_residual()
inline constexpr std::string_view kScoreProductName =
    "attention product";                                     // of scores that are kept
inline constexpr std::string_view kSoftmaxName = "softmax";  // of these

// As the strategy, but for 8-bit products: of layers that a code leaves in 16 bits.
[[nodiscard]] Strategy unquantised(const Strategy& s);
// One kernel that moves bytes, and one matrix product, with their times.
[[nodiscard]] KernelOp memory_op(const BlockContext& x, std::string_view name, Pass pass,
                                 double bytes, double kernels, bool selective = false,
                                 KernelKind kind = KernelKind::kOther);
// [F-GEMM-4] Rate of products over the device file's: the run's libraries and clocks, and how their
// operands are scaled.
[[nodiscard]] double product_rate(const BlockContext& x, Precision p);
[[nodiscard]] KernelOp gemm_op(const BlockContext& x, std::string_view name, Pass pass,
                               const GemmShape& g, Precision p);
void append_norm(const BlockContext& x, std::string_view name, std::int64_t elements, BlockOps& ops,
                 bool selective = false);
// `apart`: a module of its own even where others are inside of their products' (norm_is_inside).
void append_residual_norm(const BlockContext& x, std::string_view name, BlockOps& ops,
                          bool apart = false);
// [F-DATA-1] What the data loader's mask of all pairs of tokens costs the ranks that read the
// batch, each microbatch: b s^2 bytes over the host link on the stream of the forward pass, and
// their broadcast to the tensor-parallel ranks (Megatron-Core datasets/gpt_dataset.py,
// create_attention_mask; core/utils.py, get_batch_on_this_tp_rank). Its life ends with the
// pass. The last pipeline rank, which reads labels, copies it between a message and layers that
// mostly wait for the host: not counted there.
void append_mask_copy(const BlockContext& x, BlockOps& ops);
// [F-DET-1] With deterministic algorithms PyTorch fills what torch.empty gives (torch.utils
// .deterministic, fill_uninitialized_memory): one more kernel for each output that Transformer
// Engine, fused attention and collectives write, once its bytes. PyTorch's own operators and
// compiled ones make theirs without (aten/src/ATen/native/cuda/TensorFactories.cu, empty_cuda).
void append_fills(const BlockContext& x, BlockOps& ops);
void append_gradient_sum(const BlockContext& x, std::int64_t elements, BlockOps& ops);
// Whether the activation's input is kept in 8 bits ([F-ACT-1]): an option of Megatron-Core's fused
// SwiGLU alone (fusions/fused_bias_swiglu.py).
[[nodiscard]] inline bool stores_fp8_input(const BlockContext& x) {
  const Runtime& k = x.strategy.runtime;
  return k.activation_func_fp8_input_store && k.fused_activation && x.model.gated_mlp &&
         x.model.activation == Activation::kSilu;
}

// Whether experts multiply, gate and cast in one kernel ([F-EP-8]); of MXFP8 alone.
[[nodiscard]] inline bool has_fused_experts(const BlockContext& x) {
  return x.strategy.runtime.fused_experts && x.strategy.precision == Precision::kFp8 &&
         scaling_recipe(x.strategy, x.cluster.device.architecture) == ScalingRecipe::kMxfp8 &&
         x.model.gated_mlp;
}
// y[tokens, n] = x[tokens, k] W, `count` of them.
LinearTimes append_linear(const BlockContext& x, std::string_view name, std::int64_t tokens,
                          std::int64_t n, std::int64_t k, bool bias, BlockOps& ops,
                          std::int64_t count = 1, const AdapterSite* site = nullptr);
// A share of the columns of a layer that is one product or several of one input.
struct Projection {
  std::string_view name;
  std::int64_t columns = 0;
};
// y[tokens, all columns] = x[tokens, k] W: one product `name`, or with runtime.split_projections
// each part by itself, whose gradients of the input are added up.
LinearTimes append_split_linear(const BlockContext& x, std::string_view name,
                                std::span<const Projection> parts, std::int64_t tokens,
                                std::int64_t k, bool bias, BlockOps& ops, const AdapterSite& site);
// The halves of a gated layer's first product, or its only part; `whole` is the name of both.
LinearTimes append_mlp_first(const BlockContext& x, std::string_view whole, std::int64_t tokens,
                             std::int64_t ffn, bool bias, BlockOps& ops);
void append_elementwise(const BlockContext& x, std::string_view name, double forward_bytes,
                        double forward_kernels, double backward_bytes, double backward_kernels,
                        BlockOps& ops, bool selective = false,
                        KernelKind kind = KernelKind::kOther);
void append_residual(const BlockContext& x, BlockOps& ops);
void append_activation(const BlockContext& x, double features, BlockOps& ops);

// Host time of one of PyTorch's operators in plain modules, in kernels of the framework.
[[nodiscard]] double plain_operator(const BlockContext& x);

// Whether selective recomputation repeats what belongs to a module: where the strategy lists
// modules if this is one of them, else as `unlisted` says.
[[nodiscard]] bool repeats(const BlockContext& x, RecomputeModule module, bool unlisted);
// Of listed modules: whether one repeats the norms that are modules of their own. Of streams that
// come back, what was read of them passes its norm again.
[[nodiscard]] bool repeats_norms(const BlockContext& x);
// Where a part of a block's operations begins.
struct PartBegin {
  std::size_t kernel = 0, comm = 0;
  int checkpoints = 0;
};
[[nodiscard]] PartBegin part_begin(const BlockOps& ops);
// Selective recomputation repeats the forward pass of all that was appended since.
void repeat_part(PartBegin begin, BlockOps& ops);

// Takes from a layer what runtime.recompute_early_stop does not repeat.
void stop_recompute_early(const BlockContext& x, BlockOps& ops);
// [F-HOST-5] A CUDA graph holds all that was appended since, if the strategy's hold this module.
void graph_part(const BlockContext& x, CudaGraphModule module, PartBegin begin, BlockOps& ops);
// The norm that a part begins with is inside of its first product's module, so that no list of
// modules names it alone (Transformer Engine's LayerNormLinear; Megatron-Core gpt_layer_specs.py:
// the experts' and latent attention's are apart).
[[nodiscard]] bool norm_is_inside(const BlockContext& x);
// A rotary embedding of so many elements of queries and keys.
void append_rotary(const BlockContext& x, double elements, BlockOps& ops);
// [F-ACT-MEM-2] The share of a layer's product of this name that recomputation by operation
// repeats; nothing where the strategy has another.
void repeat_product(const BlockContext& x, std::string_view name, double share, BlockOps& ops);
// [F-TP-3] Whether tensor-parallel collectives of the backward pass start before the products that
// they run beside; and whether those of overlap.tp_backward hide then.
[[nodiscard]] bool starts_before_products(const BlockContext& x);
[[nodiscard]] bool hides_tensor_backward(const BlockContext& x);
// Collectives of tensor parallelism around a column- and a row-parallel linear layer.
void append_tp_collectives(const BlockContext& x, const LinearTimes& column, const LinearTimes& row,
                           BlockOps& ops);
// One of them; nothing without tensor parallelism. It hides behind `window` at most.
void append_tp_collective(const BlockContext& x, CommDimension dimension, Pass pass, Collective op,
                          double bytes, double count, Seconds window, BlockOps& ops);

// One of context parallelism. It hides behind `window` at most.
void append_cp_collective(const BlockContext& x, Pass pass, Collective op, double bytes,
                          double count, Seconds window, BlockOps& ops);
// Triton kernels in a row that compute on what they load (fused_time()), `times` as much as they
// say.
void append_fused(const BlockContext& x, std::string_view name, Pass pass,
                  std::span<const FusedWork> kernels, double times, BlockOps& ops);

// [F-LORA-3] Bytes per element of an input that a linear layer keeps for its weight gradient: a
// frozen one keeps none, its adapter the tensor itself, or what dropout leaves of it and the mask.
[[nodiscard]] double kept(const BlockContext& x, LoraTargets adapters = {});
// The input that a column-parallel layer keeps: this rank's share of the sequence, or all of it
// where the gathered copy is saved.
[[nodiscard]] double kept_input(const BlockContext& x, LoraTargets adapters = {});
// What any adapter of attention's or an MLP's first layer is named by.
inline constexpr LoraTargets kQkvTargets{LoraTarget::kQkv, LoraTarget::kQ, LoraTarget::kK,
                                         LoraTarget::kV};
inline constexpr LoraTargets kFirstTargets{LoraTarget::kFc1, LoraTarget::kGate, LoraTarget::kUp};
[[nodiscard]] double hidden_mask(const BlockContext& x);
[[nodiscard]] double hidden_bytes_each(const BlockContext& x);
[[nodiscard]] double norm_bytes(const BlockContext& x, double elements);
[[nodiscard]] double activation_function_bytes(const BlockContext& x, double features);

// What selective recomputation beside fused attention drops of a feed-forward: the output of its
// norm, and the activation function's features.
[[nodiscard]] double repeated_features(const BlockContext& x, double features);

// Whether the feed-forward has a norm of its own.
[[nodiscard]] bool has_own_norm(const ModelSpec& m);
[[nodiscard]] bool has_mlp_bias(const ModelSpec& m);
// Matrices of a plain or gated MLP, and the biases of its first projection (and gate).
[[nodiscard]] std::int64_t mlp_matrices(const ModelSpec& m, std::int64_t ffn);
[[nodiscard]] std::int64_t mlp_first_bias(const ModelSpec& m, std::int64_t ffn);

// Parameters of an MLP of some width on every token, and of an attention's output bias and sinks.
void add_mlp(const ModelSpec& m, std::int64_t ffn, LayerParameters& p);
void add_output_bias(const ModelSpec& m, std::int64_t heads, LayerParameters& p);

}  // namespace meshplan
