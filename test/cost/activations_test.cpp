#include "cost/block.hpp"
#include "cost/step.hpp"
#include "cost/support.hpp"
#include "model/kinds.hpp"
#include "model/parts.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

// Table 2 of 2205.05198: bytes per layer as sbh times a factor.
struct Row {
  const char* name;
  std::int64_t t;
  bool sp;
  Recompute recompute;
  double factor;  // of s b h
};

double paper_factor(double constant, double per_t, double scores, double t) {
  return constant + per_t / t + scores / t;
}

}  // namespace

TEST_CASE("[F-ACT-MEM-1] a layer saves what the Megatron paper's table 2 says") {
  const ModelSpec m = plain_gpt();
  const double s = 2048, b = 2, h = 4096, a = 32;
  const double scores = 5 * a * s / h;
  const auto row = GENERATE_COPY(values<Row>({
      {"no parallelism", 1, false, Recompute::kNone, paper_factor(10, 24, scores, 1)},
      {"tensor parallel", 4, false, Recompute::kNone, paper_factor(10, 24, scores, 4)},
      {"tensor and sequence parallel", 4, true, Recompute::kNone, paper_factor(0, 34, scores, 4)},
      {"tensor parallel, selective", 8, false, Recompute::kSelective, paper_factor(10, 24, 0, 8)},
      {"sequence parallel, selective", 8, true, Recompute::kSelective, 34.0 / 8},
      {"full recomputation", 8, false, Recompute::kFull, 2},
      {"full recomputation, sequence parallel", 8, true, Recompute::kFull, 2.0 / 8},
  }));
  CAPTURE(row.name);
  Strategy strategy = plain_strategy(row.t, 1, 1);
  strategy.micro_batch = 2;
  strategy.sequence_parallel = row.sp;
  const ClusterSpec c = plain_cluster(8);
  const BlockContext x{m, c, strategy, local_shape(m, strategy)};
  const SavedActivations saved = layer_activations(x, layer_spec(m, 0));
  CHECK(saved.of(row.recompute).si() == Approx(s * b * h * row.factor).epsilon(1e-12));
}

TEST_CASE("[F-ACT-MEM-1] a flash-attention SwiGLU layer saves the modern closed form") {
  // s b (8 h + 4 h_q + 4 h_kv + 6 f + 4 a) / t with sequence parallelism, no dropout.
  ModelSpec m = plain_gpt(4, 8192, 64);
  m.num_query_groups = 8;
  m.attention = AttentionKind::kGqa;
  m.ffn_hidden_size = 28672;
  m.gated_mlp = true;
  m.dropout = 0;
  m.linear_bias = false;
  Strategy s = plain_strategy(4, 1, 1);
  s.sequence_parallel = true;
  s.flash_attention = true;
  s.seq_len = 4096;
  const ClusterSpec c = plain_cluster(8);
  const BlockContext x{m, c, s, local_shape(m, s)};
  const double expected = 4096.0 * (8 * 8192 + 4 * 8192 + 4 * 1024 + 6 * 28672 + 4 * 64) / 4;
  CHECK(layer_activations(x, layer_spec(m, 0)).none.si() == Approx(expected).epsilon(1e-12));
}

TEST_CASE("fp8 halves the saved inputs of linear layers and keeps the rest") {
  ModelSpec m = plain_gpt();
  m.dropout = 0;
  Strategy s = plain_strategy(1, 1, 1);
  s.flash_attention = true;
  const ClusterSpec c = plain_cluster(8);
  const BlockContext bf16{m, c, s, local_shape(m, s)};
  Strategy s8 = s;
  s8.precision = Precision::kFp8;
  const BlockContext fp8{m, c, s8, local_shape(m, s8)};
  const double t = 2048, h = 4096;
  // Inputs of qkv and mlp up (h each) and of mlp down (4 h) shrink by one byte; the attention
  // output is kept in both forms because attention's own backward reads it.
  const double saved = t * (h + h + 4 * h) - t * h;
  CHECK(layer_activations(bf16, layer_spec(m, 0)).none.si() -
            layer_activations(fp8, layer_spec(m, 0)).none.si() ==
        Approx(saved));
}

