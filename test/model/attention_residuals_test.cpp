// Attention residuals and the gates of Kimi K3, against numbers worked out by hand from its sizes.
#include "model/attention_residuals.hpp"

#include "cost/step_parts.hpp"
#include "cost/support.hpp"
#include "model/hyper_connections.hpp"
#include "model/kinds.hpp"
#include "model/layer_support.hpp"
#include "model/parameters.hpp"
#include "model/rules.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

ModelSpec dense(std::int64_t block_size) {
  ModelSpec m = plain_gpt(6);
  m.norm = Norm::kRmsNorm;
  m.attn_res_block_size = block_size;
  return m;
}

constexpr GatedDeltaNetSpec kDelta{.num_key_heads = 96,
                                   .num_value_heads = 96,
                                   .key_head_dim = 128,
                                   .value_head_dim = 128,
                                   .gate_rank = 128,
                                   .full_rank_gate = true};

}  // namespace

TEST_CASE("[F-ARES-1] every part has a norm and a score, and so has the output layer") {
  const std::int64_t h = dense(0).hidden_size;
  CHECK(parameter_count(dense(2)).total - parameter_count(dense(0)).total == (2 * 6 + 1) * 2 * h);
  // Layers 0 to 5 in blocks of 2 read 1, 1, 2, 2, 3 and 3 blocks, and the sum.
  CHECK(mixed_states(dense(2)) == 3);
  CHECK(mixed_states(dense(4)) == Approx(1 + (4 * 1 + 2 * 2) / 6.0));
  CHECK(mixed_states(dense(100)) == 2);
  CHECK(mixed_states(dense(0)) == 1);
}

TEST_CASE("[F-ARES-2] [F-ARES-3] mixtures pass their states many times unless they are fused") {
  const ClusterSpec c = plain_cluster(1);
  Strategy s = plain_strategy(1, 1, 1);
  const ModelSpec m = dense(2), plain = dense(0);
  const LayerSpec layer{AttentionSpec{m.num_attention_heads, m.num_attention_heads, m.head_dim},
                        DenseMlpSpec{m.ffn_hidden_size}};
  const auto one = [&](const BlockContext& x) {
    return real(x.shape.norm_tokens) * real(m.hidden_size);
  };
  const BlockContext x{m, c, s, local_shape(m, s)};
  BlockOps ops;
  append_mixer(x, layer.mixer, ops);
  CHECK(kernel_named(ops, "residual mixture").bytes == (54 * 3 + 10) * one(x));
  CHECK(kernel_named(ops, "residual mixture", Pass::kBackwardInput).bytes ==
        (104 * 3 + 6) * one(x));
  const BlockContext without{plain, c, s, local_shape(plain, s)};
  CHECK(layer_saved_bytes(x, layer).all - layer_saved_bytes(without, layer).all == 2 * 24 * one(x));
  // Recomputed, a layer keeps the sum and its share of the two states of blocks in the mean.
  CHECK(residual_bytes(x) == 2 * one(x) * (1 + 2.0 / 2));
  CHECK(head_saved_bytes(x) - head_saved_bytes(without) == 24 * one(x));
  CHECK(layer_working_bytes(x, layer) - layer_working_bytes(without, layer) == 36 * one(x));
  s.runtime.fused_attn_res = true;
  const BlockContext fused{m, c, s, local_shape(m, s)};
  BlockOps few;
  append_mixer(fused, layer.mixer, few);
  CHECK(kernel_named(few, "residual mixture").bytes == 2 * 4 * one(x));
  CHECK(mixture_saved_bytes(fused) == 2 * one(x));
}

TEST_CASE("[F-PP-SEND-1] a boundary's message has the sum and the states of all blocks so far") {
  const ClusterSpec c = plain_cluster(2);
  const Strategy s = plain_strategy(1, 2, 1);
  const ModelSpec m = dense(2), plain = dense(0);
  CHECK(boundary_send(m, c, s, Placement(m, c, s)).message.count() ==
        3 * boundary_send(plain, c, s, Placement(plain, c, s)).message.count());
}

