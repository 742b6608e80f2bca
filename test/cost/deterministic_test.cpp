// What training costs that gives the same numbers in every run.
#include "cost/block.hpp"
#include "cost/step.hpp"
#include "cost/support.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

constexpr std::string_view kFill = "fill of uninitialised memory";

struct Fills {
  double bytes = 0, launches = 0;
};

Fills fills(const ModelSpec& m, const Strategy& s, Pass pass) {
  Fills sum;
  const auto blocks = block_ops(m, plain_cluster(num_gpus(s)), s);
  for (const KernelOp& op : blocks[kFirstLayerBlock].kernels) {
    if (op.name != kFill || op.pass != pass) continue;
    sum.bytes += op.bytes, sum.launches += op.launches;
  }
  return sum;
}

Strategy deterministic(std::int64_t tp) {
  Strategy s = plain_strategy(tp, 1, 1);
  s.flash_attention = true;
  s.sequence_parallel = tp > 1;
  s.runtime.deterministic_mode = true;
  return s;
}

}  // namespace

TEST_CASE("[F-DET-1] what is allocated for kernels of Transformer Engine is filled first") {
  const ModelSpec m = plain_gpt();
  const double h = 4096, t = 2048, e = 2;
  const Strategy s = deterministic(1);
  // Outputs of two norms (h each), queries, keys and values (3 h), attention (h), its projection
  // (h), and of the block's two products (4 h and h).
  CHECK(fills(m, s, Pass::kForward).bytes == Approx(e * t * (2 + 3 + 1 + 1 + 4 + 1) * h));
  // Two norms fill three tensors each, attention four, four products one; an allocation issues its
  // fill without a module around it.
  CHECK(fills(m, s, Pass::kForward).launches == Approx((2 * 3 + 4 + 4) / s.runtime.host_factor));
  // Gradients of the same, where those of queries, keys and values are 3 h.
  CHECK(fills(m, s, Pass::kBackwardInput).bytes == Approx(e * t * (2 + 1 + 3 + 1 + 1 + 4) * h));
  // A product that adds to the sum of gradients makes none.
  CHECK(fills(m, s, Pass::kBackwardWeight).bytes == 0);
  Strategy apart = s;
  apart.runtime.fused_grad_accumulation = false;
  CHECK(fills(m, apart, Pass::kBackwardWeight).bytes == Approx(e * 12 * h * h));
  Strategy plain = s;
  plain.runtime.deterministic_mode = false;
  CHECK(fills(m, plain, Pass::kForward).launches == 0);
  plain = s;  // PyTorch's products make their outputs themselves
  plain.runtime.transformer_engine = false;
  CHECK(fills(m, plain, Pass::kForward).bytes == Approx(e * t * (2 + 1) * h));
}

TEST_CASE("[F-DET-1] so is what collectives write into, and materialised softmax") {
  const ModelSpec m = plain_gpt();
  const double h = 4096, t = 2048, e = 2;
  Strategy s = deterministic(2);
  // Norms of half the tokens, products of half the width or, of their second one, whole; two
  // gathers of all tokens and two scatters to half of them.
  CHECK(fills(m, s, Pass::kForward).bytes ==
        Approx(e * t * h * (2 * 0.5 + 1.5 + 0.5 + 1 + 2 + 1 + 2 * 1 + 2 * 0.5)));
  s = deterministic(1);
  s.flash_attention = false;
  const double scores = 32.0 * t * t;
  CHECK(fills(m, s, Pass::kForward).bytes ==
        Approx(e * t * (2 + 3 + 1 + 4 + 1) * h + 2 * e * scores));
}

TEST_CASE("[F-DET-1] it takes time, and no memory") {
  const ModelSpec m = plain_gpt();
  const ClusterSpec c = plain_cluster(1);
  const Strategy s = deterministic(1);
  Strategy plain = s;
  plain.runtime.deterministic_mode = false;
  const PlanCost with = cost_of(m, c, complete(s, m, c));
  const PlanCost without = cost_of(m, c, complete(plain, m, c));
  CHECK(with.step_time > without.step_time);
  CHECK(with.memory() == without.memory());
}

TEST_CASE("[F-DET-2] gradients of queries that are added in order wait for those before") {
  const ModelSpec m = plain_gpt();
  ClusterSpec c = plain_cluster(1);
  Strategy s = plain_strategy(1, 1, 1);
  s.flash_attention = true;
  const auto attention = [&](Pass pass) {
    const auto blocks = block_ops(m, c, s);
    for (const KernelOp& op : blocks[kFirstLayerBlock].kernels) {
      if (op.attention && op.pass == pass) return op.time.si();
    }
    return 0.0;
  };
  for (const Architecture a : {Architecture::kAmpere, Architecture::kHopper}) {
    c.device.architecture = a;
    s.runtime.deterministic_attention = false;
    const double forward = attention(Pass::kForward), backward = attention(Pass::kBackwardInput);
    s.runtime.deterministic_attention = true;
    CHECK(attention(Pass::kForward) == forward);
    // 3.804 over 2.391 ms on an H100.
    const double slower = a == Architecture::kHopper ? 3.804 / 2.391 : 1;
    CHECK(attention(Pass::kBackwardInput) == Approx(backward * slower));
  }
}

TEST_CASE("[F-GDN-4] deterministic gated delta rules go row by row in fp32") {
  ModelSpec m = plain_gpt();
  const GatedDeltaNetSpec delta{
      .num_key_heads = 4, .num_value_heads = 8, .key_head_dim = 64, .value_head_dim = 32};
  m.layers = {{m.num_layers, LayerSpec{delta, DenseMlpSpec{m.ffn_hidden_size}}}};
  const ClusterSpec c = plain_cluster(1);
  const Strategy s = deterministic(1);
  Strategy kernels = s;
  kernels.runtime.deterministic_mode = false;
  const auto saved = [&](const Strategy& own) {
    return block_costs(m, c, own)[kFirstLayerBlock].saved.none.si();
  };
  // Of each token and head: keys of 64 elements seven times, values of 32 three times, six squares
  // of chunks of 64, 2 + 6 + ... of 63 rows, and its share of a state, in fp32; no inverse.
  const double rows = 63 * 64 * (2 * 64 + 2) / 6.0 / 64,
               each = 7 * 64 + 3 * 32 + 6 * 64 + rows + 32;
  CHECK(saved(s) - saved(kernels) == Approx(2048 * 8 * (4 * each - 2 * 64)));
  const auto blocks = block_ops(m, c, s);
  double forward = 0, backward = 0;
  for (const KernelOp& op : blocks[kFirstLayerBlock].kernels) {
    if (op.name != "delta rule") continue;
    (op.pass == Pass::kForward ? forward : backward) += op.launches;
  }
  const double plain = kPlainHostFactor / s.runtime.host_factor;
  CHECK(forward == Approx((6 * 63 + 18 * 2048.0 / 64 + 40) * (plain < 1 ? plain : 1)));
  CHECK(backward == Approx(2 * forward));
}
