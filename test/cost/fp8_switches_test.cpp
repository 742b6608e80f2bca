// Kernels that work in 8 bits or fuse what others do one after the other: which operations they
// leave.
#include "cost/block.hpp"
#include "frameworks/preset.hpp"
#include "model/quantisation.hpp"
#include "search/cases.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

Strategy eight_bit() {
  Strategy s = framework_preset(Framework::kMegatron);
  s.dp = 8, s.global_batch = 8, s.seq_len = 4096;
  s.precision = Precision::kFp8;
  return s;
}

ModelSpec experts() {
  ModelSpec m = small_model(4, 2048);
  m.gated_mlp = true;
  add_experts(m, 16, 0, 1);
  return m;
}

ClusterSpec node() {
  ClusterSpec c = small_cluster(1, 8, Bytes{80 * kGiB});
  c.device.peak[static_cast<std::size_t>(Precision::kFp8)] =
      c.device.peak[static_cast<std::size_t>(Precision::kBf16)] * 2;
  c.device.gemm.sustained[static_cast<std::size_t>(Precision::kFp8)] =
      c.device.gemm.sustained[static_cast<std::size_t>(Precision::kBf16)];
  return c;
}

struct Work {
  double time = 0, bytes = 0, launches = 0;
  std::int64_t number = 0;
};

// Of the first layer's operations of one name and pass.
Work of(const ModelSpec& m, const ClusterSpec& c, const Strategy& s, std::string_view name,
        Pass pass) {
  Work all;
  const std::vector<BlockOps> blocks = block_ops(m, c, s);
  for (const KernelOp& op : blocks[kFirstLayerBlock].kernels) {
    if (op.name != name || op.pass != pass) continue;
    all.time += op.time.si(), all.bytes += op.bytes, all.launches += op.launches, ++all.number;
  }
  return all;
}

}  // namespace

TEST_CASE("[F-FP8-3] attention in 8 bits multiplies faster and casts its inputs") {
  const ModelSpec m = small_model(4, 2048);
  const ClusterSpec c = node();
  const Strategy off = eight_bit();
  Strategy on = off;
  on.runtime.fp8_attention = true;
  const double overhead = c.device.kernel_overhead.si();
  const auto attention = [&](const Strategy& s, Pass pass, double kernels) {
    return of(m, c, s, "attention", pass).time - kernels * overhead;
  };
  CHECK(attention(off, Pass::kForward, 1) / attention(on, Pass::kForward, 1) ==
        Approx(1200.0 / 740));
  CHECK(attention(off, Pass::kBackwardInput, 3) / attention(on, Pass::kBackwardInput, 3) ==
        Approx(1200.0 / 740));
  const auto cast = [&](const Strategy& s, Pass pass) { return of(m, c, s, "fp8 cast", pass); };
  const double tokens = 4096, width = static_cast<double>(m.num_attention_heads * m.head_dim);
  const double keys = static_cast<double>(m.num_query_groups * m.head_dim);
  CHECK(cast(on, Pass::kForward).bytes - cast(off, Pass::kForward).bytes ==
        Approx(4 * tokens * (width + 2 * keys)));
  CHECK(cast(on, Pass::kBackwardInput).bytes - cast(off, Pass::kBackwardInput).bytes ==
        Approx(4 * tokens * width));
  // In 16 bits, and without fused attention, it is without effect.
  Strategy half = on, half_off = off;
  half.precision = half_off.precision = Precision::kBf16;
  CHECK(block_costs(m, c, half)[kFirstLayerBlock] == block_costs(m, c, half_off)[kFirstLayerBlock]);
}

