#include "kernels/kernels.hpp"

#include "cost/support.hpp"
#include "model/flops.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

TEST_CASE("[F-SLOW-1] a step goes at the pace of the slowest of many devices") {
  DeviceSpec d = plain_device();
  CHECK(slowest_of(d, 4096) == 1);
  d.variability = 0.03;
  CHECK(slowest_of(d, 1) == 1);
  CHECK(slowest_of(d, 8) == 1);
  // sqrt(2 ln 8) = 2.0393, sqrt(2 ln 1024) = 3.7233.
  CHECK(slowest_of(d, 1024) == Approx(1 + 0.03 * (3.7233 - 2.0393)).epsilon(1e-5));
}

TEST_CASE("[F-GEMM-1] a large product runs at the sustained rate and a small one is slower") {
  const DeviceSpec d = plain_device();
  const GemmShape large{16384, 16384, 16384};
  const double ideal = gemm_flops(large).si() / (312e12 * 0.8);
  CHECK(gemm_time(d, Precision::kBf16, large).si() == Approx(ideal).epsilon(0.05));
  const GemmShape small{128, 128, 16384};
  CHECK(gemm_time(d, Precision::kBf16, small).si() > 3 * gemm_flops(small).si() / (312e12 * 0.8));
}

TEST_CASE("[F-GEMM-1] of the output's traffic the exposed share comes on top of the products") {
  DeviceSpec d = plain_device();
  const GemmShape plain{.m = 8192, .n = 8192, .k = 8192};
  GemmShape sum = plain;
  sum.output_bytes = sum.accumulate_bytes = 4;
  CHECK(gemm_time(d, Precision::kBf16, sum) == gemm_time(d, Precision::kBf16, plain));
  const Seconds hidden = gemm_time(d, Precision::kBf16, plain);
  d.gemm.output_exposed = 0.5;
  const double elements = 8192.0 * 8192, rate = 2e12 * 0.85;
  CHECK((gemm_time(d, Precision::kBf16, plain) - hidden).si() == Approx(0.5 * 2 * elements / rate));
  CHECK((gemm_time(d, Precision::kBf16, sum) - hidden).si() == Approx(0.5 * 8 * elements / rate));
}

TEST_CASE("[F-GEMM-1] a product never beats its memory traffic or its arithmetic") {
  const DeviceSpec d = plain_device();
  const auto m = GENERATE(1, 64, 1000, 4096);
  const auto n = GENERATE(64, 5000);
  const auto k = GENERATE(128, 8192);
  const GemmShape g{m, n, k};
  const double bytes = 2.0 * (m * k + k * n + m * n);
  const Seconds t = gemm_time(d, Precision::kBf16, g);
  CHECK(t.si() >= bytes / (2e12 * 0.85));
  CHECK(t.si() >= gemm_flops(g).si() / (312e12 * 0.8));
}

TEST_CASE("[F-GEMM-3] filling a tile takes as long in 8 bits as in 16") {
  DeviceSpec d = plain_device();
  d.peak[static_cast<std::size_t>(Precision::kFp8)] = FlopsPerSecond{624e12};
  d.gemm.sustained[static_cast<std::size_t>(Precision::kFp8)] = 0.6;
  d.kernel_overhead = Seconds{};
  // One wave of large tiles: what a product of no depth would take, from two depths.
  const auto filling = [&](Precision p) {
    const auto time = [&](std::int64_t k) { return gemm_time(d, p, {256 * 12, 128 * 9, k}).si(); };
    return 2 * time(8192) - time(16384);
  };
  CHECK(filling(Precision::kFp8) == Approx(filling(Precision::kBf16)));
  CHECK(filling(Precision::kBf16) > 0);
}

TEST_CASE("[F-ATT-1] fused attention takes five products backward for two forward") {
  const DeviceSpec d = plain_device();
  AttentionShape a{2, 32, 4096, 4096, 128, 128, 0.5};
  CHECK(attention_flops(a).si() == Approx(2.0 * 2 * 32 * 4096 * 4096 * 256 * 0.5));
  const double forward = (fused_attention_time(d, a, false) - d.kernel_overhead).si();
  const double backward = (fused_attention_time(d, a, true) - d.kernel_overhead * 3).si();
  CHECK(backward / forward == Approx(2.5 * 0.6 / 0.5).epsilon(1e-9));
}

TEST_CASE("a causal mask leaves half of the scores and a window fewer") {
  CHECK(causal_fraction(4096, 4096, 0) == Approx(0.5).epsilon(0.001));
  CHECK(causal_fraction(1, 4096, 0) == Approx(1.0));
  CHECK(causal_fraction(8192, 8192, 128) == Approx(128.0 / 8192).epsilon(0.02));
  CHECK(causal_fraction(4096, 4096, 4096) == causal_fraction(4096, 4096, 0));
}

TEST_CASE("[F-FLOP-1] a causal mask leaves half of the scores, and a window what it covers") {
  const ModelSpec m = plain_gpt(96, 12288, 96);
  constexpr std::int64_t kTokens = 2048;
  const double full = model_flops(m, kTokens, 1).si();
  const double causal = model_flops(m, kTokens, 1, AttentionCount::kCausal).si();
  // 3 x 2 x 2 L h s of scores and of their products with the values, (s + 1) / 2 of s of them left.
  const double scores = 12.0 * 96 * 12288 * kTokens;
  CHECK(full - causal == Approx(scores * (kTokens - 1) / (2.0 * kTokens)));
  CHECK(model_flops(m, 1, 1).si() == Approx(model_flops(m, 1, 1, AttentionCount::kCausal).si()));
}

TEST_CASE("[F-FLOP-1] model operations of GPT-3 are 6 N + 12 L h s per token") {
  // Narayanan et al. 2104.04473 eq. 3 without recomputation: 72 B s L h^2 (1 + s/6h + V/12Lh).
  const ModelSpec m = plain_gpt(96, 12288, 96);
  const double s = 2048, h = 12288, layers = 96, vocab = 51200;
  const double per_token = 72 * layers * h * h * (1 + s / (6 * h) + vocab / (12 * layers * h));
  CHECK(model_flops(m, 2048, 1).si() == Approx(per_token).epsilon(0.001));
}