TEST_CASE("context parallelism divides every activation of a layer") {
  const ModelSpec m = plain_gpt();
  const ClusterSpec c = plain_cluster(8);
  Strategy s = plain_strategy(2, 1, 1);
  s.flash_attention = true;
  const BlockContext whole{m, c, s, local_shape(m, s)};
  Strategy split = s;
  split.cp = 4;
  const BlockContext part{m, c, split, local_shape(m, split)};
  CHECK(4 * layer_activations(part, layer_spec(m, 0)).none.count() ==
        layer_activations(whole, layer_spec(m, 0)).none.count());
}

TEST_CASE("[F-ACT-MEM-1] a norm without a kernel keeps an fp32 copy and what the weight scales") {
  ModelSpec m = plain_gpt();
  m.norm = Norm::kRmsNorm;
  const ClusterSpec c = plain_cluster(8);
  Strategy s = plain_strategy(1, 1, 1);
  const BlockContext x{m, c, s, local_shape(m, s)};
  CHECK(norm_bytes(x, 1000) == 2000);
  s.runtime.fused_norm = false;
  CHECK(norm_bytes(x, 1000) == 6000);
  s.lora.rank = 8;  // frozen: no gradient of the weight
  CHECK(norm_bytes(x, 1000) == 4000);
  m.norm = Norm::kLayerNorm;  // PyTorch has a kernel for it
  CHECK(norm_bytes(x, 1000) == 2000);
}

TEST_CASE("[F-LOSS-3] fused with the output layer the loss holds a chunk of logits") {
  const ModelSpec m = plain_gpt();
  const ClusterSpec c = plain_cluster(8);
  Strategy s = plain_strategy(1, 1, 1);
  s.runtime.fused_linear_cross_entropy = true;
  const BlockContext x{m, c, s, local_shape(m, s)};
  const double hidden = 2.0 * 2048 * 4096;
  // 51,200 / 4,096 are 13 parts of 2,048 tokens: 158, which is 256 as a power of two.
  CHECK(head_saved_bytes(x) == 2 * hidden);
  CHECK(head_working_bytes(x) == 2.0 * (256 * 51200 + 2 * 51200 * 4096));
  const auto time = [&x](Pass pass) {
    BlockOps ops;
    append_head(x, ops);
    Seconds sum;
    for (const KernelOp& op : ops.kernels) {
      if (op.name == "cross entropy" && op.pass == pass) sum += op.time;
    }
    return sum;
  };
  // 8 chunks: the logits three times, and the weight's gradient 4 x 8 - 1 times.
  CHECK(time(Pass::kForward) ==
        memory_time(c.device, 2.0 * (3 * 2048.0 * 51200 + 31 * 51200.0 * 4096), 16));
  CHECK(time(Pass::kBackwardInput) == Seconds{});
  s.lora.rank = 8;  // frozen: no gradient of the weight
  CHECK(head_working_bytes(x) == 2.0 * 256 * 51200);
}

TEST_CASE("[F-LOSS-4] a loss in chunks keeps as much and needs a chunk more at a time") {
  const ModelSpec m = plain_gpt();
  const ClusterSpec c = plain_cluster(8);
  Strategy s = plain_strategy(1, 1, 1);
  const BlockContext x{m, c, s, local_shape(m, s)};
  const double input = 2.0 * 2048 * 4096;
  const double kept = head_saved_bytes(x), whole = head_working_bytes(x) - input;
  CHECK(whole > 0);
  s.runtime.loss_chunks = 8;
  CHECK(head_saved_bytes(x) == Approx(kept));
  CHECK(head_working_bytes(x) - input == Approx(whole / 8));
}

