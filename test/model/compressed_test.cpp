// Attention of DeepSeek-V4 and its streams, against numbers worked out by hand from its sizes and
// from what Primus and Megatron-Core compute.
#include <algorithm>

#include "cost/block.hpp"
#include "cost/step_parts.hpp"
#include "cost/support.hpp"
#include "model/flops.hpp"
#include "model/hyper_connections.hpp"
#include "model/kinds.hpp"
#include "model/layer_support.hpp"
#include "model/parameters.hpp"
#include "model/rules.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

// DeepSeek-V4-Flash: 43 layers of 4,096, 64 heads of 512.
ModelSpec flash(std::int64_t streams = 1) {
  ModelSpec m;
  m.name = "m";
  m.num_layers = 4;
  m.hidden_size = 4096;
  m.num_attention_heads = 64;
  m.num_query_groups = 1;
  m.head_dim = 512;
  m.attention = AttentionKind::kGqa;
  m.ffn_hidden_size = 8192;
  m.gated_mlp = true;
  m.activation = Activation::kSilu;
  m.norm = Norm::kRmsNorm;
  m.vocab_size = 129'280;
  m.max_seq_length = 65'536;
  m.mhc_num_residual_streams = streams;
  return m;
}

const CompressedAttentionSpec kWindow{.num_attention_heads = 64,
                                      .head_dim = 512,
                                      .q_lora_rank = 1024,
                                      .o_groups = 8,
                                      .o_lora_rank = 1024};

CompressedAttentionSpec sparse() {
  CompressedAttentionSpec kind = kWindow;
  kind.compress_ratio = 4;
  kind.overlap = true;
  kind.index = {64, 128, 512};
  return kind;
}

CompressedAttentionSpec heavy() {
  CompressedAttentionSpec kind = kWindow;
  kind.compress_ratio = 128;
  return kind;
}

Strategy half(std::int64_t tp = 1, std::int64_t pp = 1) {
  Strategy s = plain_strategy(tp, pp, 1);
  s.precision = Precision::kBf16;
  s.flash_attention = true;
  s.seq_len = 4096;
  return s;
}

}  // namespace

