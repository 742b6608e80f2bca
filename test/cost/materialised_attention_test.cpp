// Attention whose scores are written to memory: products, softmax and what is added to scores.
#include "cost/support.hpp"
#include "model/kinds.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

struct Bench {
  ModelSpec model = plain_gpt();
  ClusterSpec cluster = plain_cluster(8);
  Strategy strategy = plain_strategy(1, 1, 1);

  [[nodiscard]] BlockContext context() const {
    return {model, cluster, strategy, local_shape(model, strategy)};
  }
  [[nodiscard]] BlockOps ops() const {
    BlockOps all;
    append_mixer(context(), layer_spec(model, 0).mixer, all);
    return all;
  }
  [[nodiscard]] Seconds memory(double bytes, double kernels) const {
    return memory_time(cluster.device, bytes, kernels);
  }
};

}  // namespace

TEST_CASE(
    "[F-ATT-2] materialised attention computes all scores, two products forward and four back") {
  Bench b;
  const BlockOps ops = b.ops();
  const double product = 2.0 * 32 * 2048 * 2048 * 128;
  CHECK(sum(ops, "attention product", Pass::kForward).flops == 2 * product);
  CHECK(sum(ops, "attention product", Pass::kBackwardInput).flops == 4 * product);
  // Half of the scores, and of the diagonal, are read by the softmax; all are written.
  const double scores = 32.0 * 2048 * 2048;
  const double seen = causal_fraction(2048, 2048, 0);
  CHECK(seen == Approx(0.5 + 0.5 / 2048));
  CHECK(sum(ops, "softmax", Pass::kForward).time == b.memory((1 + seen) * 2 * scores, 1));
  CHECK(sum(ops, "softmax", Pass::kBackwardInput).time == b.memory((1 + 2 * seen) * 2 * scores, 1));
  // Of an encoder all are read.
  AttentionSpec encoder = std::get<AttentionSpec>(layer_spec(b.model, 0).mixer);
  encoder.bidirectional = true;
  BlockOps both;
  append_mixer(b.context(), encoder, both);
  CHECK(sum(both, "softmax", Pass::kForward).time == b.memory(4 * scores, 1));
  // Three heads on a rank are not a multiple of four: the fused kernel refuses them.
  b.model = plain_gpt(8, 3072, 24);
  b.strategy = plain_strategy(8, 1, 1);
  const BlockOps few = b.ops();
  CHECK(sum(few, "softmax", Pass::kForward).time == b.memory(28 * 3.0 * 2048 * 2048, 5));
  CHECK(sum(few, "softmax", Pass::kBackwardInput).time == b.memory(32 * 3.0 * 2048 * 2048, 5));
  // Nor does it take fp32 scores, which need no casts.
  b.strategy.precision = Precision::kFp32;
  b.model = plain_gpt();
  const BlockOps wide = b.ops();
  const double four = 4.0 * 2048 * 2048;
  CHECK(sum(wide, "softmax", Pass::kForward).time == b.memory(16 * four, 5));
  CHECK(sum(wide, "softmax", Pass::kBackwardInput).time == b.memory(20 * four, 5));
}

TEST_CASE("[F-ATT-2] biases of position are copied to where the first product adds to them") {
  Bench b;
  CHECK(sum(b.ops(), "position bias", Pass::kForward).time == Seconds{});
  CHECK(sum(b.ops(), "attention product", Pass::kForward).added == 0);
  b.model.position_embedding = PositionEmbedding::kAlibi;
  const BlockOps biased = b.ops();
  CHECK(sum(biased, "position bias", Pass::kForward).time == b.memory(2 * 32.0 * 2048 * 2048, 1));
  CHECK(sum(biased, "position bias", Pass::kBackwardInput).time == Seconds{});
  CHECK(sum(biased, "attention product", Pass::kForward).added == 2);
  CHECK(sum(biased, "attention product", Pass::kBackwardInput).added == 0);
}
