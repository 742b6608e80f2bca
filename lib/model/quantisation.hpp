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
  double bytes = 2;       // of an element with its scales
  double read = 2;        // bytes an element that the kernels read
  double kernels = 0;     // of both layouts of one tensor; 0: products in 16 or 32 bits
  bool together = false;  // the tensors of a group of products are one call's, of a few kernels

  bool operator==(const Quantisation&) const = default;
};

[[nodiscard]] Quantisation quantisation(const Strategy& s, const DeviceSpec& d);

// Bytes of both layouts that the cast writes, or of one.
[[nodiscard]] inline double cast_bytes(const Quantisation& q, bool both) {
  return q.read + (both ? 2 : 1) * q.bytes;
}

// Whether Transformer Engine's tensors of one scale agree on it over the ranks that share the
// sequence (with_amax_reduction): an all-reduce of 4 bytes for each tensor that is gathered.
[[nodiscard]] bool shares_scales(const Strategy& s, const DeviceSpec& d);

}  // namespace meshplan
