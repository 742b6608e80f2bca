#include "kernels/kernels.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace meshplan {
namespace {

// Thread-block tiles that vendor libraries ship, and how much of the large tile's rate their main
// loop keeps: a smaller tile loads more operand bytes per multiply-add. (CUTLASS efficient-GEMM
// notes; the shares are those of its profiler's published tables, rounded to 0.05.)
struct Tile {
  std::int64_t m, n;
  double efficiency;
};
constexpr std::array kTiles{Tile{256, 128, 1.0}, Tile{128, 256, 1.0}, Tile{128, 128, 0.95},
                            Tile{128, 64, 0.80}, Tile{64, 128, 0.80}, Tile{64, 64, 0.60}};

std::optional<Seconds> exact_time(const DeviceSpec& d, const KernelKey& key) {
  const auto found = d.exact_kernels.find(key);
  if (found == d.exact_kernels.end()) return std::nullopt;
  return found->second;
}

}  // namespace

double slowest_of(const DeviceSpec& d, std::int64_t devices) {
  constexpr std::int64_t kNode = 8;
  const auto largest = [](std::int64_t n) {
    return std::sqrt(2 * std::log(static_cast<double>(n)));
  };
  if (devices <= kNode) return 1;
  return 1 + d.variability * (largest(devices) - largest(kNode));
}

KernelKey exact_key(const GemmShape& g, Precision p) {
  return {KernelKind::kGemm,
          false,
          p,
          {g.m, g.n, g.k, g.count, std::llround(g.output_bytes), std::llround(g.accumulate_bytes),
           g.aligned ? 1 : 0}};
}

KernelKey exact_key(const AttentionShape& a, bool backward) {
  constexpr double kParts = 1e9;  // of the fraction
  return {KernelKind::kAttention,
          backward,
          Precision::kBf16,
          {a.batch, a.heads, a.queries, a.keys, a.qk_dim, a.v_dim,
           std::llround(a.pair_fraction * kParts)}};
}

KernelKey exact_key(KernelKind kind, bool backward, double bytes) {
  return {kind, backward, Precision::kBf16, {std::llround(bytes)}};
}

Flops gemm_flops(const GemmShape& g) {
  return Flops{2.0 * static_cast<double>(g.m) * static_cast<double>(g.n) *
               static_cast<double>(g.k) * static_cast<double>(g.count)};
}

// The precision whose rate peak_rate() gives: only that one has a sustained share.
static Precision computed_in(const DeviceSpec& d, Precision p) {
  const auto is_known = [&](Precision q) { return d.peak[static_cast<std::size_t>(q)].si() > 0; };
  if (is_known(p)) return p;
  if (p == Precision::kTf32) return Precision::kFp32;
  if (is_quantised(p) && is_known(Precision::kBf16)) return Precision::kBf16;
  return Precision::kFp16;
}

// [F-GEMM-3] Filling a tile's pipeline and writing its results take a time of their own, whatever
// the multiply-adds between take: the inner dimension worth that time grows with their rate. A
// device's k_half is that of 16-bit products.
static double filling_depth(const DeviceSpec& d, Precision p) {
  const auto rate = [&](Precision q) {
    return peak_rate(d, q).si() * d.gemm.sustained[static_cast<std::size_t>(computed_in(d, q))];
  };
  if (!is_quantised(p)) return d.gemm.k_half;
  const double half = rate(Precision::kBf16);
  return half > 0 ? d.gemm.k_half * rate(p) / half : d.gemm.k_half;
}

// Of an element that a product reads; scales, which are few, left out.
static double operand_bytes(Precision p) {
  if (p == Precision::kNvfp4) return 0.5;
  return p == Precision::kFp8 ? 1 : storage_size(p);
}

