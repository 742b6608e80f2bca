#include "model/block_table.hpp"

#include "support/catch.hpp"

using namespace meshplan;

namespace {

ModelSpec layers(std::int64_t n) {
  ModelSpec m;
  m.num_layers = n;
  return m;
}

}  // namespace

TEST_CASE("layers that are alike are one block between the ends") {
  ModelSpec m = layers(6);
  m.mtp_layers = 2;
  const BlockTable table = block_table(m);
  REQUIRE(table.size() == 4);
  CHECK(table.of_layer == std::vector<std::size_t>(6, kFirstLayerBlock));
  CHECK_FALSE(table.is_layer(kEmbeddingBlock));
  CHECK(table.is_layer(1));
  CHECK_FALSE(table.is_layer(mtp_block(4)));
  CHECK_FALSE(table.is_layer(head_block(4)));
  const BlockCounts all = all_blocks(m, table);
  CHECK(std::vector<std::int64_t>(all.begin(), all.end()) == std::vector<std::int64_t>{1, 6, 2, 1});
}

TEST_CASE("layers that differ in window or experts are blocks of their own") {
  ModelSpec m = layers(7);
  m.window = 128, m.window_every = 2;  // layers 0, 2, 4, 6
  m.moe = MoeSpec{8, 2, 16, 0, 3, 1};
  const BlockTable table = block_table(m);
  const std::size_t dense = 1, dense_windowed = 2, experts = 3, experts_windowed = 4;
  CHECK(table.of_layer == std::vector<std::size_t>{dense_windowed, dense, dense_windowed, experts,
                                                   experts_windowed, experts, experts_windowed});
  CHECK(experts_of(table.layer(experts)) != nullptr);
  CHECK(window_of(table.layer(experts).mixer) == 0);
  CHECK(window_of(table.layer(dense_windowed).mixer) == 128);
  CHECK(mtp_layer(m) == table.layer(experts_windowed));
}

TEST_CASE(
    "[F-FP8-6] the first and last layers in bf16 are blocks beside the others of their kind") {
  ModelSpec m = layers(6);
  m.mtp_layers = 1;
  m.moe = MoeSpec{8, 2, 16, 0, 1, 1};  // the first layer is dense
  Strategy s;
  s.precision = Precision::kFp8;
  CHECK(block_table(m, s).of_layer == block_table(m).of_layer);
  s.runtime.num_layers_at_start_in_bf16 = 2, s.runtime.num_layers_at_end_in_bf16 = 1;
  const BlockTable table = block_table(m, s);
  const std::size_t dense = 1, experts = 2, wide = 3;  // the only dense layer is in bf16
  CHECK(table.of_layer == std::vector<std::size_t>{dense, wide, experts, experts, experts, wide});
  CHECK(table.in_bf16 == std::vector<bool>{true, false, true});
  CHECK(table.layer(wide) == table.layer(experts));
  CHECK(layer_kinds(table, all_blocks(m, table)) ==
        std::vector<LayerKindCount>{
            {"gqa + dense in bf16", 1}, {"gqa + experts", 3}, {"gqa + experts in bf16", 2}});
  s.runtime.num_layers_at_start_in_bf16 = 6, s.runtime.num_layers_at_end_in_bf16 = 0;
  CHECK(block_table(m, s).of_layer == block_table(m).of_layer);
  CHECK(block_table(m, s).in_bf16 == std::vector<bool>{true, true});
}

TEST_CASE("layers are counted by what they consist of, whatever their sizes") {
  ModelSpec m = layers(7);
  m.window = 128, m.window_every = 2;
  m.moe = MoeSpec{8, 2, 16, 0, 3, 1};
  const BlockTable table = block_table(m);
  using Kinds = std::vector<LayerKindCount>;
  CHECK(layer_kinds(table, all_blocks(m, table)) == Kinds{{"gqa + dense", 1},
                                                          {"gqa window + dense", 2},
                                                          {"gqa + experts", 2},
                                                          {"gqa window + experts", 2}});
  ModelSpec hybrid = layers(6);
  const AttentionSpec small{8, 8, 64}, large{16, 16, 64};
  hybrid.layers = {{2, {Mamba2Spec{}, NoneSpec{}}},
                   {1, {small, NoneSpec{}}},
                   {1, {large, NoneSpec{}}},
                   {2, {NoneSpec{}, DenseMlpSpec{}}}};
  const BlockTable kinds = block_table(hybrid);
  BlockCounts some = all_blocks(hybrid, kinds);
  const auto count_of = [&](const std::string& kind) {
    for (const LayerKindCount& k : layer_kinds(kinds, some)) {
      if (k.kind == kind) return k.layers;
    }
    return std::int64_t{0};
  };
  CHECK(count_of("mamba2") == 2);
  CHECK(count_of("gqa") == 2);
  CHECK(count_of("dense") == 2);
  for (std::int64_t& count : some) count = 0;
  CHECK(layer_kinds(kinds, some).empty());
}

TEST_CASE("values per block keep their order beyond what needs no memory") {
  for (const std::size_t blocks : {std::size_t{3}, PerBlock<int>::kInline, std::size_t{40}}) {
    PerBlock<int> a(blocks, 7);
    CHECK(a.size() == blocks);
    CHECK(std::count(a.begin(), a.end(), 7) == static_cast<std::ptrdiff_t>(blocks));
    a.embedding() = 1, a.mtp() = 2, a.head() = 3;
    PerBlock<int> b = a;
    CHECK(b == a);
    CHECK(b[0] == 1);
    CHECK(b[blocks - 2] == 2);
    CHECK(b[blocks - 1] == 3);
    b[0] = 5;
    CHECK_FALSE(b == a);
    a.assign(2, 9);
    CHECK(a.size() == 2);
    CHECK(a[1] == 9);
  }
}
