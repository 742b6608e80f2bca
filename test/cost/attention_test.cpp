// Kernels of attention, and what context parallelism makes of one over the whole sequence.
#include <array>
#include <cmath>
#include <map>
#include <string>

#include "cost/llama.hpp"
#include "cost/step.hpp"
#include "kernels/kernels.hpp"
#include "model/parts.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

Strategy context(std::int64_t cp, CpKind kind) {
  Strategy s = modern_strategy(1, 1, 1);
  s.cp = cp;
  s.cp_kind = kind;
  s.seq_len = 16384;
  return s;
}

std::vector<KernelOp> attentions(const ModelSpec& m, const Strategy& s, Pass pass) {
  const ClusterSpec c = plain_cluster(8);
  const BlockOps ops = block_ops(m, c, complete(s, m, c))[kFirstLayerBlock];
  std::vector<KernelOp> found;
  for (const KernelOp& op : ops.kernels) {
    if (op.attention && op.pass == pass) found.push_back(op);
  }
  return found;
}

double pairs(const std::vector<KernelOp>& ops) {
  double sum = 0;
  for (const KernelOp& op : ops) {
    const AttentionShape& a = *op.attention;
    sum +=
        op.calls * static_cast<double>(a.queries) * static_cast<double>(a.keys) * a.pair_fraction;
  }
  return sum;
}

}  // namespace

TEST_CASE("[F-ATT-1] how far the kernels of 2023 are behind FlashAttention-2 on Ampere") {
  const DeviceSpec d = plain_device();
  const AttentionShape a{1, 32, 4096, 4096, 128, 128, 0.5};
  const auto behind = [&](AttentionKernel kernel, bool backward) {
    const Seconds overhead = d.kernel_overhead * (backward ? 3 : 1);
    const Seconds flash2 = fused_attention_time(d, a, backward, AttentionKernel::kFlash2);
    CHECK(flash2 == fused_attention_time(d, a, backward));
    return (fused_attention_time(d, a, backward, kernel) - overhead) / (flash2 - overhead);
  };
  for (const bool backward : {false, true})
    CHECK(behind(AttentionKernel::kFlash1, backward) == Approx(std::sqrt(1.7 * 3.0)));
  CHECK(behind(AttentionKernel::kTriton, false) == Approx(std::sqrt(1.3 * 1.5)));
  CHECK(behind(AttentionKernel::kTriton, true) == Approx(2));
}

TEST_CASE("[F-ATT-1] small heads lose less where exponentials keep up with the products") {
  DeviceSpec d = plain_device();
  d.kernel_overhead = Seconds{};
  // As many products, in heads of half the size.
  const auto slower = [&](Architecture architecture) {
    d.architecture = architecture;
    return fused_attention_time(d, {1, 64, 4096, 4096, 64, 64, 0.5}, false) /
           fused_attention_time(d, {1, 32, 4096, 4096, 128, 128, 0.5}, false);
  };
  CHECK(slower(Architecture::kAmpere) == Approx((64.0 + 16) / 64 / ((128.0 + 16) / 128)));
  CHECK(slower(Architecture::kHopper) == Approx((64.0 + 32) / 64 / ((128.0 + 32) / 128)));
}

TEST_CASE("[F-ATT-1] FlashAttention-2 is not the best kernel on Hopper, but on AMD's devices") {
  DeviceSpec d = plain_device();
  const AttentionShape a{1, 32, 4096, 4096, 128, 128, 0.5};
  const auto flash2_over_best = [&](Architecture architecture) {
    d.architecture = architecture;
    const Seconds flash2 = fused_attention_time(d, a, false, AttentionKernel::kFlash2);
    const Seconds best = fused_attention_time(d, a, false, AttentionKernel::kBest);
    return (flash2 - d.kernel_overhead) / (best - d.kernel_overhead);
  };
  CHECK(flash2_over_best(Architecture::kHopper) == Approx(640.0 / 350).epsilon(0.01));
  CHECK(flash2_over_best(Architecture::kAda) == Approx(1));
  CHECK(flash2_over_best(Architecture::kCdna3) == Approx(1));
}

TEST_CASE("[F-CP-2][F-CP-3] every rank has its share of the causal mask's pairs") {
  const ModelSpec m = llama_like(4);
  const std::int64_t cp = GENERATE(2, 4, 8);
  const double all = 16384.0 * 16385 / 2;
  for (const CpKind kind : {CpKind::kRing, CpKind::kAllGather}) {
    for (const Pass pass : {Pass::kForward, Pass::kBackwardInput}) {
      CHECK(pairs(attentions(m, context(cp, kind), pass)) ==
            Approx(all / static_cast<double>(cp)).epsilon(2e-3));
    }
  }
}

TEST_CASE("[F-CP-2] a ring has one masked step, and whole halves of the others") {
  const auto ops = attentions(llama_like(4), context(4, CpKind::kRing), Pass::kForward);
  REQUIRE(ops.size() == 3);
  const AttentionShape &own = *ops[0].attention, &keys = *ops[1].attention,
                       &queries = *ops[2].attention;
  CHECK(ops[0].calls == 1);
  CHECK(own.queries == 4096);
  CHECK(own.keys == 4096);
  CHECK(own.pair_fraction == causal_fraction(4096, 4096, 0));
  CHECK(ops[1].calls == 1.5);  // three other ranks, of which half come before on the average
  CHECK(keys.queries == 4096);
  CHECK(keys.keys == 2048);
  CHECK(keys.pair_fraction == 1);
  CHECK(ops[2].calls == 1.5);
  CHECK(queries.queries == 2048);
  CHECK(queries.keys == 4096);
  CHECK(queries.pair_fraction == 1);
}

