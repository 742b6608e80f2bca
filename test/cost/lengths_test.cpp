// What documents of uneven length do to the cost of a step.
#include "spec/lengths.hpp"

#include "cost/block.hpp"
#include "cost/step.hpp"
#include "frameworks/preset.hpp"
#include "model/flops.hpp"
#include "model/packing.hpp"
#include "model/uneven.hpp"
#include "search/cases.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

ModelSpec with_lengths(const std::string& text) {
  ModelSpec m = small_model(8, 2048);
  m.max_seq_length = 16'384;
  if (!text.empty()) {
    Result<LengthSpec> lengths = parse_length_distribution(text);
    REQUIRE(lengths);
    m.lengths = *lengths;
  }
  return m;
}

ClusterSpec cluster() { return small_cluster(1, 8, Bytes{80 * kGiB}); }

Strategy strategy(Packing packing = Packing::kPack) {
  Strategy s = framework_preset(Framework::kMegatron);
  s.dp = 8, s.global_batch = 64, s.seq_len = 8192, s.packing = packing;
  return s;
}

PlanCost cost(const ModelSpec& m, const Strategy& s) {
  const ClusterSpec c = cluster();
  return cost_of(m, c, complete(s, m, c));
}

Seconds attention(const ModelSpec& m, const Strategy& s) {
  const BlockCosts blocks = block_costs(m, cluster(), s);
  return blocks[kFirstLayerBlock].attention_forward + blocks[kFirstLayerBlock].attention_backward;
}

}  // namespace

TEST_CASE("[F-LEN-6] documents that fill every row cost what full sequences cost") {
  const PlanCost full = cost(with_lengths(""), strategy());
  for (const auto& choice : NameTable<Packing>::rows) {
    const PlanCost plan = cost(with_lengths("fixed(8192)"), strategy(choice.value));
    CHECK(plan.time == full.time);
    CHECK(plan.stages == full.stages);
    CHECK(plan.model_flops == full.model_flops);
    CHECK(plan.tokens_per_step == full.tokens_per_step);
  }
}

TEST_CASE("[F-LEN-6] attention within documents has the pairs of the documents") {
  // Four documents of 2,048 in a row of 8,192: a quarter of the pairs, more or less by what a
  // causal mask's diagonal adds.
  const ModelSpec m = with_lengths("fixed(2048)"), full = with_lengths("");
  const auto flops = [&](const ModelSpec& model, const Strategy& s) {
    double sum = 0;
    const std::vector<BlockOps> blocks = block_ops(model, cluster(), s);
    for (const KernelOp& op : blocks[kFirstLayerBlock].kernels) {
      if (op.kind == KernelKind::kAttention) sum += op.flops;
    }
    return sum;
  };
  CHECK(flops(m, strategy()) / flops(full, strategy()) == Approx(0.25).epsilon(1e-3));
  CHECK(attention(m, strategy()) < attention(full, strategy()) * 0.5);
  // Padded rows compute all of it; unfused scores are masked, not left out.
  CHECK(attention(m, strategy(Packing::kPad)) == attention(full, strategy()));
  // Context ranks share it.
  for (const CpKind kind : {CpKind::kRing, CpKind::kAllGather, CpKind::kUlysses}) {
    Strategy s = strategy();
    s.cp = 2, s.dp = 4, s.cp_kind = kind;
    INFO(name_of(kind));
    CHECK(flops(m, s) / flops(full, s) == Approx(0.25).epsilon(0.01));
  }
}

TEST_CASE("[F-LEN-6] a row's documents need not be a whole number of their mean") {
  const ModelSpec m = with_lengths("lognormal(900, 1200)");
  const RowStatistics row = row_statistics(*m.lengths, Packing::kPack, 8192, 1);
  double pairs = 0;
  const std::vector<BlockOps> blocks = block_ops(m, cluster(), strategy());
  for (const KernelOp& op : blocks[kFirstLayerBlock].kernels) {
    if (op.kind != KernelKind::kAttention || op.pass != Pass::kForward) continue;
    pairs += op.calls * static_cast<double>(op.attention->batch) * op.attention->pair_fraction *
             static_cast<double>(op.attention->queries) * static_cast<double>(op.attention->keys);
  }
  CHECK(pairs == Approx((row.squares + row.computed) / 2).epsilon(0.002));
}