Seconds gemm_time(const DeviceSpec& d, Precision p, const GemmShape& g) {
  if (g.m <= 0 || g.n <= 0 || g.k <= 0 || g.count <= 0) return Seconds{};
  if (!d.exact_kernels.empty()) {
    if (const auto exact = exact_time(d, exact_key(g, p))) return *exact / g.rate;
  }
  const auto m = static_cast<double>(g.m), n = static_cast<double>(g.n),
             k = static_cast<double>(g.k), count = static_cast<double>(g.count);
  const auto sms = static_cast<double>(d.multiprocessors);
  const double rate = peak_rate(d, p).si() *
                      d.gemm.sustained[static_cast<std::size_t>(computed_in(d, p))] /
                      sms;  // per SM
  // [F-GEMM-2] Operands whose rows do not start on 16 bytes miss the fast tensor-core kernels:
  // BLOOM's prequel runs with head sizes 108, 150 and 450 lose 20 % of the step against 104, 144
  // and 448, which makes the attention products (a fortieth of the work) 8 times slower.
  constexpr double kUnaligned = 1.0 / 8;
  const double alignment = g.aligned || p == Precision::kFp32 ? 1.0 : kUnaligned;
  const double memory_rate = d.memory_bandwidth.si() * d.memory_efficiency;
  const double output = count * (g.output_bytes + g.accumulate_bytes) * m * n;
  const double filling = filling_depth(d, p);
  double best = 1e300;
  for (const Tile& tile : kTiles) {
    const double tiles = static_cast<double>(ceil_div(g.m, tile.m) * ceil_div(g.n, tile.n)) * count;
    const double area = static_cast<double>(tile.m * tile.n);
    for (const double split : {1.0, 2.0, 4.0, 8.0}) {
      if (split > 1 && (tiles >= sms || k < 512 * split)) break;
      const double waves = std::ceil(tiles * split / sms);
      const double seconds =
          waves * 2 * area * (k / split + filling) / (rate * tile.efficiency * alignment * g.rate);
      // Partial sums are written and reduced once more.
      const double reduction = split > 1 ? 2 * split * m * n * count * 4 / memory_rate : 0;
      best = std::min(best, seconds + reduction);
    }
  }
  const double operand = operand_bytes(p);
  const double traffic = (count * operand * (m * k + k * n) + output) / memory_rate;
  best += d.gemm.output_exposed * output / memory_rate;
  return Seconds{std::max(best, traffic)} + d.kernel_overhead;
}

// Rate of an attention kernel over the best one of the architecture: FlashAttention-2 on Hopper
// reaches 350 of FlashAttention-3's 640 TFLOP/s forward and 340 of 550 backward (2407.08608 figs. 5
// and 6; Blackwell taken alike), elsewhere it is the best one, and faster than FlashAttention-1 by
// 1.7 to 3.0 times, than the Triton kernel of 2023 by 1.3 to 1.5 times forward and by 2 backward
// (2307.08691 secs. 4 and 4.1; the means of their logarithms). On AMD's devices Triton's kernels
// fall behind as on Hopper (Primus's runs of linear attention).
static double kernel_share(AttentionKernel kernel, Architecture architecture, bool backward) {
  const double behind = is_before_hopper(architecture) ? 1.0 : (backward ? 0.62 : 0.55);
  switch (kernel) {
    case AttentionKernel::kBest:
      return 1.0;
    case AttentionKernel::kFlash2:
      return is_amd(architecture) ? 1.0 : behind;
    case AttentionKernel::kFlash1:
      return behind / std::sqrt(1.7 * 3.0);
    case AttentionKernel::kTriton:
      return behind / (backward ? 2.0 : std::sqrt(1.3 * 1.5));
  }
  return 1.0;
}

// Exponentials and rescaling cost per score what so many elements of head size cost. A
// multiprocessor of Hopper multiplies twice as fast as one of Ampere and takes as many exponentials
// a cycle (2407.08608 sec. 3.1: 989 TFLOP/s beside 3.9 T exponentials/s; A100: 312 beside 2.4).
static double softmax_as_dims(Architecture architecture) {
  return is_before_hopper(architecture) ? 16 : 32;
}

Flops attention_flops(const AttentionShape& a) {
  return Flops{2.0 * static_cast<double>(a.batch * a.heads) * static_cast<double>(a.queries) *
               static_cast<double>(a.keys) * static_cast<double>(a.qk_dim + a.v_dim) *
               a.pair_fraction};
}

