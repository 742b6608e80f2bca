// Rotary embeddings without a fused kernel: what is worked out in every layer again.
#include "cost/block.hpp"
#include "frameworks/preset.hpp"
#include "search/cases.hpp"
#include "support/catch.hpp"

using namespace meshplan;

namespace {

Strategy unfused(Framework f) {
  Strategy s = framework_preset(f);
  s.dp = 8, s.global_batch = 8, s.seq_len = 4096;
  s.runtime.fused_rope = false;
  return s;
}

double launches(const ModelSpec& m, const Strategy& s, Pass pass) {
  const ClusterSpec c = search_test::small_cluster(1, 8, Bytes{80 * kGiB});
  double all = 0;
  const std::vector<BlockOps> blocks = block_ops(m, c, s);
  for (const KernelOp& op : blocks[kFirstLayerBlock].kernels) {
    if (op.name == "rotary angles" && op.pass == pass) all += op.launches;
  }
  return all;
}

}  // namespace

TEST_CASE("[F-ROPE-2] Megatron-Core works out angles in every layer, and positions in documents") {
  ModelSpec m = search_test::small_model(4, 2048);
  m.position_embedding = PositionEmbedding::kRope;
  Strategy s = unfused(Framework::kMegatron);
  CHECK(launches(m, s, Pass::kForward) == Approx(2.0 / 3 * 2 * 6));
  CHECK(launches(m, s, Pass::kBackwardInput) == 0);
  m.lengths = *parse_length_distribution("lognormal(400, 400)");
  CHECK(launches(m, s, Pass::kForward) == Approx(2.0 / 3 * 2 * (6 + 15)));
  s.packing = Packing::kPad;  // one document a row
  CHECK(launches(m, s, Pass::kForward) == Approx(2.0 / 3 * 2 * 6));
  s.runtime.fused_rope = true;
  CHECK(launches(m, s, Pass::kForward) == 0);
  m.lengths.reset();
  // Elsewhere the angles are the same for all layers and worked out once.
  CHECK(launches(m, unfused(Framework::kFsdp), Pass::kForward) == 0);
}
