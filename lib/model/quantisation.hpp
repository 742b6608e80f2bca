#pragma once
// What operands of products in 8 and 4 bits are: their scales, and the kernels that make them of 16
// bits.
#include "spec/device.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

// [F-FP8-4] One layout of an operand, of 16-bit elements (Transformer Engine pytorch/csrc/
// quantizer.cpp and common/recipe, August 2026). A scale by earlier steps' largest elements is
// known before the cast; the tensor's own largest element is looked for first, by three kernels
// more (set to zero, find, scale). Scales of parts are made by the cast: fp32 of 128 elements, one
// byte of 32 (MXFP8), one of 16 beside the tensor's own (NVFP4, whose other layout is rotated
// before its largest element is looked for: 2509.25149 sec. 4).
struct Quantisation {
  double bytes = 2;    // of an element with its scales
  double read = 2;     // bytes an element that the kernels read
  double kernels = 0;  // of both layouts of one tensor; 0: products in 16 or 32 bits
  double layouts = 2;  // that products read: along rows and along columns, or one for both
  // Of a group of products: the kernels of one tensor do for all, and its tensors are made at once.
  bool shared_kernels = false, made_together = false;

  bool operator==(const Quantisation&) const = default;
};

[[nodiscard]] Quantisation quantisation(const Strategy& s, const DeviceSpec& d);

// Bytes of both layouts that the cast writes, or of one.
[[nodiscard]] inline double cast_bytes(const Quantisation& q, bool both) {
  return q.read + (both ? q.layouts : 1) * q.bytes;
}

// [F-FP8-7] Rate of products over that of products whose operands have one scale each. Measured by
// Transformer Engine (docs/examples/gemm_profiling, June 2026) on the twelve products of a layer of
// hidden size 4,096: on B300 7.161 ms with MXFP8's scales where one scale takes 6.812. On H200 the
// products with fp32 scales of 128 elements are timed with their casts alone, 22.882 ms; delayed
// scaling's casts move as many bytes and take 18.978 less 16.785, so that the products take 20.7.
// Blackwell runs them as MXFP8's.
[[nodiscard]] double scaled_product_rate(const Strategy& s, const DeviceSpec& d);

// [F-FP8-5] Bytes a weight of a product is gathered in, after the update or block by block
// (ZeRO-3): with runtime.fp8_param_gather in 8 or 4 bits as it is, but for MXFP8's, which are
// gathered in 16 bits and cast by every rank (Megatron-Core distributed/param_and_grad_buffer.py,
// reuse_grad_buf_for_mxfp8_param_ag; torchao/float8/fsdp_utils.py, fsdp_pre_all_gather).
[[nodiscard]] double gathered_weight_bytes(const Strategy& s, const DeviceSpec& d);

// Whether Transformer Engine's tensors that have a scale of the whole (NVFP4's too, above those of
// 16 elements) agree on it over the ranks that share the sequence: an all-reduce of 4 bytes for
// each tensor that is gathered (module/_common.py, set_quantizer_amax_reduction_group).
[[nodiscard]] bool shares_scales(const Strategy& s, const DeviceSpec& d);

}  // namespace meshplan
