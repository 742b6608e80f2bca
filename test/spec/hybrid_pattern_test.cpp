// Hybrid patterns as Megatron-LM writes them
// (tests/unit_tests/ssm/test_hybrid_layer_allocation.py).
#include "spec/hybrid_pattern.hpp"

#include "support/catch.hpp"

using namespace meshplan;

namespace {

const Mamba2Spec kMamba{.num_heads = 8, .head_dim = 64, .state_size = 128, .num_groups = 8};

std::optional<LayerSpec> some_layer(const HybridSymbol& symbol) {
  switch (symbol.symbol) {
    case 'M':
      return LayerSpec{kMamba, NoneSpec{}};
    case '*':
      return LayerSpec{AttentionSpec{8, 8, 64, 0}, NoneSpec{}};
    case '-':
      return LayerSpec{NoneSpec{}, DenseMlpSpec{512}};
    default:
      return std::nullopt;
  }
}

}  // namespace

TEST_CASE("a pattern has a letter per layer, stages and passes of multi-token prediction") {
  const HybridPattern plain = parse_hybrid_pattern("M*M*");
  CHECK(plain.problem.empty());
  CHECK(plain.layers == "M*M*");
  CHECK(plain.stages.empty());
  CHECK(plain.num_predictions == 0);
  const HybridPattern whole = parse_hybrid_pattern("M-M-|M-M*-/*M/*M/*M");
  CHECK(whole.layers == "M-M-M-M*-");
  CHECK(whole.stages == std::vector<std::int64_t>{4, 5});
  CHECK(whole.prediction == "*M");
  CHECK(whole.num_predictions == 3);
  CHECK(parse_hybrid_pattern("MX*").problem.find("'X' is no layer") == 0);
  CHECK(parse_hybrid_pattern("M*/MM/M*").problem ==
        "the passes of multi-token prediction differ: 'MM' and 'M*'");
  CHECK(parse_hybrid_pattern("").problem == "the pattern has no layers");
}

TEST_CASE("a pattern becomes runs of layers, and these the pattern again") {
  ModelSpec m;
  CHECK(apply_hybrid_pattern(parse_hybrid_pattern("MM-M*-/*-"), some_layer, m).empty());
  CHECK(m.num_layers == 6);
  REQUIRE(m.layers.size() == 5);
  CHECK(m.layers[0].count == 2);
  CHECK(m.layers[0].layer.mixer == Mixer{kMamba});
  CHECK_FALSE(has_mixer(m.layers[1].layer));
  CHECK(m.mtp_layers == 1);
  REQUIRE(m.mtp_layer.has_value());
  CHECK(has_mixer(*m.mtp_layer));
  CHECK(has_feed_forward(*m.mtp_layer));
  CHECK(hybrid_pattern(m) == "MM-M*-/*-");
  CHECK(hybrid_pattern(m, {2, 4}) == "MM|-M*-/*-");
  m.layers[2].layer.mixer =
      Mamba2Spec{.num_heads = 4, .head_dim = 64, .state_size = 128, .num_groups = 4};
  CHECK_FALSE(hybrid_pattern(m).has_value());  // one letter, two kinds
}

TEST_CASE("what a pattern cannot say is named") {
  ModelSpec m;
  CHECK(apply_hybrid_pattern(parse_hybrid_pattern("ME"), some_layer, m) ==
        "the pattern has 'E', but no section 'experts' says what that is");
  CHECK(apply_hybrid_pattern(parse_hybrid_pattern("M-/MM"), some_layer, m)
            .find("multi-token prediction of 'MM' cannot be described") == 0);
}