TEST_CASE("[F-LOSS-2] each loss keeps and needs so many bytes per logit") {
  const ModelSpec m = plain_gpt();
  const ClusterSpec c = plain_cluster(8);
  Strategy s = plain_strategy(1, 1, 1);
  const BlockContext x{m, c, s, local_shape(m, s)};
  const double logits = 2048.0 * 51200;
  const double input = 2.0 * 2048 * 4096;
  // The norm's and the output layer's input are kept beside the loss; its gradient is made later.
  const auto kept = [&] { return (head_saved_bytes(x) - 2 * input) / logits; };
  const auto most = [&] { return kept() + (head_working_bytes(x) - input) / logits; };
  s.runtime.fused_cross_entropy = s.runtime.inplace_cross_entropy = false;
  CHECK(kept() == Approx(4));
  CHECK(most() == Approx(6));
  s.runtime.cloned_logits = true;
  CHECK(kept() == Approx(4));
  CHECK(most() == Approx(10));
  s.runtime.torch_cross_entropy = true;
  CHECK(kept() == Approx(4));
  CHECK(most() == Approx(14));
  s.runtime.cloned_logits = false;
  CHECK(kept() == Approx(4));
  CHECK(most() == Approx(12));
  s.runtime.bf16_cross_entropy = true;
  CHECK(kept() == Approx(2));
  CHECK(most() == Approx(6));
  s.runtime.bf16_cross_entropy = false;
  s.runtime.fused_cross_entropy = true;
  CHECK(kept() == Approx(4));
  CHECK(most() == Approx(12));
  s.runtime.fp32_copies = true;
  s.runtime.torch_cross_entropy = false;
  CHECK(kept() == Approx(4));
  CHECK(most() == Approx(6));
  s.runtime.fp32_copies = false;
  s.runtime.inplace_cross_entropy = true;
  CHECK(kept() == Approx(2));
  CHECK(most() == Approx(4));
}

TEST_CASE("multi-token prediction's logits wait beside the head's for their backward pass") {
  ModelSpec m = plain_gpt();
  const ClusterSpec c = plain_cluster(8);
  Strategy s = complete(plain_strategy(1, 1, 8), m, c);
  const auto saved = [&] {
    const PlanCost cost = cost_of(m, c, s);
    Bytes sum;
    for (const LedgerEntry& e : cost.stages[0].ledger.entries) {
      if (e.name.starts_with("saved ")) sum += e.bytes;
    }
    return sum;
  };
  const auto of_words_that_come = [&] {
    m.mtp_layers = 0;
    const Bytes without = saved();
    m.mtp_layers = 1;
    const Bytes one = saved() - without;
    m.vocab_size *= 2;
    m.mtp_layers = 0;
    const Bytes wide = saved();
    m.mtp_layers = 1;
    const Bytes more = saved() - wide - one;
    m.vocab_size /= 2;
    return more;
  };
  // One more softmax in fp32, or 16-bit gradient over the logits where the loss writes it there.
  CHECK(of_words_that_come().si() == Approx(4.0 * 2048 * 51200));
  s.runtime.inplace_cross_entropy = true;
  CHECK(of_words_that_come().si() == Approx(2.0 * 2048 * 51200));
}

TEST_CASE("unfused softmax keeps an fp32 copy of 16-bit scores, and none of fp32 scores") {
  const ModelSpec m = plain_gpt();
  const ClusterSpec c = plain_cluster(8);
  const double scores = 32.0 * 2048 * 2048;
  const auto saved = [&](Precision precision, bool fused) {
    Strategy s = plain_strategy(1, 1, 1);
    s.precision = precision;
    s.runtime.fused_softmax = fused;
    const BlockContext x{m, c, s, local_shape(m, s)};
    return layer_activations(x, layer_spec(m, 0)).none.si();
  };
  CHECK(saved(Precision::kBf16, false) - saved(Precision::kBf16, true) == Approx(4 * scores));
  CHECK(saved(Precision::kFp32, false) == saved(Precision::kFp32, true));
}

TEST_CASE("a gathered input that is saved costs the other ranks' shares of two inputs") {
  const ModelSpec m = plain_gpt();
  const ClusterSpec c = plain_cluster(8);
  Strategy s = plain_strategy(8, 1, 1);
  s.sequence_parallel = true;
  const BlockContext again{m, c, s, local_shape(m, s)};
  const Bytes sharded = layer_activations(again, layer_spec(m, 0)).none;
  s.runtime.tp_recompute_allgather = false;
  const BlockContext kept{m, c, s, local_shape(m, s)};
  // Inputs of qkv and of mlp up: s h elements of two bytes each, an eighth of which was there.
  CHECK(layer_activations(kept, layer_spec(m, 0)).none.si() - sharded.si() ==
        Approx(2 * 2.0 * 2048 * 4096 * 7 / 8));
}