TEST_CASE("tokens and utilisation count documents, not padding") {
  const ModelSpec m = with_lengths("fixed(2048)");
  const PlanCost padded = cost(m, strategy(Packing::kPad)), packed = cost(m, strategy());
  CHECK(padded.tokens_per_step == Approx(64.0 * 2048));
  CHECK(packed.tokens_per_step == Approx(64.0 * 8192));
  CHECK(padded.step_time > packed.step_time);
  CHECK(padded.mfu < packed.mfu / 3);
  CHECK(packed.model_flops == model_flops(m, 2048, packed.tokens_per_step, AttentionCount::kFull));
}

TEST_CASE("[F-LEN-7] ranks wait for the one with the longest documents") {
  const ModelSpec m = with_lengths("lognormal(900, 1200)");
  const PlanCost packed = cost(m, strategy()), balanced = cost(m, strategy(Packing::kBalanced));
  CHECK(packed.time.uneven > Seconds{});
  CHECK(balanced.time.uneven < packed.time.uneven * 0.5);
  CHECK(packed.step_time == total(packed.time));
  // All layers' attention of eight microbatches, times what the heaviest rank has more of.
  const BlockCosts blocks = block_costs(m, cluster(), strategy());
  const BlockCost& layer = blocks[kFirstLayerBlock];
  const Unevenness u = unevenness(m, strategy());
  CHECK(u.tokens.mean == 1);
  const Seconds work = (layer.attention_forward + layer.attention_backward) * (8.0 * 8);
  CHECK(packed.time.uneven.si() == Approx((work * (u.squares.mean - 1)).si()));
  // Where weights are gathered for every microbatch they wait each time.
  Strategy sharded = strategy();
  sharded.zero = 3;
  CHECK(unevenness(m, sharded).squares.mean > u.squares.mean);
  CHECK(cost(m, strategy(Packing::kPad)).time.uneven == Seconds{});
  Strategy alone = strategy();
  alone.dp = 1, alone.cp = 8;
  CHECK(cost(m, alone).time.uneven.si() == Approx(0).margin(1e-12));
}

TEST_CASE("rows padded to their microbatch take the mean's time and the longest one's memory") {
  const ModelSpec m = with_lengths("zipf(1, 8192)"), full = with_lengths("");
  const PlanCost none = cost(m, strategy(Packing::kNone)), whole = cost(full, strategy());
  CHECK(none.memory().activations == whole.memory().activations);
  CHECK(none.memory().peak == whole.memory().peak);
  CHECK(none.time.compute < whole.time.compute * 0.3);
  CHECK(none.time.uneven > Seconds{});
  // Documents no longer than 1,000 tokens never fill more.
  const ModelSpec brief = with_lengths("zipf(1, 1000)");
  Strategy s = strategy();
  s.seq_len = 1000;
  CHECK(cost(brief, strategy(Packing::kNone)).memory().activations ==
        cost(full, s).memory().activations);
  // More documents in a microbatch are padded further.
  Strategy wide = strategy(Packing::kNone);
  wide.micro_batch = 4;
  CHECK(row_statistics(*m.lengths, Packing::kNone, 8192, 4).padding() > 0.3);
  CHECK(cost(m, wide).time.compute > none.time.compute);
}

TEST_CASE("documents that cannot be are refused, and what has no effect is named") {
  ModelSpec m = with_lengths("fixed(10000)");
  m.max_seq_length = 4096;
  const ClusterSpec c = cluster();
  CHECK_FALSE(evaluate(m, c, strategy()).feasible());
  Strategy s = strategy();
  s.seq_len = 4096;
  CHECK(evaluate(m, c, s).feasible());
  const Verdict idle = evaluate(with_lengths(""), c, strategy(Packing::kPad));
  REQUIRE(idle.feasible());
  REQUIRE_FALSE(idle.cost().warnings.empty());
  CHECK(idle.cost().warnings.front().find("'packing' has no effect") == 0);
}

