// Adapters beside frozen linear layers, and what frozen weights cost.
#include "model/adapters.hpp"

#include "model/parts.hpp"

namespace meshplan {
namespace {

// Collectives of an adapter around a layer that tensor parallelism splits (Megatron-Bridge
// peft/utils.py, ParallelLinearAdapter, which splits the first matrix of a column-parallel layer's
// adapter by its r columns and the second of a row-parallel one's by its n). Column-parallel: the r
// features are gathered; of the norm's gathered output, which the adapter reads, the gradient is
// reduce-scattered once more. Row-parallel: the r features are summed; the n columns are gathered
// and cut into shares of the sequence, or exchanged for them.
void append_adapter_collectives(const BlockContext& x, const AdapterSite& site, double tokens,
                                double n, double k, BlockOps& ops) {
  const Strategy& s = x.strategy;
  if (s.tp == 1 || site.of_experts) return;
  using enum Collective;
  const double e = x.shape.bytes, features = e * tokens * real(s.lora.rank);
  const auto add = [&](Pass pass, Collective op, double bytes) {
    append_tp_collective(x, CommDimension::kTp, pass, op, bytes, 1, {}, ops);
  };
  if (!site.row_parallel) {
    // What it reads it gathers itself where the layer's gathered input is not handed to it: to
    // keep a share alone, or as user buffers gather the layer's in pieces.
    const bool again = regathers_input(s, site.layer);
    if (again || (s.sequence_parallel && s.overlap.tp)) {
      add(Pass::kForward, kAllGather, e * tokens * k);
    }
    if (again) add(Pass::kBackwardInput, kAllGather, e * tokens * k);
    add(Pass::kForward, kAllGather, features);
    add(Pass::kBackwardInput, s.sequence_parallel ? kReduceScatter : kAllReduce, e * tokens * k);
    add(Pass::kBackwardInput, kReduceScatter, features);
    return;
  }
  add(Pass::kForward, kAllReduce, features);
  const double output = e * tokens * n;
  const bool exchanges = s.lora.all_to_all && s.sequence_parallel;
  add(Pass::kForward, exchanges ? kAllToAll : kAllGather, exchanges ? output / real(s.tp) : output);
  if (s.sequence_parallel) {
    add(Pass::kBackwardInput, exchanges ? kAllToAll : kAllGather,
        exchanges ? output / real(s.tp) : output);
  }
  add(Pass::kBackwardInput, kAllReduce, features);
}

// [F-LORA-2] An adapter of `columns` outputs: products of tokens x r x k and tokens x n x r in the
// training dtype whatever the layer's precision, with the gradients of both; dropout of its input
// (2e + 1 each way); its output scaled (2e each way, or by its product: kernels.fused_lora) and
// added to the layer's (3e); its input's gradient added to the layer's (3e) (Megatron-Bridge
// peft/lora_layers.py, LoRALinear).
void append_adapter(const BlockContext& x, const AdapterSite& site, std::int64_t tokens,
                    std::int64_t columns, std::int64_t k, BlockOps& ops) {
  const Strategy& s = x.strategy;
  const std::int64_t degree = site.of_experts ? s.etp : s.tp;
  const double e = x.shape.bytes, grad = size_of(s.grad_dtype), t = real(tokens);
  const Precision p = is_quantised(s.precision) ? Precision::kBf16 : s.precision;
  const auto product = [&](std::string_view name, std::int64_t n, std::int64_t inner) {
    const auto push = [&](Pass pass, const GemmShape& g) {
      ops.kernels.push_back(gemm_op(x, name, pass, g, p));
    };
    push(Pass::kForward, {tokens, n, inner, 1, e, 0});
    ops.kernels.back().weights = n * inner;
    ops.kernels.back().use = site.of_experts ? WeightUse::kExpertAdapter : WeightUse::kAdapter;
    push(Pass::kBackwardInput, {tokens, inner, n, 1, e, 0});
    push(Pass::kBackwardWeight, {n, inner, tokens, 1, grad, grad});
  };
  const std::int64_t r = s.lora.rank;
  if (s.lora.dropout > 0) {
    append_elementwise(x, "adapter dropout", (2 * e + 1) * t * real(k), 1,
                       (2 * e + 1) * t * real(k), 1, ops);
  }
  product("adapter in", site.row_parallel ? r : ceil_div(r, degree), k);
  const std::int64_t own = site.row_parallel ? ceil_div(columns, degree) : columns;
  product("adapter out", own, r);
  if (!s.runtime.fused_lora) {
    append_elementwise(x, "adapter scale", 2 * e * t * real(own), 1, 2 * e * t * real(own), 1, ops);
  }
  // The sequence's share where a row-parallel layer has scattered its output.
  const bool scattered = site.row_parallel && s.sequence_parallel && !site.of_experts;
  const double sum = t * real(columns) / (scattered ? real(s.tp) : 1);
  append_elementwise(x, "adapter sum", 3 * e * sum, 1, 3 * e * t * real(k), 1, ops, false,
                     KernelKind::kResidual);
  append_adapter_collectives(x, site, t, real(columns), real(k), ops);
}

}  // namespace

void append_adapters(const BlockContext& x, const AdapterSite& site, std::int64_t tokens,
                     std::int64_t n, std::int64_t k, BlockOps& ops) {
  if (!has_adapters(x.strategy)) return;
  const LoraTargets& targets = x.strategy.lora.targets;
  if (targets.contains(site.layer)) append_adapter(x, site, tokens, n, k, ops);
  for (const AdapterSite::Part& part : site.parts) {
    if (part.columns > 0 && targets.contains(part.target)) {
      append_adapter(x, site, tokens, part.columns, k, ops);
    }
  }
}

// [F-LORA-4] What a frozen weight costs besides its products. 4 and 8 bit weights that nothing
// multiplies as they are become 16 bit ones in each pass (bitsandbytes functional.py,
// dequantize_4bit; nn/modules.py): read, write 2 bytes. 8-bit floating point ones are transposed
// for the input gradient, no transposed copy being kept (Transformer Engine,
// keep_fp8_weight_transpose_cache): read and write one byte; Blackwell multiplies both layouts.
void append_frozen_weight(const BlockContext& x, double weights, double kernels, BlockOps& ops) {
  const FrozenDtype dtype = x.strategy.lora.frozen_dtype;
  if (dtype == FrozenDtype::kTraining) return;
  const Precision p = x.strategy.precision;
  const bool multiplied = (dtype == FrozenDtype::kFp8 && p == Precision::kFp8) ||
                          (dtype == FrozenDtype::kNvfp4 && p == Precision::kNvfp4);
  if (multiplied) {
    if (x.cluster.device.architecture != Architecture::kHopper) return;
    ops.kernels.push_back(
        memory_op(x, "fp8 transpose", Pass::kBackwardInput, 2 * weights, kernels));
    return;
  }
  const double bytes = weights * (frozen_bytes_each(dtype, x.shape.bytes) + x.shape.bytes);
  append_elementwise(x, "dequantisation", bytes, kernels, bytes, kernels, ops);
}

AdapterSite first_mlp_site(const ModelSpec& m, std::int64_t ffn) {
  AdapterSite site{.layer = LoraTarget::kFc1};
  site.parts[0] = {LoraTarget::kUp, ffn};
  if (m.gated_mlp) site.parts[1] = {LoraTarget::kGate, ffn};
  return site;
}

}  // namespace meshplan
