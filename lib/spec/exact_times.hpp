#pragma once
// Times of single operations that were measured at the very sizes at which a plan runs them. Where
// they are present they stand in place of every formula and curve. Validation fills them in; no
// file holds them.
#include <array>
#include <compare>
#include <cstdint>
#include <map>

#include "base/units.hpp"
#include "spec/kinds.hpp"

namespace meshplan {

// What a kernel does, as far as a measurement must tell kernels apart. kOther: nothing that
// micro-benchmarks repeat.
enum class KernelKind {
  kGemm,
  kAttention,
  kNorm,
  kGatedActivation,
  kRotary,
  kResidual,
  kOptimizer,
  kOther
};

struct KernelKey {
  KernelKind kind = KernelKind::kOther;
  bool backward = false;
  Precision precision = Precision::kBf16;
  std::array<std::int64_t, 7>
      sizes{};  // of the shape, in the order of its fields; else bytes moved
  friend auto operator<=>(const KernelKey&, const KernelKey&) = default;
};

// The group by its shape on the cluster: size, stride and the outermost level that it crosses.
struct CollectiveKey {
  Collective operation = Collective::kAllReduce;
  Bytes bytes;
  std::int64_t size = 1;
  std::int64_t stride = 1;
  std::int64_t level = 0;
  bool bidirectional = false;
  friend auto operator<=>(const CollectiveKey&, const CollectiveKey&) = default;
};

using ExactKernels = std::map<KernelKey, Seconds>;
using ExactCollectives = std::map<CollectiveKey, Seconds>;

MESHPLAN_NAMES(KernelKind, {{KernelKind::kGemm, "gemm"},
                            {KernelKind::kAttention, "attention"},
                            {KernelKind::kNorm, "norm"},
                            {KernelKind::kGatedActivation, "gated-activation"},
                            {KernelKind::kRotary, "rotary"},
                            {KernelKind::kResidual, "residual"},
                            {KernelKind::kOptimizer, "optimizer"},
                            {KernelKind::kOther, "other"}});

}  // namespace meshplan
