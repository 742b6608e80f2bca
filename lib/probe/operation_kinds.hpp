#pragma once
// The choices of operations, apart from their quantities: what device code includes.
#include "spec/kinds.hpp"

namespace meshplan {

// The three products of a linear layer y[m,n] = x[m,k] W[n,k]^T, row-major: which operands are read
// across their rows decides the kernel.
enum class GemmLayout {
  kForward,         // y = x W^T: both operands run along k
  kInputGradient,   // dx = dy W: the second operand runs along n
  kWeightGradient,  // dW += dy^T x: both run across k, into fp32 when it accumulates
};

enum class MemoryKernel {
  kRmsNorm,
  kRmsNormBackward,
  kGatedActivation,  // silu(a) * b
  kGatedActivationBackward,
  kRotary,
  kResidual,  // y = a + b
  kAdam,      // fp32 master weights and moments, bf16 copy
  kCast,      // fp32 -> 16 bit
  kFill,
};

enum class CopyDirection { kHostToDevice, kDeviceToHost, kDeviceToDevice, kBothWays };

MESHPLAN_NAMES(GemmLayout, {{GemmLayout::kForward, "forward"},
                            {GemmLayout::kInputGradient, "input-gradient"},
                            {GemmLayout::kWeightGradient, "weight-gradient"}});
MESHPLAN_NAMES(MemoryKernel, {{MemoryKernel::kRmsNorm, "rmsnorm"},
                              {MemoryKernel::kRmsNormBackward, "rmsnorm-backward"},
                              {MemoryKernel::kGatedActivation, "gated-activation"},
                              {MemoryKernel::kGatedActivationBackward, "gated-activation-backward"},
                              {MemoryKernel::kRotary, "rotary"},
                              {MemoryKernel::kResidual, "residual"},
                              {MemoryKernel::kAdam, "adam"},
                              {MemoryKernel::kCast, "cast"},
                              {MemoryKernel::kFill, "fill"}});
MESHPLAN_NAMES(CopyDirection, {{CopyDirection::kHostToDevice, "host-to-device"},
                               {CopyDirection::kDeviceToHost, "device-to-host"},
                               {CopyDirection::kDeviceToDevice, "device-to-device"},
                               {CopyDirection::kBothWays, "both-ways"}});

}  // namespace meshplan