TEST_CASE("documents of more tokens are cut off or left out") {
  const LengthSpec three{"three", {{100, 2}, {200, 3}, {400, 5}}};
  CHECK(cut_at(three, 200).bins == std::vector<LengthBin>{{100, 2}, {200, 8}});
  CHECK(dropped_above(three, 200).bins == std::vector<LengthBin>{{100, 2}, {200, 3}});
  CHECK(dropped_above(three, 399).bins == std::vector<LengthBin>{{100, 2}, {200, 3}});
  CHECK(dropped_above(three, 50).bins == std::vector<LengthBin>{{100, 2}});
}

TEST_CASE("[F-MEM-15] segments of shorter microbatches are kept") {
  const auto growth = [](const std::string& text, Packing packing, std::int64_t rows = 1) {
    const Result<LengthSpec> lengths = parse_length_distribution(text);
    REQUIRE(lengths);
    return record_growth(*lengths, packing, 8192, rows);
  };
  // Rows of one length have one record. Of two lengths the shorter comes first in half of all runs.
  CHECK(growth("fixed(2048)", Packing::kNone) == 1);
  CHECK(growth("lognormal(3234, 2547)", Packing::kPad) == 1);
  CHECK(growth("lognormal(3234, 2547)", Packing::kPack) == 1);
  const LengthSpec two{"two", {{1000, 1}, {4000, 1}}};
  CHECK(record_growth(two, Packing::kNone, 8192, 1) == Approx((0.5 * 1000 + 4000) / 4000));
  // Of the longest of two documents, three quarters are long.
  CHECK(record_growth(two, Packing::kNone, 8192, 2) == Approx((0.25 * 1000 + 4000) / 4000));
  // Against 3,000 series that were drawn until one reached the 8,192 tokens of the cut: 2.696.
  CHECK(growth("lognormal(3234, 2547)", Packing::kNone) == Approx(2.696).epsilon(0.015));

  const ModelSpec m = with_lengths("lognormal(3234, 2547)");
  const auto cached = [&](const Strategy& s) { return cost(m, s).stages[0].cached; };
  const MemoryBreakdown none = cost(m, strategy(Packing::kNone)).memory();
  const double kept = cached(strategy(Packing::kNone)).si();
  CHECK(kept > 0);
  const ModelSpec wide = with_lengths("lognormal(6000, 9000)");
  const double wide_growth = growth("lognormal(6000, 9000)", Packing::kNone);
  CHECK(cost(wide, strategy(Packing::kNone)).stages[0].cached.si() / kept ==
        Approx((wide_growth - 1) / (growth("lognormal(3234, 2547)", Packing::kNone) - 1))
            .epsilon(1e-6));
  // Of the output layer and its loss: 12 bytes a logit of 8,192 tokens [F-LOSS-2], and its input.
  const double each = kept / 0.75 / (growth("lognormal(3234, 2547)", Packing::kNone) - 1);
  const double logits = 8192.0 * static_cast<double>(m.vocab_size);
  CHECK(each / logits > 12);
  CHECK(each / logits < 13);
  CHECK(none.peak == cost(m, strategy(Packing::kPad)).memory().peak);
  CHECK(cached(strategy(Packing::kPad)) == Bytes{0});
  Strategy expandable = strategy(Packing::kNone);
  expandable.runtime.expandable_segments = true;
  CHECK(cached(expandable) == Bytes{0});
  // No more than the device has left.
  Strategy full = strategy(Packing::kNone);
  full.micro_batch = 8;
  const MemoryBreakdown most = cost(m, full).memory();
  CHECK(most.peak + cached(full) <= std::max(most.peak, most.capacity));
}