// How many times the pairs of the mean row the row with most of them has, under a causal mask: keys
// beyond the queries are seen by all rows; of a fraction below a half, rows see a window of
// 1 - sqrt(1 - 2 f) of the keys at most.
static double longest_over_mean(double fraction) {
  if (fraction <= 0) return 1;
  return fraction < 0.5 ? (1 - std::sqrt(1 - 2 * fraction)) / fraction : 1 / fraction;
}

// [F-ATT-6] Rate in 8 bits over that of 16. NVIDIA's table of cuDNN 9.22 on GB200 and GB300
// (cudnn-frontend, benchmark/sdpa_benchmark_training/results of April 2026: causal, 4,096 and 8,192
// tokens; the means of both devices): heads of 128, and latent attention's of 192 and 128 elements,
// with scales of tensors and of blocks. The softmax takes as long in 8 bits, so that backward
// little or nothing is gained at 128. On Hopper FlashAttention-3's abstract (2407.08608: 1.2
// PFLOP/s and 740 TFLOP/s forward), taken for the backward pass as well.
static double eight_bit_gain(const DeviceSpec& d, const AttentionShape& a, bool backward) {
  struct Gain {
    double forward, backward;
  };
  constexpr Gain kTensors{1.40, 1.12}, kLatentTensors{1.61, 1.69};
  constexpr Gain kBlocks{1.28, 0.94}, kLatentBlocks{1.47, 1.31};
  constexpr double kFlashAttention3 = 1200.0 / 740.0;
  if (d.architecture != Architecture::kBlackwell) return kFlashAttention3;
  const Gain& plain = a.block_scales ? kBlocks : kTensors;
  const Gain& latent = a.block_scales ? kLatentBlocks : kLatentTensors;
  // Between the two by the mean of both head sizes.
  const double dim = static_cast<double>(a.qk_dim + a.v_dim) / 2;
  const double share = std::clamp((dim - 128) / (160 - 128), 0.0, 1.0);
  return backward ? std::lerp(plain.backward, latent.backward, share)
                  : std::lerp(plain.forward, latent.forward, share);
}

Seconds fused_attention_time(const DeviceSpec& d, const AttentionShape& a, bool backward,
                             AttentionKernel kernel) {
  if (a.heads <= 0 || a.queries <= 0 || a.keys <= 0) return Seconds{};
  if (!d.exact_kernels.empty()) {
    if (const auto exact = exact_time(d, exact_key(a, backward))) return *exact;
  }
  const double share = (backward ? d.attention.backward : d.attention.forward) *
                       kernel_share(kernel, d.architecture, backward);
  constexpr double kReferenceDim = 128;
  const double softmax = softmax_as_dims(d.architecture);
  const double dim = static_cast<double>(a.qk_dim + a.v_dim) / 2;
  const double by_dim =
      std::min(1.0, dim / (dim + softmax) * (kReferenceDim + softmax) / kReferenceDim);
  // seq_half is of causal squares, whose mean row sees half of the keys; a row without a mask sees
  // as many as one of a causal square twice as long.
  const double keys = static_cast<double>(a.keys);
  const double length = keys * std::max(1.0, 2 * a.pair_fraction - 1 / keys);
  const double by_length = length / (length + d.attention.seq_half);
  // One thread block per head and rows of queries forward, of keys backward: 128, but forward two
  // tiles of 128 take turns on a multiprocessor of Blackwell. Few blocks leave multiprocessors
  // idle, and all wait for the block that sees most keys: SimuMax's sweep on B200, 4,096 causal
  // tokens of 4 to 128 heads (test/cost/attention_test.cpp).
  const std::int64_t rows = !backward && d.architecture == Architecture::kBlackwell ? 256 : 128;
  const double blocks = static_cast<double>(a.batch * a.heads) *
                        static_cast<double>(ceil_div(backward ? a.keys : a.queries, rows));
  const auto sms = static_cast<double>(d.multiprocessors);
  const double idle = std::min(1.0, blocks / sms / longest_over_mean(a.pair_fraction));
  const Precision p = d.peak[static_cast<std::size_t>(Precision::kBf16)].si() > 0
                          ? Precision::kBf16
                          : Precision::kFp16;
  const bool eight_bit = a.eight_bit && peak_rate(d, Precision::kFp8) > peak_rate(d, p);
  const double gain = eight_bit ? eight_bit_gain(d, a, backward) : 1.0;
  const double rate = peak_rate(d, p).si() * share * by_dim * by_length * idle * gain;
  const double work = attention_flops(a).si() * (backward ? 2.5 : 1.0);
  const double kernels = backward ? 3 : 1;  // backward: row sums, main, conversion of dQ
  return Seconds{work / rate} + kernels * d.kernel_overhead;
}

