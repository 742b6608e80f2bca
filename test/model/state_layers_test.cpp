// Layers with a state, parts alone, latent experts, indices, encoders: against numbers worked out
// by hand from their papers and codes.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "cost/block.hpp"
#include "cost/step.hpp"
#include "cost/support.hpp"
#include "io/load.hpp"
#include "kernels/kernels.hpp"
#include "model/encoder.hpp"
#include "model/flops.hpp"
#include "model/kinds.hpp"
#include "model/layer_support.hpp"
#include "model/parameters.hpp"
#include "model/rules.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

ModelSpec rms(std::int64_t hidden) {
  ModelSpec m;
  m.name = "m";
  m.num_layers = 1;
  m.hidden_size = hidden;
  m.num_attention_heads = m.num_query_groups = 8;
  m.head_dim = hidden / 8;
  m.ffn_hidden_size = 4 * hidden;
  m.norm = Norm::kRmsNorm;
  m.position_embedding = PositionEmbedding::kNone;
  m.vocab_size = 1000;
  m.max_seq_length = 4096;
  return m;
}

ModelSpec of_layer(ModelSpec m, const LayerSpec& layer) {
  m.layers = {{m.num_layers, layer}};
  return m;
}

BlockOps ops_of(const BlockContext& x, const Mixer& mixer) {
  BlockOps ops;
  append_mixer(x, mixer, ops);
  return ops;
}

Strategy bf16(std::int64_t tp, std::int64_t cp = 1) {
  Strategy s = plain_strategy(tp, 1, 1);
  s.cp = cp;
  s.precision = Precision::kBf16;
  s.flash_attention = true;
  return s;
}

// Of Nemotron-H 56B (2504.03624): 16,384 inner features.
const Mamba2Spec kNemotron{.num_heads = 256, .head_dim = 64, .state_size = 256, .num_groups = 8};
// Of Qwen3-Next 80B: keys of 2,048 and values of 4,096 elements.
const GatedDeltaNetSpec kQwenNext{
    .num_key_heads = 16, .num_value_heads = 32, .key_head_dim = 128, .value_head_dim = 128};

}  // namespace

TEST_CASE("[F-SSM-1] a Mamba-2 layer's parameters are those of its projections and scan") {
  // 8192 (2 * 16384 + 2 * 8 * 256 + 256) + 16384 * 8192 + (16384 + 4096) * 5 + 3 * 256 + 16384
  CHECK(mixer_parameters(rms(8192), kNemotron) ==
        304'087'040 + 134'217'728 + 102'400 + 768 + 16'384);
  CHECK(layer_parameters(rms(8192), {kNemotron, NoneSpec{}}).norms == 8192);
  CHECK(token_flops(kNemotron, 8192) == 7.0 * 16384 * 256);
}

TEST_CASE("[F-SSM-4] a Mamba layer's parameters are those of mamba-130m") {
  // state-spaces/mamba-130m-hf: h 768, d 1536, N 16, r 48, k 4, of which one layer has
  // 3 * 768 * 1536 + 1536 * 5 + 1536 * 80 + 48 * 1536 + 1536 + 1536 * 16 + 1536.
  const MambaSpec kind{.inner_size = 1536, .dt_rank = 48};
  CHECK(mixer_parameters(rms(768), kind) ==
        3'538'944 + 7'680 + 122'880 + 73'728 + 1'536 + 24'576 + 1'536);
  MambaSpec jamba = kind;
  jamba.inner_norms = true;
  CHECK(mixer_parameters(rms(768), jamba) - mixer_parameters(rms(768), kind) == 48 + 2 * 16);
}