TEST_CASE("[F-FP8-3] attention in 8 bits keeps its casts instead of what it casts") {
  const ModelSpec m = small_model(4, 2048);
  const ClusterSpec c = node();
  Strategy on = eight_bit();
  const auto saved = [&](const Strategy& s) {
    return layer_activations({m, c, s, local_shape(m, s)}, layer_spec(m, 0)).none.si();
  };
  const double tokens = 4096, output = static_cast<double>(m.num_attention_heads * m.head_dim);
  const double inputs = output + 2 * static_cast<double>(m.num_query_groups * m.head_dim);
  for (const auto& [recipe, output_bytes] :
       {std::pair{ScalingRecipe::kDelayed, 1.0}, {ScalingRecipe::kTensorwise, 0.0}}) {
    Strategy off = on;
    off.runtime.fp8_recipe = on.runtime.fp8_recipe = recipe;
    off.runtime.fp8_attention = false, on.runtime.fp8_attention = true;
    CHECK(saved(off) - saved(on) == Approx(tokens * (inputs + output_bytes * output)));
  }
  // Of scales of blocks both layouts, a byte of 32 elements more than in 16 bits, and the output.
  Strategy blocks = on;
  blocks.runtime.fp8_recipe = ScalingRecipe::kMxfp8, blocks.runtime.fp8_attention = true;
  Strategy blocks_off = blocks;
  blocks_off.runtime.fp8_attention = false;
  CHECK(saved(blocks) - saved(blocks_off) == Approx(tokens * inputs * 2 / 32));
  // An adapter's input is the output in 16 bits, which attention no longer shares.
  on.runtime.fp8_recipe = ScalingRecipe::kDelayed;
  on.lora.rank = 4, on.lora.targets = lora_targets("all-linear");
  Strategy off = on;
  off.runtime.fp8_attention = false;
  CHECK(saved(off) - saved(on) == Approx(tokens * (inputs - output)));
}

TEST_CASE("[F-ACT-1] a gated activation's input that is kept in 8 bits is cast to them and back") {
  ModelSpec m = small_model(4, 2048);
  m.gated_mlp = true, m.activation = Activation::kSilu;
  const ClusterSpec c = node();
  Strategy off = eight_bit();
  off.precision = Precision::kBf16;  // whatever products are in
  Strategy on = off;
  on.runtime.activation_func_fp8_input_store = true;
  const auto saved = [&](const Strategy& s) {
    return layer_activations({m, c, s, local_shape(m, s)}, layer_spec(m, 0)).none.si();
  };
  const double halves = 2 * 4096 * static_cast<double>(m.ffn_hidden_size);
  CHECK(saved(off) - saved(on) == Approx(halves));
  for (const Pass pass : {Pass::kForward, Pass::kBackwardInput}) {
    const Work cast = of(m, c, on, "activation input cast", pass);
    CHECK(cast.bytes == Approx(3 * halves));
    CHECK(cast.launches == 1);
    CHECK(of(m, c, off, "activation input cast", pass).number == 0);
  }
  on.runtime.fused_activation = off.runtime.fused_activation = false;  // of the fused kernel alone
  CHECK(saved(off) == saved(on));
}

