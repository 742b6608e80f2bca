// Attention whose scores go through a scaled tanh (Gemma 2).
#include "cost/block.hpp"
#include "frameworks/preset.hpp"
#include "search/cases.hpp"
#include "support/catch.hpp"

using namespace meshplan;

namespace {

struct Capped {
  ModelSpec model = search_test::small_model(4, 2048);
  ClusterSpec cluster = search_test::small_cluster(1, 8, Bytes{80 * kGiB});
  Strategy strategy = framework_preset(Framework::kMegatron);

  Capped() {
    model.dropout = 0;
    model.attn_logit_softcapping = true;
    strategy.dp = 8, strategy.global_batch = 8, strategy.seq_len = 2048;
    strategy.flash_attention = false;
  }

  [[nodiscard]] double bytes_moved(Pass pass) const {
    double bytes = 0;
    const std::vector<BlockOps> blocks = block_ops(model, cluster, strategy);
    for (const KernelOp& op : blocks[kFirstLayerBlock].kernels) {
      if (op.name == "score cap" && op.pass == pass) bytes += op.bytes;
    }
    return bytes;
  }
  [[nodiscard]] Bytes saved() const {
    return block_costs(model, cluster, strategy)[kFirstLayerBlock].saved.none;
  }
};

}  // namespace

TEST_CASE("[F-ATT-4] capped scores are divided, passed through a tanh and multiplied") {
  Capped c;
  const double scores =
      static_cast<double>(c.model.num_attention_heads) * 2048 * 2048;  // of one sequence
  CHECK(c.bytes_moved(Pass::kForward) == Approx(3 * (2 + 2) * scores));
  CHECK(c.bytes_moved(Pass::kBackwardInput) == Approx((4 + 6 + 4) * scores));
  const Bytes capped = c.saved();
  c.model.attn_logit_softcapping = false;
  CHECK(c.bytes_moved(Pass::kForward) == 0);
  CHECK((capped - c.saved()).si() == Approx(2 * scores));
  // Within fused attention they pass no memory.
  c.model.attn_logit_softcapping = true;
  c.strategy.flash_attention = true;
  CHECK(c.bytes_moved(Pass::kForward) == 0);
}