Seconds memory_time(const DeviceSpec& d, double bytes, double kernels) {
  return Seconds{bytes / (d.memory_bandwidth.si() * d.memory_efficiency)} +
         kernels * d.kernel_overhead;
}

Seconds memory_time(const DeviceSpec& d, KernelKind kind, bool backward, double bytes,
                    double kernels) {
  if (!d.exact_kernels.empty()) {
    if (const auto exact = exact_time(d, exact_key(kind, backward, bytes))) return *exact;
  }
  return memory_time(d, bytes, kernels);
}

// Of the rate of attention in Triton what its scans reach: the output of Mamba-2's chunks takes
// 0.81 ms for 32,768 tokens on H800 (106 TFLOP/s as its authors count, 119 as [F-SSM-2] does; 0.86
// of that from 65,536 tokens on; tile-ai/tilelang benchmark/mamba2, chart of the baselines).
constexpr double kScanShare = 0.4818;
// Of that: backward kernels, which hold twice the products' operands, and Blackwell, whose tensor
// memory such small products do not fill. Chosen on flash-linear-attention's kernels of gated delta
// rules, with one decay and with one per channel, and of linear attention with decays, on H100 and
// B200 (47 times of pytorch/helion examples/linear/BENCHMARKS.md; test/model/scan_times_test.cpp).
constexpr double kScanBackward = 0.55, kScanBlackwell = 0.6;

Seconds fused_time(const DeviceSpec& d, const FusedWork& work, bool backward) {
  const Precision p = d.peak[static_cast<std::size_t>(Precision::kBf16)].si() > 0
                          ? Precision::kBf16
                          : Precision::kFp16;
  const auto sms = static_cast<double>(d.multiprocessors);
  const double busy = work.programs > 0 ? std::min(1.0, work.programs / sms) : 1;
  const double share = kScanShare * (backward ? kScanBackward : 1) *
                       (d.architecture == Architecture::kBlackwell ? kScanBlackwell : 1);
  const double rate = peak_rate(d, p).si() * d.attention.forward * share *
                      kernel_share(AttentionKernel::kTriton, d.architecture, false) * busy;
  const Seconds traffic = memory_time(d, work.bytes, work.kernels);
  return std::max(Seconds{work.flops / rate} + work.kernels * d.kernel_overhead, traffic);
}

double causal_fraction(std::int64_t queries, std::int64_t keys, std::int64_t window) {
  const auto q = static_cast<double>(queries), k = static_cast<double>(keys);
  if (q <= 0 || k <= 0) return 0;
  // Row i of the last q rows of a k x k causal mask sees k - q + i + 1 keys.
  const double causal = q * (k - q) + q * (q + 1) / 2;
  if (window <= 0 || window >= keys) return causal / (q * k);
  const auto w = static_cast<double>(window);
  const double full_rows = std::max(0.0, std::min(q, k - w));  // rows that see a whole window
  const double partial_rows = q - full_rows;
  const double first = k - q + 1;  // keys of the first row
  const double windowed = full_rows * w + partial_rows * (std::min(first, w) + w) / 2;
  return std::min(causal, windowed) / (q * k);
}

}  // namespace meshplan