TEST_CASE("[F-FP8-4] what a cast reads, writes and launches follows from what it scales over") {
  struct Row {
    Precision precision;
    ScalingRecipe recipe;
    double bytes, kernels;  // of both layouts, of an element and of a tensor
    double one, two;        // launches of one tensor, and of one for each of two experts
  };
  using enum ScalingRecipe;
  const Row row = GENERATE(values<Row>({
      {Precision::kFp8, kDelayed, 2 + 2, 1, 1, 1.2},
      {Precision::kFp8, kTensorwise, 4 + 2, 4, 1.3, 1.3 + 0.4 + 0.2},
      {Precision::kFp8, kBlockwise, 2 + 2 * (1 + 4.0 / 128), 1, 1, 1.1},
      {Precision::kFp8, kMxfp8, 2 + 2 * (1 + 1.0 / 32), 1, 1, 1.1},
      {Precision::kNvfp4, kBest, 4 + 2 * (0.5 + 1.0 / 16), 3, 1.2, 1.2},
  }));
  INFO(name_of(row.precision) << " " << name_of(row.recipe));
  const ClusterSpec c = node();
  Strategy s = eight_bit();
  s.precision = row.precision, s.runtime.fp8_recipe = row.recipe;
  const Quantisation q = quantisation(s, c.device);
  CHECK(q.kernels == row.kernels);
  CHECK(cast_bytes(q, true) == Approx(row.bytes));
  CHECK(cast_bytes(q, false) == Approx(row.bytes - q.bytes));
  // Four products of a plain layer; a layer of 16 experts on 8 ranks has two of attention's and two
  // of two experts each.
  const ModelSpec plain = small_model(4, 2048);
  const Work cast = of(plain, c, s, "fp8 cast", Pass::kForward);
  CHECK(cast.number == 4);
  CHECK(cast.launches == Approx(4 * row.one));
  const double inputs = 4096.0 * static_cast<double>(3 * plain.hidden_size + plain.ffn_hidden_size);
  CHECK(cast.bytes == Approx(row.bytes * inputs));
  s.ep = 8;
  CHECK(of(experts(), c, s, "fp8 cast", Pass::kForward).launches ==
        Approx(2 * row.one + 2 * row.two));
}

TEST_CASE("[F-FP8-4] [F-MEM-10] one scale serves products of either order on Blackwell") {
  Strategy s = eight_bit();
  DeviceSpec d = node().device;
  d.architecture = Architecture::kBlackwell;
  const auto layouts = [&](ScalingRecipe recipe) {
    s.runtime.fp8_recipe = recipe;
    return quantisation(s, d).layouts;
  };
  CHECK(layouts(ScalingRecipe::kDelayed) == 1);
  CHECK(layouts(ScalingRecipe::kTensorwise) == 1);
  CHECK(cast_bytes(quantisation(s, d), true) == 4 + 1);
  CHECK(layouts(ScalingRecipe::kMxfp8) == 2);
  d.architecture = Architecture::kHopper;
  CHECK(layouts(ScalingRecipe::kTensorwise) == 2);
}

TEST_CASE("[F-FP8-7] [F-GEMM-4] products with scales of blocks are slower") {
  const ModelSpec m = small_model(4, 2048);
  const ClusterSpec c = node();
  Strategy one = eight_bit(), blocks = one;
  one.runtime.fp8_recipe = ScalingRecipe::kTensorwise;
  blocks.runtime.fp8_recipe = ScalingRecipe::kBlockwise;
  const double overhead = c.device.kernel_overhead.si();
  const auto time = [&](const Strategy& s) {
    return of(m, c, s, "mlp up", Pass::kForward).time - overhead;
  };
  CHECK(time(one) / time(blocks) == Approx(0.811));
  blocks.runtime.fp8_recipe = ScalingRecipe::kMxfp8;
  CHECK(time(one) / time(blocks) == Approx(0.951));
  // [F-GEMM-4] Libraries and clocks come on top.
  blocks.runtime.product_rate = 0.5;
  CHECK(time(one) / time(blocks) == Approx(0.5 * 0.951));
  blocks.runtime.product_rate = 1;
  // In 16 bits nothing is scaled.
  one.precision = blocks.precision = Precision::kBf16;
  CHECK(time(one) == time(blocks));
}

TEST_CASE("[F-FP8-4] what is best follows from the device and the layers") {
  Strategy s = eight_bit();
  CHECK(scaling_recipe(s, Architecture::kHopper) == ScalingRecipe::kTensorwise);
  CHECK(scaling_recipe(s, Architecture::kBlackwell) == ScalingRecipe::kMxfp8);
  // torchao's float8: compiled, the largest element is found where the tensor is made.
  s.runtime.transformer_engine = false;
  CHECK(scaling_recipe(s, Architecture::kBlackwell) == ScalingRecipe::kTensorwise);
  CHECK(cast_bytes(quantisation(s, node().device), true) == 4);
  s.runtime.fp8_recipe = ScalingRecipe::kDelayed;
  CHECK(scaling_recipe(s, Architecture::kBlackwell) == ScalingRecipe::kDelayed);
}