TEST_CASE("[F-CP-3] with gathered keys the first rank has the first and the last chunk") {
  const auto ops = attentions(llama_like(4), context(4, CpKind::kAllGather), Pass::kForward);
  REQUIRE(ops.size() == 2);
  const AttentionShape &first = *ops[0].attention, &last = *ops[1].attention;
  CHECK(first.queries == 2048);
  CHECK(first.keys == 2048);
  CHECK(last.queries == 2048);
  CHECK(last.keys == 16384);
  // All of the earlier seven chunks, and the lower half of its own.
  CHECK(last.pair_fraction == Approx(7.5 / 8).epsilon(1e-3));
}

TEST_CASE("attention over heads of all ranks stays one masked square") {
  const auto ops = attentions(llama_like(4), context(4, CpKind::kUlysses), Pass::kForward);
  REQUIRE(ops.size() == 1);
  CHECK(ops[0].attention->queries == 16384);
  CHECK(ops[0].attention->heads == 8);
}

// TFLOP/s of cuDNN 9.22, two causal sequences of 8,192 tokens: 64 heads of 128, and 128 heads of
// 192 and 128 (NVIDIA/cudnn-frontend benchmark/sdpa_benchmark_training/results, llama3.1 and dsv3).
TEST_CASE("[F-ATT-6] what 8 bits gain depends on the scales, the head size and the pass") {
  DeviceSpec d = plain_device();
  d.architecture = Architecture::kBlackwell;
  d.peak[static_cast<std::size_t>(Precision::kBf16)] = FlopsPerSecond{2500e12};
  d.peak[static_cast<std::size_t>(Precision::kFp8)] = FlopsPerSecond{5000e12};
  d.kernel_overhead = Seconds{};
  struct Row {
    bool latent, backward;
    std::array<double, 3> gb200, gb300;  // 16 bits, 8 bits with tensors' scales, MXFP8
  };
  const auto shape = [&](bool latent) {
    AttentionShape a{2, latent ? 128 : 64, 8192, 8192, latent ? 192 : 128, 128, 0};
    a.pair_fraction = causal_fraction(a.queries, a.keys, 0);
    return a;
  };
  for (const Row& row : {Row{false, false, {1574, 2047, 1902}, {1856, 2897, 2570}},
                         Row{false, true, {1332, 1454, 1287}, {1435, 1781, 1404}},
                         Row{true, false, {1585, 2397, 2219}, {1825, 3128, 2829}},
                         Row{true, true, {1193, 1959, 1494}, {1291, 2310, 1780}}}) {
    AttentionShape a = shape(row.latent);
    const Seconds half = fused_attention_time(d, a, row.backward);
    a.eight_bit = true;
    for (const std::size_t kind : {1, 2}) {
      a.block_scales = kind == 2;
      const double measured =
          std::sqrt(row.gb200[kind] / row.gb200[0] * row.gb300[kind] / row.gb300[0]);
      CAPTURE(row.latent, row.backward, kind);
      CHECK(half / fused_attention_time(d, a, row.backward) == Approx(measured).epsilon(0.06));
    }
  }
  d.architecture = Architecture::kHopper;
  AttentionShape a = shape(false);
  const Seconds half = fused_attention_time(d, a, false);
  a.eight_bit = true;
  CHECK(half / fused_attention_time(d, a, false) == Approx(1200.0 / 740));
}

// Measured on B200, 4,096 causal tokens, heads of 128 (SimuMax 1.2, configs/system/
// b200_bf16_ceperm.json, as shares of 2,250 TFLOP/s of which a causal mask leaves half).
TEST_CASE("[F-ATT-1] few heads leave multiprocessors idle, and wait for the longest rows") {
  DeviceSpec d = plain_device();
  d.architecture = Architecture::kBlackwell;
  d.multiprocessors = 148;
  d.peak[static_cast<std::size_t>(Precision::kBf16)] = FlopsPerSecond{2250e12};
  d.attention = {.forward = 0.6, .backward = 0.48, .seq_half = 1200};
  d.kernel_overhead = Seconds{};
  struct Row {
    std::int64_t heads;
    double forward, backward;
  };
  double forward_error = 0, backward_error = 0;
  for (const Row& row : {Row{4, 0.167, 0.346}, Row{8, 0.317, 0.633}, Row{16, 0.582, 0.742},
                         Row{32, 0.722, 0.787}, Row{64, 0.872, 0.729}, Row{128, 0.997, 0.832}}) {
    const AttentionShape a{1, row.heads, 4096, 4096, 128, 128, causal_fraction(4096, 4096, 0)};
    const auto share = [&](bool backward) {
      return attention_flops(a).si() * (backward ? 2.5 : 1.0) /
             fused_attention_time(d, a, backward).si() / 2250e12;
    };
    CAPTURE(row.heads, share(false), share(true));
    CHECK(share(false) / (row.forward / 2) == Approx(1).epsilon(0.4));
    CHECK(share(true) / (row.backward / 2) == Approx(1).epsilon(0.12));
    forward_error += std::abs(share(false) / (row.forward / 2) - 1) / 6;
    backward_error += std::abs(share(true) / (row.backward / 2) - 1) / 6;
  }
  CHECK(forward_error < 0.25);
  CHECK(backward_error < 0.07);
  // Rows that all see as much wait for nobody: half as many blocks as multiprocessors, twice the
  // time of enough of them.
  const AttentionShape full{1, 4, 4736, 4096, 128, 128, 1.0};  // 4 x 18.5 blocks of 256
  AttentionShape enough = full;
  enough.heads = 8;
  const double one = fused_attention_time(d, full, false).si();
  CHECK(fused_attention_time(d, enough, false).si() / one == Approx(1).epsilon(0.05));
}
