// moe.imbalance as a number, a histogram or a Zipf exponent.
#include "spec/expert_load.hpp"

#include <string>

#include "io/load.hpp"
#include "support/catch.hpp"

using namespace meshplan;

namespace {

std::string model_with(const std::string& imbalance) {
  return "name: m\nnum_layers: 2\nhidden_size: 64\nnum_attention_heads: 4\nvocab_size: 100\n"
         "max_seq_length: 64\nmoe:\n  num_experts: 4\n  top_k: 2\n  expert_ffn_hidden_size: 8\n"
         "  imbalance: " +
         imbalance + "\n";
}

MoeSpec read(const std::string& imbalance) {
  const Result<ModelSpec> m = parse_model(model_with(imbalance), "m.yaml");
  REQUIRE(m.ok());
  return *m->moe;
}

std::string errors_of(const std::string& imbalance) {
  const Result<ModelSpec> m = parse_model(model_with(imbalance), "m.yaml");
  REQUIRE_FALSE(m.ok());
  return to_text(m.errors());
}

}  // namespace

TEST_CASE("an imbalance may be a number, a histogram or an exponent") {
  CHECK(read("1.3").imbalance == 1.3);
  CHECK(read("1.3").rank_loads.empty());
  const MoeSpec histogram = read("{histogram: [100, 300, 150, 50]}");
  CHECK(histogram.imbalance == Approx(2));
  CHECK(histogram.load_histogram == std::vector<double>{100, 300, 150, 50});
  CHECK(rank_load(histogram, 4).p99 == Approx(2));
  // 300 with 50, 100 or 150 beside it: 350, 400 or 450 of 600, each in a third of the placements.
  CHECK(rank_load(histogram, 2).median == Approx(400.0 / 300));
  CHECK(rank_load(histogram, 2).p99 == Approx(450.0 / 300));
  const MoeSpec zipf = read("{zipf: 0.5}");
  CHECK(zipf.load_zipf == 0.5);
  CHECK(zipf.imbalance == Approx(zipf_loads(4, 2, 0.5).front()));
}

TEST_CASE("a malformed imbalance is reported where it stands") {
  CHECK(errors_of("{zipf: 0.5, histogram: [1, 1, 1, 1]}") ==
        "m.yaml:11:37: error: 'moe.imbalance' needs 'histogram' or 'zipf', not both\n"
        "    imbalance: {zipf: 0.5, histogram: [1, 1, 1, 1]}\n"
        "                                      ^\n"
        "  hint: write a number, {histogram: [tokens of each expert]} or {zipf: exponent}\n");
  CHECK_THAT(errors_of("{}"), Catch::Contains("needs 'histogram' or 'zipf'"));
  CHECK_THAT(errors_of("{zipff: 1}"), Catch::Contains("did you mean 'zipf'?"));
  CHECK_THAT(errors_of("{histogram: [1, x, 1, 1]}"), Catch::Contains("moe.imbalance.histogram[1]"));
  CHECK_THAT(errors_of("{histogram: [1, 1]}"),
             Catch::Contains("needs one load for each of the 4 experts, got 2"));
  CHECK_THAT(errors_of("{zipf: 9}"), Catch::Contains("'moe.imbalance.zipf' must be from 0 to 8"));
  CHECK_THAT(errors_of("often"), Catch::Contains("m.yaml:11:14"));
}