TEST_CASE("[F-CSA-1] a compressed layer's parameters are those of DeepSeek-V4-Flash's weights") {
  // wq_b, wo_a and wo_b of 33,554,432 each and 64 sinks; wq_a and wkv 4096 * 1536; two norms.
  const std::int64_t shared = 3 * 33'554'432 + 64 + 6'291'456 + 1024 + 512;
  CHECK(mixer_parameters(flash(), kWindow) == shared);
  // wkv and wgate 4096 * 2 * 512, positions 128 * 512, a norm.
  CHECK(mixer_parameters(flash(), heavy()) == shared + 4'194'304 + 65'536 + 512);
  // The same with overlap; queries 1024 * 8192, weights 4096 * 64 and entries of 128 of the index.
  CHECK(mixer_parameters(flash(), sparse()) ==
        shared + 8'388'608 + 4'096 + 512 + 8'388'608 + 262'144 + 2'097'152 + 1'024 + 128);
}

TEST_CASE("[F-CSA-2] a token sees its window and the entries before it") {
  // Of 4,096 tokens: window (128 * 4096 - 128 * 127 / 2) / 4096 = 126.015625 in the mean; 32
  // entries, 15.5 in the mean; 1,024 entries, at most 512 chosen: 512 - 512 * 513 / 2048 = 383.75.
  const double each = 4.0 * 64 * 512;
  CHECK(causal_token_flops(kWindow, 4096) == Approx(each * 126.015625));
  CHECK(causal_token_flops(heavy(), 4096) == Approx(each * (126.015625 + 15.5)));
  CHECK(causal_token_flops(sparse(), 4096) ==
        Approx(each * (126.015625 + 383.75) + 64.0 * 128 * 1024));
  CHECK(token_flops(sparse(), 4096) == each * (128 + 512) + 2.0 * 64 * 128 * 1024);
  // Shorter sequences have fewer entries than are chosen.
  CHECK(causal_token_flops(sparse(), 1024) ==
        Approx(each * (128 - 128 * 127 / 2048.0 + 127.5) + 64.0 * 128 * 256));
}

TEST_CASE("[F-CSA-3] entries are projected in 16 bits and pooled by one kernel") {
  const ModelSpec m = flash();
  const ClusterSpec c = plain_cluster(1);
  Strategy s = half();
  s.precision = Precision::kFp8;
  const BlockContext x{m, c, s, local_shape(m, s)};
  BlockOps ops;
  append_mixer(x, sparse(), ops);
  CHECK(kernel_named(ops, "entries").gemm->n == 2048);
  CHECK(kernel_named(ops, "entries").precision == Precision::kBf16);
  CHECK(kernel_named(ops, "q up").precision == Precision::kFp8);
  const double tokens = 4096;
  CHECK(kernel_named(ops, "pooling").bytes == tokens * 2 * (2048 + 128));
  CHECK(kernel_named(ops, "pooling", Pass::kBackwardInput).bytes == tokens * 2 * (2 * 2048 + 128));
  // Eight groups of 8 heads in one batched product.
  CHECK(kernel_named(ops, "output latents").gemm->count == 8);
  CHECK(kernel_named(ops, "output latents").launches == 1);
  CHECK(kernel_named(ops, "attention output").gemm->k == 8192);
}

TEST_CASE("[F-CSA-4] a compressed layer keeps queries and outputs twice") {
  const ModelSpec m = flash();
  const ClusterSpec c = plain_cluster(1);
  const Strategy s = half();
  const BlockContext x{m, c, s, local_shape(m, s)};
  // Norm's input and output, latents twice, queries twice, keys twice, output twice, its latents,
  // and the logarithms of the sums.
  const double shared = 4096 + 4096 + 2 * 1024 + 2 * 32768 + 2 * 512 + 2 * 32768 + 8192;
  const double t = 4096;
  CHECK(saved_bytes(kWindow, x).all == t * (2 * shared + 4 * 64));
  CHECK(saved_bytes(heavy(), x).all - saved_bytes(kWindow, x).all ==
        Approx(t * 2 * (1024 + 2 * 512 / 128.0)));
  Strategy again = s;
  again.recompute = Recompute::kSelective;
  again.recompute_modules.add(RecomputeModule::kMlaUpProj);
  const BlockContext y{m, c, again, local_shape(m, again)};
  CHECK(saved_bytes(kWindow, y).selective == t * 2 * 2 * (32768 + 512));
}

TEST_CASE("[F-MHC-1] streams add the parameters of their mixtures") {
  // 4 * 4096 * 24 + 24 + 3 around each part; 4 * 4096 * 4 + 4 + 1 before the output layer.
  CHECK(connection_parameters(flash(4)) == 393'216 + 27);
  CHECK(contraction_parameters(flash(4)) == 65'536 + 5);
  CHECK(connection_parameters(flash()) == 0);
  const LayerSpec layer{kWindow, DenseMlpSpec{8192}};
  CHECK(layer_parameters(flash(4), layer).attention_other -
            layer_parameters(flash(), layer).attention_other ==
        2 * (393'216 + 27));
}

TEST_CASE("[F-MHC-2] [F-MHC-3] streams are read, mixed, written, kept and sent") {
  const ClusterSpec c = plain_cluster(2);
  const ModelSpec m = flash(4), plain = flash();
  Strategy s = half(1, 2);
  const BlockContext x{m, c, s, local_shape(m, s)};
  const BlockContext one{plain, c, s, local_shape(plain, s)};
  const LayerSpec layer{kWindow, DenseMlpSpec{8192}};
  BlockOps ops;
  append_mixer(x, layer.mixer, ops);
  const double h = 4096.0 * 4096 * 2;
  CHECK(kernel_named(ops, "stream coefficients").gemm->n == 24);
  CHECK(kernel_named(ops, "stream coefficients").gemm->k == 4 * 4096);
  CHECK(kernel_named(ops, "stream mixture").bytes == 5 * h);
  CHECK(kernel_named(ops, "stream update").bytes == 9 * h);
  CHECK(kernel_named(ops, "stream update", Pass::kBackwardInput).bytes == 14 * h);
  CHECK(std::none_of(ops.kernels.begin(), ops.kernels.end(),
                     [](const KernelOp& op) { return op.name == "residual"; }));
  // Each of two parts keeps four streams, its output, and 24 coefficients twice in fp32.
  CHECK(layer_saved_bytes(x, layer).all - layer_saved_bytes(one, layer).all ==
        2 * (5 * h + 8 * 4096.0 * 24));
  // [F-MHC-3] Dropout is of all that is written, not of the part's output.
  ModelSpec drops = m, alone = plain;
  drops.dropout = alone.dropout = 0.1;
  const BlockContext masked{drops, c, s, local_shape(drops, s)};
  const BlockContext unmixed{alone, c, s, local_shape(alone, s)};
  CHECK(layer_saved_bytes(masked, layer).all - layer_saved_bytes(unmixed, layer).all ==
        2 * (5 * h + 3 * 4096.0 * 4096 + 8 * 4096.0 * 24));
  CHECK(layer_activations(x, layer).full.count() == 4 * layer_activations(one, layer).full.count());
  // One kernel each when fused, else 20 iterations of six and more.
  CHECK(kernel_named(ops, "stream normalisation").launches == 1);
  s.runtime.fused_mhc = false;
  const BlockContext apart{m, c, s, local_shape(m, s)};
  BlockOps many;
  append_mixer(apart, layer.mixer, many);
  CHECK(kernel_named(many, "stream normalisation").launches == 120);
  CHECK(kernel_named(many, "stream update").bytes == 25 * h);
}

TEST_CASE("[F-MHC-3] streams are kept in fp32 where what mixes them is made so") {
  const ClusterSpec c = plain_cluster(1);
  Strategy s = half(1, 1);
  s.runtime.fused_mhc = false;
  Strategy wide = s;
  wide.runtime.fp32_mhc = true;
  const ModelSpec m = flash(4);
  const BlockContext x{m, c, s, local_shape(m, s)}, cast{m, c, wide, local_shape(m, s)};
  const LayerSpec layer{kWindow, DenseMlpSpec{8192}};
  const double elements = 4096.0 * 4096;
  CHECK(layer_saved_bytes(cast, layer).all - layer_saved_bytes(x, layer).all ==
        2 * 4 * 4 * elements);
  BlockOps ops;
  append_mixer(cast, layer.mixer, ops);
  CHECK(kernel_named(ops, "stream cast").bytes == 4 * 6 * elements);
  CHECK(kernel_named(ops, "stream coefficients").precision == Precision::kFp32);
  wide.runtime.fused_mhc = true;  // does nothing then
  const BlockContext fused{m, c, wide, local_shape(m, s)};
  CHECK(layer_saved_bytes(fused, layer).all == layer_saved_bytes(x, layer).all);
}

TEST_CASE("[F-MHC-4] recomputed streams come back block by block") {
  const ClusterSpec c = plain_cluster(1);
  Strategy s = half(1, 1);
  s.recompute = Recompute::kSelective;
  s.recompute_modules = {RecomputeModule::kMhc};
  s.runtime.mhc_recompute_layers = 2;
  ModelSpec m = flash(4);
  const LayerSpec layer{kWindow, DenseMlpSpec{8192}};
  const double h = 4096.0 * 4096 * 2;
  const auto kept = [&](const ModelSpec& model, const Strategy& strategy) {
    const BlockContext x{model, c, strategy, local_shape(model, strategy)};
    return layer_saved_bytes(x, layer);
  };
  // What two norms read, the first one's output, and four streams but for one part of four.
  CHECK(kept(m, s).selective == 2 * h + h + 1.5 * 4 * h);
  CHECK(kept(m, s).together == 2 * (2 * h + 1.5 * 4 * h));
  // All of the stage's four layers.
  s.runtime.mhc_recompute_layers = 0;
  CHECK(kept(m, s).selective == 2 * h + h + 1.75 * 4 * h);
  CHECK(kept(m, s).together == 4 * (2 * h + 1.75 * 4 * h));
  s.pp = 2;
  CHECK(kept(m, s).selective == 2 * h + h + 1.5 * 4 * h);
  // Masks of all that is written.
  m.dropout = 0.1;
  CHECK(kept(m, s).selective == 2 * h + h + 1.5 * (4 * h + 4 * h / 2));
  // The update of the last of them is not repeated.
  s.runtime.mhc_recompute_layers = 2;
  const BlockContext x{m, c, s, local_shape(m, s)};
  BlockOps mixer, rest;
  append_mixer(x, layer.mixer, mixer);
  append_feed_forward(x, layer.feed_forward, rest);
  CHECK(kernel_named(mixer, "stream mixture").selective == 1);
  CHECK(kernel_named(mixer, "stream update").selective == 1);
  CHECK(kernel_named(rest, "stream update").selective == 0.5);
  CHECK(kernel_named(rest, "stream coefficients").selective == 0);
  CHECK(mixer.checkpoints == 3);
}

TEST_CASE("[F-PP-SEND-1] a boundary's message has all streams") {
  const ClusterSpec c = plain_cluster(2);
  const Strategy s = half(1, 2);
  const ModelSpec m = flash(4), plain = flash();
  CHECK(boundary_send(m, c, s, Placement(m, c, s)).message.count() ==
        4 * boundary_send(plain, c, s, Placement(plain, c, s)).message.count());
}

TEST_CASE("Streams and parallel blocks exclude each other") {
  ModelSpec m = flash(4);
  CHECK_FALSE(has_errors(validate(m)));
  m.parallel_block = true;
  CHECK(has_errors(validate(m)));
}

TEST_CASE("Compressed attention's sizes are checked together") {
  ModelSpec m = flash();
  const auto message = [&](const CompressedAttentionSpec& kind) {
    m.layers = {{4, LayerSpec{kind, DenseMlpSpec{8192}}}};
    const Diagnostics found = validate(m);
    return found.empty() ? std::string() : found.front().message;
  };
  CHECK(message(sparse()).empty());
  CompressedAttentionSpec kind = kWindow;
  kind.overlap = true;
  CHECK(message(kind).find("'compress_ratio'") != std::string::npos);
  kind = sparse();
  kind.index.heads = 0;
  CHECK(message(kind).find("an index needs") != std::string::npos);
  kind = kWindow;
  kind.o_groups = 7;
  CHECK(message(kind).find("'o_groups'") != std::string::npos);
}

TEST_CASE("[F-PMX-1][F-PMX-2][F-PMX-3] attention and Mamba-2 side by side share their norm") {
  const ModelSpec m = flash();
  const ClusterSpec c = plain_cluster(1);
  const Strategy s = half();
  const BlockContext x{m, c, s, local_shape(m, s)};
  const AttentionSpec attention{32, 8, 128, 0};
  const Mamba2Spec mamba{.num_heads = 32, .head_dim = 128, .state_size = 256, .num_groups = 2};
  const ParallelMixerSpec both{attention, mamba};
  CHECK(mixer_parameters(m, both) == mixer_parameters(m, attention) + mixer_parameters(m, mamba));
  CHECK(layer_parameters(m, {both, NoneSpec{}}).norms == 4096);
  CHECK(causal_token_flops(both, 4096) ==
        causal_token_flops(attention, 4096) + token_flops(mamba, 4096));
  BlockOps one, other, all;
  append_mixer(x, attention, one);
  append_mixer(x, mamba, other);
  append_mixer(x, both, all);
  const auto norms = [](const BlockOps& ops) {
    return std::count_if(ops.kernels.begin(), ops.kernels.end(),
                         [](const KernelOp& op) { return op.name == "input norm"; });
  };
  CHECK(norms(one) == norms(all));
  CHECK(one.kernels.size() + other.kernels.size() - all.kernels.size() ==
        static_cast<std::size_t>(norms(other)));
  const double norm = 2 * 2 * 4096.0 * 4096;  // its input and its output
  CHECK(saved_bytes(both, x).all ==
        Approx(saved_bytes(attention, x).all + saved_bytes(mamba, x).all - norm));
}