TEST_CASE("[F-GDN-1] an output gate of full rank is projected from the hidden size") {
  ModelSpec m = dense(0);
  m.hidden_size = 7168;
  LayerParameters full, low;
  add_parameters(kDelta, m, full);
  GatedDeltaNetSpec of_rank = kDelta;
  of_rank.full_rank_gate = false;
  add_parameters(of_rank, m, low);
  const std::int64_t wide = 96 * 128;
  // Projections of q, k, v, output and gate, step sizes, convolutions, decay with its biases.
  CHECK(full.attention_linear + full.attention_other ==
        5 * 7168 * wide + 7168 * 96 + 3 * wide * 4 + 7168 * 128 + 128 * wide + wide + 96 + 128);
  CHECK(full.attention_linear + full.attention_other - low.attention_linear - low.attention_other ==
        7168 * wide - 7168 * 128 - 128 * wide);
  const ClusterSpec c = plain_cluster(1);
  const Strategy s = plain_strategy(1, 1, 1);
  const BlockContext x{m, c, s, local_shape(m, s)};
  BlockOps ops;
  append_mixer(x, kDelta, ops);
  CHECK(kernel_named(ops, "delta in").gemm->n == 4 * wide + 96);
  CHECK(kernel_named(ops, "delta gates down").gemm->n == 128);
  CHECK(kernel_named(ops, "delta gates up").gemm->n == wide);
}

TEST_CASE("[F-PAR-4] a norm of the experts' latent has its weights, one kernel and its input") {
  ModelSpec m = dense(0);
  m.moe = MoeSpec{8, 2, 1024, 0, 0, 1, 1.0, false};
  m.moe->latent_size = 512;
  const ClusterSpec c = plain_cluster(1);
  const Strategy s = plain_strategy(1, 1, 1);
  const auto weights = [&] { return parameter_count(m).total; };
  const std::int64_t without = weights();
  const LayerSpec plain = layer_spec(m, 0);
  const BlockContext x{m, c, s, local_shape(m, s)};
  const double saved = layer_saved_bytes(x, plain).all;
  m.moe->latent_norm = true;
  CHECK(weights() - without == 6 * 512);
  const LayerSpec normed = layer_spec(m, 0);
  const double elements = real(x.shape.norm_tokens) * 512;
  CHECK(layer_saved_bytes(x, normed).all - saved == 2 * elements);
  BlockOps ops;
  append_feed_forward(x, normed.feed_forward, ops);
  CHECK(kernel_named(ops, "latent norm").bytes == 4 * elements);
}

TEST_CASE("what says nothing of the model is refused or named") {
  ModelSpec m = dense(0);
  GatedDeltaNetSpec kind = kDelta;
  kind.gate_rank = 0;
  ModelSpec normed = m;
  normed.moe = MoeSpec{8, 2, 1024, 0, 0, 1, 1.0, false};
  normed.moe->latent_norm = true;
  CHECK(has_errors(validate(normed)));
  m.layers = {{6, LayerSpec{kind, DenseMlpSpec{m.ffn_hidden_size}}}};
  CHECK(has_errors(validate(m)));
  const ClusterSpec c = plain_cluster(1);
  Strategy s = plain_strategy(1, 1, 1);
  s.runtime.fused_attn_res = true;
  const auto named = [&](const ModelSpec& model) {
    const Diagnostics found = validate(s, model, c);
    return std::any_of(found.begin(), found.end(), [](const Diagnostic& d) {
      return d.message.find("fused_attn_res' does nothing") != std::string::npos;
    });
  };
  CHECK(named(dense(0)));
  CHECK_FALSE(named(dense(2)));
}

TEST_CASE("Attention residuals exclude parallel blocks and hyper-connections") {
  ModelSpec m = dense(2);
  CHECK_FALSE(has_errors(validate(m)));
  m.parallel_block = true;
  CHECK(has_errors(validate(m)));
  m.parallel_block = false, m.mhc_num_residual_streams = 4;
  CHECK(has_errors(validate(m)));
}