TEST_CASE("[F-EP-8] fused experts gate and cast in their products") {
  const ModelSpec m = experts();
  const ClusterSpec c = node();
  Strategy off = eight_bit();
  off.runtime.fp8_recipe = ScalingRecipe::kMxfp8;
  Strategy on = off;
  on.runtime.fused_experts = true;
  Strategy by_tensor = on;  // no such kernels
  by_tensor.runtime.fp8_recipe = off.runtime.fp8_recipe = ScalingRecipe::kTensorwise;
  CHECK(block_costs(m, c, by_tensor)[kFirstLayerBlock] == block_costs(m, c, off)[kFirstLayerBlock]);
  off.runtime.fp8_recipe = ScalingRecipe::kMxfp8;
  const auto count = [&](const Strategy& s, std::string_view name, Pass pass) {
    return of(m, c, s, name, pass).number;
  };
  for (const Pass pass : {Pass::kForward, Pass::kBackwardInput}) {
    CHECK(count(off, "activation", pass) == 1);
    CHECK(count(on, "activation", pass) == 0);
    CHECK(count(on, "fp8 cast", pass) == count(off, "fp8 cast", pass) - 1);
    CHECK(of(m, c, on, "experts down", pass).time == of(m, c, off, "experts down", pass).time);
    CHECK(count(on, "products one by one", pass) == 0);
    CHECK(count(off, "products one by one", pass) == 2);
  }
  Strategy half = on, half_off = off;
  half.precision = half_off.precision = Precision::kBf16;
  CHECK(block_costs(m, c, half)[kFirstLayerBlock] == block_costs(m, c, half_off)[kFirstLayerBlock]);
}

TEST_CASE("[F-EP-7] the flexible dispatcher's kernels reach more of NVLink than an exchange") {
  const ModelSpec m = experts();
  ClusterSpec c = node();
  Strategy s = eight_bit();
  s.ep = 8;
  const auto each = [&](const ClusterSpec& on) {
    const std::vector<BlockOps> blocks = block_ops(m, on, s);
    for (const CommOp& op : blocks[kFirstLayerBlock].comm) {
      if (op.dimension == CommDimension::kEp) return op;
    }
    FAIL("nothing is dispatched");
    return CommOp{};
  };
  const CommOp op = each(c);
  const double sent = op.bytes.si() * 7 / 8;
  const double start = op.time_each.si() - sent / (c.levels.front().bandwidth.si() * 0.75);
  CHECK(start > 0);
  CHECK(start < 50e-6);
  c.levels.front().kind = LinkKind::kPcie;  // DeepEP needs NVLink
  CHECK(each(c).time_each > op.time_each);
}

TEST_CASE("[F-MLA-2] fused rotary kernels lay latent attention out") {
  ModelSpec m = small_model(4, 2048);
  m.mla = MlaSpec{};
  m.mla->q_lora_rank = 768, m.mla->kv_lora_rank = 512;
  m.mla->qk_nope_head_dim = 128, m.mla->qk_rope_head_dim = 64, m.mla->v_head_dim = 128;
  const ClusterSpec c = node();
  const Strategy off = eight_bit();
  Strategy on = off;
  on.runtime.fused_latent_rope = true;
  const double heads = 4096.0 * static_cast<double>(m.num_attention_heads);
  for (const Pass pass : {Pass::kForward, Pass::kBackwardInput}) {
    CHECK(of(m, c, on, "mla layout", pass).bytes ==
          Approx(2 * heads * (2 * 64 + (128 + 128) + (128 + 64 + 128))));
    CHECK(of(m, c, on, "rotary", pass).number == 0);
    CHECK(of(m, c, off, "rotary", pass).number == 1);
    CHECK(of(m, c, on, "mla layout", pass).time < of(m, c, off, "mla layout", pass).time);
  }
}