TEST_CASE("[F-GDN-1] a gated delta layer's parameters are those of Qwen3-Next and Kimi Linear") {
  // 2048 (2 * 2048 + 2 * 4096 + 2 * 32) + 8192 * 4 + 2 * 32 + 128 + 4096 * 2048
  CHECK(mixer_parameters(rms(2048), kQwenNext) == 25'296'896 + 32'768 + 64 + 128 + 8'388'608);
  CHECK(token_flops(kQwenNext, 4096) == 8.0 * 32 * 128 * 128);
  // Kimi Linear: h 2304, 32 heads of 128 for keys and values, gates of rank 128:
  // 2304 (3 * 4096 + 32) + 3 * 4096 * 4 + 4096 * 2304 + 128 + 2 * 2304 * 128 + 128 * 2 * 4096
  //   + 4096 + 32
  const GatedDeltaNetSpec kda{32, 32, 128, 128, 4, 128};
  CHECK(mixer_parameters(rms(2304), kda) ==
        28'385'280 + 49'152 + 9'437'184 + 128 + 589'824 + 1'048'576 + 4'096 + 32);
}

TEST_CASE("[F-LGT-1] a lightning attention layer's parameters are those of MiniMax-01") {
  // h 6144, 64 heads of 128: five matrices of 6144 x 8192 and a norm of 8192.
  CHECK(mixer_parameters(rms(6144), LightningSpec{64, 128}) == 5 * 6144 * 8192 + 8192);
  CHECK(token_flops(LightningSpec{64, 128}, 4096) == 4.0 * 64 * 128 * 128);
}

TEST_CASE("[F-SCAN-1] a scan takes the time of its products or of its traffic") {
  // 312 TFLOP/s, attention 0.6 of it, Triton's share, and of that what scans reach.
  const DeviceSpec d = plain_device();
  const double rate = 312e12 * 0.6 * 0.4818 / std::sqrt(1.3 * 1.5);
  CHECK(fused_time(d, {.flops = 1e12, .bytes = 1e6, .kernels = 2}, false).si() ==
        Approx(1e12 / rate + 2 * 3e-6));
  CHECK(fused_time(d, {.flops = 1e6, .bytes = 1e9, .kernels = 3}, false).si() ==
        Approx(1e9 / (2e12 * 0.85) + 3 * 3e-6));
  CHECK(fused_time(d, {.flops = 1e12, .kernels = 0, .programs = 27}, false).si() ==
        Approx(4 * 1e12 / rate));  // a quarter of 108 multiprocessors
}

TEST_CASE("[F-SCAN-1] the output of Mamba-2's chunks takes what was measured on H800") {
  // 80 heads of 64, state 128, chunks of 256: a token is 2 d N + d (C + 64) operations and, without
  // a gate, 3 * 2 d + 2 (d N / C + N) + 4 C bytes. tile-ai/tilelang benchmark/mamba2: Triton's 106
  // TFLOP/s at 8 sequences of 4,096, where d (C + 2 N) is counted.
  const DataFolders data(std::vector<std::filesystem::path>{MESHPLAN_SOURCE_DIR});
  const DeviceSpec d = load_cluster("dgx-h100", data)->device;
  constexpr double kTokens = 8 * 4096, kInner = 80 * 64, kState = 128, kChunk = 256;
  FusedWork work{.kernels = 1};
  work.flops = kTokens * kInner * (2 * kState + kChunk + 64);
  work.bytes = kTokens * (6 * kInner + 2 * (kInner * kState / kChunk + kState) + 4 * kChunk);
  const double measured = kTokens * kInner * (kChunk + 2 * kState) / 106e12;
  CHECK(fused_time(d, work, false).si() == Approx(measured).epsilon(0.1));
}

TEST_CASE("[F-SSM-2] the chunked scan's products are those of its kernels") {
  // d = 2048, N = 128, g N = 1024, C = 128: 2 * 2 d N + d (C + 64) + 2 C g N per token.
  const Mamba2Spec kind{.num_heads = 32, .head_dim = 64, .state_size = 128, .num_groups = 8};
  const ModelSpec m = of_layer(rms(1024), {kind, NoneSpec{}});
  const ClusterSpec c = plain_cluster(4);
  for (const std::int64_t tp : {1, 4}) {
    const Strategy s = bf16(tp);
    const BlockContext x{m, c, s, local_shape(m, s)};
    const BlockOps ops = ops_of(x, kind);
    const double tokens = 2048.0 / static_cast<double>(tp);
    CHECK(kernel_named(ops, "mamba scan").flops ==
          Approx(tokens * (1'048'576 + 393'216 + 262'144)));
    // d N and 2 C g N again, 4 * 2 d N, 3 d (C + 64), 4 C g N.
    CHECK(kernel_named(ops, "mamba scan", Pass::kBackwardInput).flops ==
          Approx(tokens * (524'288 + 262'144 + 4 * 524'288 + 3 * 393'216 + 524'288)));
    // 2 d + 2 g N + heads columns.
    CHECK(kernel_named(ops, "mamba in").gemm->n == (4096 + 2048 + 32) / tp);
    CHECK(kernel_named(ops, "mamba out").gemm->k == 2048 / tp);
  }
}

TEST_CASE("[F-HOST-3] the host issues a scan's kernels more slowly than others") {
  const Mamba2Spec kind{.num_heads = 32, .head_dim = 64, .state_size = 128, .num_groups = 8};
  const ModelSpec m = of_layer(rms(1024), {kind, NoneSpec{}});
  const ClusterSpec c = plain_cluster(1);
  const Strategy s = bf16(1);
  const BlockContext x{m, c, s, local_shape(m, s)};
  const BlockOps ops = ops_of(x, kind);
  // Sums of decays, states, passing, products, output; backward 14.
  CHECK(kernel_named(ops, "mamba scan").launches == Approx(5 * 13.2 / 5));
  CHECK(kernel_named(ops, "mamba scan", Pass::kBackwardInput).launches == Approx(14 * 13.2 / 5));
  CHECK(kernel_named(ops, "mamba in").launches == 1);
}

TEST_CASE("[F-SSM-3] Mamba-2 keeps its projection, the scan's output and the norm's input") {
  const Mamba2Spec kind{.num_heads = 32, .head_dim = 64, .state_size = 128, .num_groups = 8};
  const ModelSpec m = of_layer(rms(1024), {kind, NoneSpec{}});
  const ClusterSpec c = plain_cluster(1);
  const Strategy s = bf16(1);
  const BlockContext x{m, c, s, local_shape(m, s)};
  // Two bytes: norm 1024, projection's input 1024, its output 6176, the scan's 2048, the gated
  // norm's input 2048 and the output projection's 2048; 2048 tokens.
  CHECK(saved_bytes(kind, x).all == 2048.0 * 2 * (1024 + 1024 + 6176 + 2048 + 2048 + 2048));
  CHECK(saved_bytes(kind, x).selective == 2048.0 * 2 * 1024);
}

TEST_CASE("[F-SSM-5] a Mamba scan is vector work, or traffic") {
  const MambaSpec kind{.inner_size = 2048, .dt_rank = 64};
  const ModelSpec m = of_layer(rms(1024), {kind, NoneSpec{}});
  const ClusterSpec c = plain_cluster(1);
  const Strategy s = bf16(1);
  const BlockContext x{m, c, s, local_shape(m, s)};
  const BlockOps ops = ops_of(x, kind);
  const double work = 9.0 * 2048 * 2048 * 16 / 19.5e12;
  const double traffic = 4.0 * 2 * 2048 * 2048 / (2e12 * 0.85) + 3e-6;
  CHECK(kernel_named(ops, "mamba scan").time.si() == Approx(std::max(work, traffic)));
  CHECK(kernel_named(ops, "mamba scan", Pass::kBackwardInput).bytes == 8.0 * 2 * 2048 * 2048);
}

TEST_CASE("[F-GDN-2] the delta rule's products are those of its kernels") {
  const ModelSpec m = of_layer(rms(2048), {kQwenNext, NoneSpec{}});
  const ClusterSpec c = plain_cluster(1);
  const Strategy s = bf16(1);
  const BlockContext x{m, c, s, local_shape(m, s)};
  const BlockOps ops = ops_of(x, kQwenNext);
  // K = V = 4096, S = 32 * 128 * 128 = 524,288, C = 64: 2 C K = 524,288, 2/3 C^2 * 32 = 87,381.33,
  // twice 2 C (K + V) = 2,097,152, and 2 S.
  CHECK(kernel_named(ops, "delta rule").flops ==
        Approx(2048 * (524'288 + 87'381.333333 + 2'097'152 + 1'048'576)));
  CHECK(kernel_named(ops, "delta rule scan").flops == Approx(2048.0 * 4 * 524'288));
  CHECK(kernel_named(ops, "delta rule scan", Pass::kBackwardInput).flops ==
        Approx(2048.0 * 10 * 524'288));
  CHECK(kernel_named(ops, "delta in").gemm->n == 2 * 2048 + 2 * 4096 + 2 * 32);
}

TEST_CASE("[F-GDN-3] the delta rule keeps its inputs and the inverse of every chunk") {
  const ModelSpec m = of_layer(rms(2048), {kQwenNext, NoneSpec{}});
  const ClusterSpec c = plain_cluster(1);
  const Strategy s = bf16(1);
  const BlockContext x{m, c, s, local_shape(m, s)};
  // Projection 12,352, convolution 8,192, queries and keys of 32 heads 8,192, values and output
  // 8,192, step sizes 32, inverse 64 * 32, all of two bytes; decays of four bytes; norm, its output
  // and the input of the output projection.
  const double inside = 2.0 * (12'352 + 8'192 + 8'192 + 8'192 + 32 + 2'048) + 4 * 32;
  CHECK(saved_bytes(kQwenNext, x).all == 2048 * (inside + 2 * (2048 + 2048 + 4096)));
}

TEST_CASE("[F-LGT-2] lightning attention computes blocks of 256 tokens and one state") {
  const LightningSpec kind{16, 64};
  const ModelSpec m = of_layer(rms(1024), {kind, NoneSpec{}});
  const ClusterSpec c = plain_cluster(1);
  const Strategy s = bf16(1);
  const BlockContext x{m, c, s, local_shape(m, s)};
  const BlockOps ops = ops_of(x, kind);
  CHECK(kernel_named(ops, "linear attention").flops == 2048.0 * (2 * 256 * 1024 + 4 * 1024 * 64));
  CHECK(kernel_named(ops, "linear attention in").gemm->n == 4096);
}

TEST_CASE("[F-CONV-1] a short convolution reads and writes its channels") {
  const Mamba2Spec kind{.num_heads = 32, .head_dim = 64, .state_size = 128, .num_groups = 8};
  const ModelSpec m = of_layer(rms(1024), {kind, NoneSpec{}});
  const ClusterSpec c = plain_cluster(1);
  const Strategy s = bf16(1);
  const BlockContext x{m, c, s, local_shape(m, s)};
  const BlockOps ops = ops_of(x, kind);
  CHECK(kernel_named(ops, "convolution").bytes == 2.0 * 2 * 2048 * (2048 + 2 * 1024));
  CHECK(kernel_named(ops, "convolution", Pass::kBackwardInput).bytes == 5.0 * 2 * 2048 * 4096);
}

TEST_CASE("[F-CP-4] context-parallel ranks exchange tokens for heads around a scan") {
  const Mamba2Spec kind{.num_heads = 32, .head_dim = 64, .state_size = 128, .num_groups = 8};
  const ModelSpec m = of_layer(rms(1024), {kind, NoneSpec{}});
  const ClusterSpec c = plain_cluster(2);
  const Strategy s = bf16(1, 2);
  const BlockContext x{m, c, s, local_shape(m, s)};
  const BlockOps ops = ops_of(x, kind);
  REQUIRE(ops.comm.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(ops.comm[i].operation == Collective::kAllToAll);
    CHECK(ops.comm[i].dimension == CommDimension::kCp);
    CHECK(ops.comm[i].bytes.si() == 1024.0 * 2 * (i % 2 == 0 ? 6176 : 2048));
  }
  const auto refused = [&](std::int64_t tp, std::int64_t cp) {
    const ClusterSpec few = plain_cluster(tp * cp);
    Strategy t = bf16(tp, cp);
    return to_text(validate(complete(t, m, few), m, few));
  };
  CHECK(refused(16, 1).find("'tp' must divide the 8 Mamba groups") != std::string::npos);
  CHECK(refused(1, 64).find("tp * cp = 64 must divide the 32 Mamba heads") != std::string::npos);
}

TEST_CASE("a layer of a mixer or of a feed-forward alone has one norm and one residual") {
  const ModelSpec m = rms(1024);
  const LayerSpec whole{AttentionSpec{8, 8, 128, 0}, DenseMlpSpec{4096}};
  const LayerSpec mixer{whole.mixer, NoneSpec{}}, rest{NoneSpec{}, whole.feed_forward};
  const LayerParameters all = layer_parameters(m, whole), a = layer_parameters(m, mixer),
                        b = layer_parameters(m, rest);
  CHECK(a.norms == 1024);
  CHECK(b.norms == 1024);
  CHECK(a.attention_linear == all.attention_linear);
  CHECK(b.mlp_linear == all.mlp_linear);
  const ClusterSpec c = plain_cluster(1);
  const Strategy s = bf16(1);
  ModelSpec split = m;
  split.num_layers = 2;
  split.layers = {{1, mixer}, {1, rest}};
  const ModelSpec one = of_layer(m, whole);
  CHECK_FALSE(has_errors(validate(split)));
  CHECK(parameter_count(split).total == parameter_count(one).total);
  CHECK(model_flops(split, 2048, 1).si() == Approx(model_flops(one, 2048, 1).si()));
  const BlockCosts costs = block_costs(split, c, s), together = block_costs(one, c, s);
  REQUIRE(costs.size() == 5);
  CHECK((costs[1].forward.compute + costs[2].forward.compute).si() ==
        Approx(together[1].forward.compute.si()));
  CHECK(costs[1].saved.none + costs[2].saved.none == together[1].saved.none);
  ModelSpec nothing = of_layer(m, {NoneSpec{}, NoneSpec{}});
  CHECK(to_text(validate(nothing)).find("neither a mixer nor a feed-forward") != std::string::npos);
}

TEST_CASE(
    "[F-PAR-4] latent experts are as wide as their latent, and are projected to and from it") {
  // Nemotron 3 Super: h 4096, latent 1024, 512 experts of 2688, 22 per token, shared 5376.
  ModelSpec m = rms(4096);
  MoeSpec moe{.num_experts = 512,
              .top_k = 22,
              .expert_ffn_hidden_size = 2688,
              .shared_expert_ffn_hidden_size = 5376,
              .latent_size = 1024};
  LayerParameters p;
  add_parameters(moe, m, p);
  CHECK(p.experts == 512LL * 2 * 1024 * 2688);
  CHECK(p.router == 512 * 4096 + 2 * 4096 * 1024);
  CHECK(p.mlp_linear == 2 * 4096 * 5376);
  const ClusterSpec c = plain_cluster(2);
  Strategy s = plain_strategy(1, 1, 2);
  s.precision = Precision::kBf16;
  s.ep = 2;
  s.runtime.flex_dispatcher = false;
  m.moe = moe;
  const BlockContext x{m, c, s, local_shape(m, s)};
  BlockOps ops;
  append_feed_forward(x, moe, ops);
  REQUIRE_FALSE(ops.comm.empty());
  CHECK(ops.comm[0].bytes.si() == 2048.0 * 22 * 1024 * 2);  // copies of the latent are sent
  CHECK(kernel_named(ops, "latent down").gemm->n == 1024);
  CHECK(kernel_named(ops, "latent up").gemm->k == 1024);
}

TEST_CASE("[F-IDX-1] the index of sparse attention has DeepSeek-V3.2's parameters") {
  // h 7168, queries of 64 heads of 128 from 1536, one key of 128 with a LayerNorm, 64 weights.
  const LatentAttentionSpec dense{128, MlaSpec{1536, 512, 128, 64, 128}, 0};
  LatentAttentionSpec sparse = dense;
  sparse.sizes.index = {64, 128, 2048};
  const ModelSpec m = rms(7168);
  CHECK(mixer_parameters(m, sparse) - mixer_parameters(m, dense) ==
        1536 * 64 * 128 + 7168 * 128 + 2 * 128 + 7168 * 64);
}

TEST_CASE("[F-IDX-2] an index scores all tokens, and attention sees the chosen") {
  AttentionSpec kind{8, 8, 128, 0};
  kind.index = {4, 64, 256};
  const ModelSpec m = of_layer(rms(1024), {kind, NoneSpec{}});
  const ClusterSpec c = plain_cluster(1);
  const Strategy s = bf16(1);
  const BlockContext x{m, c, s, local_shape(m, s)};
  const BlockOps ops = ops_of(x, kind);
  CHECK(kernel_named(ops, "index scores").flops == 2.0 * 2048 * 1024 * 4 * 64);
  CHECK(kernel_named(ops, "attention").attention->pair_fraction ==
        Approx(causal_fraction(2048, 2048, 256)));
  // 2 * 256 * 8 * 256 for the scores that are kept and 2 * 2048 * 4 * 64 for all of the index.
  CHECK(token_flops(kind, 2048) == 2.0 * 256 * 8 * 256 + 2.0 * 2048 * 256);
}

TEST_CASE("[F-ATT-3] tokens of a chunk see those before them in it") {
  AttentionSpec kind{8, 8, 128, 512};
  kind.chunked = true;
  const ModelSpec m = of_layer(rms(1024), {kind, NoneSpec{}});
  const ClusterSpec c = plain_cluster(1);
  const Strategy s = bf16(1);
  const BlockContext x{m, c, s, local_shape(m, s)};
  // Four chunks of 512 * 513 / 2 pairs.
  CHECK(kernel_named(ops_of(x, kind), "attention").attention->pair_fraction ==
        Approx(4.0 * 512 * 513 / 2 / (2048.0 * 2048)));
}

TEST_CASE("gated, narrow-valued and key-valued attention project what they have") {
  const ModelSpec m = rms(1024);
  AttentionSpec gated{8, 2, 128, 0};
  gated.output_gate = true;
  CHECK(mixer_parameters(m, gated) == 1024 * (2 * 1024 + 2 * 256) + 1024 * 1024);
  AttentionSpec narrow{8, 2, 192, 0};
  narrow.v_head_dim = 128;
  CHECK(mixer_parameters(m, narrow) == 1024 * (8 * 192 + 2 * 192 + 2 * 128) + 8 * 128 * 1024);
  AttentionSpec shared{8, 2, 128, 0};
  shared.shared_values = true;
  CHECK(mixer_parameters(m, shared) == 1024 * (1024 + 256) + 1024 * 1024);
}

TEST_CASE("[F-NORM-2] norms behind attention and MLP are two more of each layer") {
  ModelSpec m = rms(1024);
  const LayerSpec layer = layer_spec(m, 0);
  const std::int64_t before = layer_parameters(m, layer).norms;
  m.sandwich_norm = true;
  CHECK(before == 2 * 1024);
  CHECK(layer_parameters(m, layer).norms == 4 * 1024);
}

TEST_CASE("passes of one prediction layer have its weights once") {
  ModelSpec m = rms(1024);
  m.mtp_layers = 3;
  const std::int64_t three = parameter_count(m).mtp;
  m.mtp_shared = true;
  CHECK(3 * parameter_count(m).mtp == three);
  m.mtp_layer = LayerSpec{NoneSpec{}, DenseMlpSpec{1024}};
  // 2 * 1024 * 1024 of the layer and its norm, 2 * 1024 * 1024 of the projection and three norms.
  CHECK(parameter_count(m).mtp == 4 * 1024 * 1024 + 4 * 1024);
}

TEST_CASE("[F-VIT-1] an encoder's parameters are those of SigLIP so400m") {
  // 27 layers of 1152, MLP 4304, biases, patches of 14 x 14 x 3: without positions and projector
  // 27 (4 * 1152^2 + 4 * 1152 + 2 * 1152 * 4304 + 4304 + 1152 + 4 * 1152) + (588 + 1) * 1152.
  ModelSpec m = rms(2048);
  m.encoder = EncoderSpec{.num_layers = 27,
                          .hidden_size = 1152,
                          .num_attention_heads = 16,
                          .ffn_hidden_size = 4304,
                          .patches_per_image = 256,
                          .merged_patches = 4};
  const std::int64_t projector = 4 * 1152 * 2048 + 2048 + 2 * 1152;
  CHECK(encoder_parameters(m).vision_model ==
        27LL * (5'308'416 + 4'608 + 9'916'416 + 4'304 + 1'152 + 4'608) + 678'528);
  CHECK(encoder_parameters(m).vision_projection == projector);
  CHECK(parameter_count(m).encoder == encoder_parameters(m).all());
  // Heads that tensor ranks cannot split are on every one of them.
  CHECK(encoder_parameters_of_device(m, bf16(32)).all() == encoder_parameters(m).all());
  CHECK(encoder_parameters_of_device(m, bf16(4)).all() < encoder_parameters(m).all() / 2);
}

TEST_CASE("[F-VIT-2] an encoder's layers see all patches of each image") {
  ModelSpec m = rms(2048);
  m.encoder = EncoderSpec{.num_layers = 3,
                          .hidden_size = 1024,
                          .num_attention_heads = 16,
                          .ffn_hidden_size = 4096,
                          .patches_per_image = 256,
                          .images_per_sequence = 2};
  const ClusterSpec c = plain_cluster(1);
  const Strategy s = bf16(1);
  const BlockContext x{m, c, s, local_shape(m, s)};
  BlockOps ops;
  append_encoder(x, ops);
  const KernelOp& attention = kernel_named(ops, "attention");
  CHECK(attention.attention->batch == 2);
  CHECK(attention.attention->pair_fraction == 1);
  CHECK(attention.flops == Approx(3.0 * 2 * 2 * 16 * 256 * 256 * 128));
  CHECK(kernel_named(ops, "patches").gemm->k == 14 * 14 * 3);
}

TEST_CASE("[F-VIT-3] an encoder keeps what each of its layers keeps") {
  ModelSpec m = rms(2048);
  m.encoder = EncoderSpec{.num_layers = 1,
                          .hidden_size = 1024,
                          .num_attention_heads = 16,
                          .ffn_hidden_size = 4096,
                          .patches_per_image = 256};
  const ClusterSpec c = plain_cluster(1);
  const Strategy s = bf16(1);
  const BlockContext x{m, c, s, local_shape(m, s)};
  const double one = encoder_saved_bytes(x);
  m.encoder->num_layers = 3;
  const double rest = 256.0 * 2 * (588 + 2 * 1024);  // patches and projector
  CHECK(encoder_saved_bytes(x) - rest == Approx(3 * (one - rest)));
}
