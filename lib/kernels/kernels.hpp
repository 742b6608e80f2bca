#pragma once
// Time of one kernel on one device: matrix products, fused attention, and everything that is
// bound by memory traffic.
#include <cstdint>
#include <optional>

#include "base/units.hpp"
#include "spec/device.hpp"

namespace meshplan {

// `count` products C[m,n] (+)= A[m,k] B[k,n] in one launch.
struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t count = 1;
  double output_bytes = 2;      // per element written
  double accumulate_bytes = 0;  // per element read besides (C += ...)
  bool aligned = true;          // feature dimensions are multiples of 16 bytes
  double rate = 1;              // over the device's: scales of operands, libraries, clocks
};

[[nodiscard]] Flops gemm_flops(const GemmShape& g);

// [F-SLOW-1] Every collective waits for the slowest of n devices, and devices of one kind differ:
// kernel times of a synchronous step are those of a typical node of 8 times
// 1 + sigma (sqrt(2 ln n) - sqrt(2 ln 8)), the expected largest of n normal deviates less that of 8
// (Cramer 1946, sec. 28.6, leading term), sigma = DeviceSpec::variability; 1 up to 8 devices.
[[nodiscard]] double slowest_of(const DeviceSpec& d, std::int64_t devices);

// [F-GEMM-1] Roofline over tiles and waves: the best tile of a small set and split of k, where
// tiles fill whole waves of multiprocessors and a tile's main loop ramps up over k_half:
//   t = waves * 2 tm tn (k + k_half) / (peak * sustained / SMs * e_tile)
//       + output_exposed * bytes of the output / bandwidth,
// at least all bytes / bandwidth, plus kernel_overhead. On H100 and H200 the output's traffic,
// eight bytes an element where fp32 sums are added to, explains what products lose at short k, and
// shapes that a fit never saw are predicted to 3.1 and 3.9 % (test/calibrate/data).
[[nodiscard]] Seconds gemm_time(const DeviceSpec& d, Precision p, const GemmShape& g);

struct AttentionShape {
  std::int64_t batch = 1;    // sequences
  std::int64_t heads = 0;    // local query heads
  std::int64_t queries = 0;  // tokens per sequence
  std::int64_t keys = 0;
  std::int64_t qk_dim = 0;
  std::int64_t v_dim = 0;
  double pair_fraction = 1.0;  // of queries x keys that is computed (causal: about a half)
  std::int64_t kv_heads = 0;   // local; 0: as many as query heads. Times do not depend on it.
  bool eight_bit = false;      // queries, keys, values and probabilities in fp8,
  bool block_scales = false;   // scaled by blocks of 32 elements (MXFP8) instead of tensors
};

// Multiply-adds counted twice: 2 * batch * heads * queries * keys * (qk_dim + v_dim) * fraction.
[[nodiscard]] Flops attention_flops(const AttentionShape& a);

// [F-ATT-1] Fused attention: flops over the device's fused rate, which falls with short sequences
// (seq_half), with head sizes below 128 (softmax work is per score, not per element, and weighs
// more where products are faster) and when few heads x blocks leave multiprocessors idle, or
// waiting for the block whose rows see most keys (the last one of a causal mask: twice the mean).
// The backward pass does 2.5 times the products (Dao, FlashAttention-2, 2307.08691, sec. 3.1). In 8
// bits it is not twice as fast, as the softmax is no faster [F-ATT-6].
[[nodiscard]] Seconds fused_attention_time(const DeviceSpec& d, const AttentionShape& a,
                                           bool backward,
                                           AttentionKernel kernel = AttentionKernel::kBest);

// [F-MEM-1] Memory-bound kernels: bytes over the sustained bandwidth plus one overhead per kernel.
[[nodiscard]] Seconds memory_time(const DeviceSpec& d, double bytes, double kernels);

// The same for a kernel of a kind that measurements tell apart.
[[nodiscard]] Seconds memory_time(const DeviceSpec& d, KernelKind kind, bool backward, double bytes,
                                  double kernels);

// A kernel that multiplies what it loads and keeps intermediate products on chip: the scans of
// layers with a state. `programs` are the thread blocks that can run at once, where a scan over the
// sequence leaves few; 0: enough.
struct FusedWork {
  double flops = 0, bytes = 0, kernels = 1, programs = 0;
};

// [F-SCAN-1] The slower of its products, at the rate of a Triton kernel for attention (the scans of
// mamba_ssm and flash-linear-attention are Triton programs of the same products; 0.69 of it, of
// that 0.55 backward and 0.6 on Blackwell), and of its traffic, plus one overhead per kernel:
//   max(flops / (16-bit peak * attention.forward * share * min(1, programs / multiprocessors)),
//       bytes / sustained bandwidth) + kernels * kernel_overhead
[[nodiscard]] Seconds fused_time(const DeviceSpec& d, const FusedWork& work, bool backward);

// How d.exact_kernels names a kernel; where it holds one, the functions above return its time.
[[nodiscard]] KernelKey exact_key(const GemmShape& g, Precision p);
[[nodiscard]] KernelKey exact_key(const AttentionShape& a, bool backward);
[[nodiscard]] KernelKey exact_key(KernelKind kind, bool backward, double bytes);

// Share of queries x keys that a causal mask, and a sliding window if window > 0, leave.
[[nodiscard]] double causal_fraction(std::int64_t queries, std::int64_t keys, std::int64_t window);

}  // namespace meshplan
