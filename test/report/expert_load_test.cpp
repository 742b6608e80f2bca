// Loads of experts survive being written: results and model files read back to the same model.
#include "spec/expert_load.hpp"

#include <nlohmann/json.hpp>

#include "io/load.hpp"
#include "report/json.hpp"
#include "report/model_yaml.hpp"
#include "report/sample.hpp"
#include "support/catch.hpp"

using namespace meshplan;

TEST_CASE("a model with uneven experts reads back from its file and from its document") {
  ModelSpec m = sample_model();
  m.moe = MoeSpec{.num_experts = 4, .top_k = 2, .expert_ffn_hidden_size = 512};
  const int kind = GENERATE(0, 1, 2);
  if (kind == 0) m.moe->imbalance = 1.25;
  if (kind == 1) m.moe->load_histogram = {100, 300, 150.5, 50};
  if (kind == 2) m.moe->load_zipf = 0.7;
  derive_loads(*m.moe);
  const Result<ModelSpec> again = parse_model(model_yaml(m), "again.yaml");
  if (!again) FAIL(to_text(again.errors()));
  CHECK(again->moe == m.moe);
  const auto json = nlohmann::json::parse(model_document({"0"}, m));
  const Result<ModelSpec> from_json = parse_model(json.at("model").at("spec").dump(), "spec.json");
  if (!from_json) FAIL(to_text(from_json.errors()));
  CHECK(from_json->moe == m.moe);
}
