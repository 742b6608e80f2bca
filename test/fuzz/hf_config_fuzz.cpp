// Any text as a Hugging Face config.json. What parses is checked and, if it passes, counted, and
// the model file that is made of it reads back to the same model.
#include "fuzz/fuzz.hpp"
#include "io/load.hpp"
#include "model/parameters.hpp"
#include "model/rules.hpp"
#include "report/model_yaml.hpp"
#include "spec/model.hpp"

MESHPLAN_FUZZ_TARGET(hf_config) {
  using namespace meshplan;
  const Result<ModelSpec> model = parse_hf_config(fuzz::as_text(data, size), "config.json");
  fuzz::require_value_or_errors(model);
  if (!model.ok() || has_errors(validate(*model))) return 0;
  const ParameterCount count = parameter_count(*model);
  fuzz::require(count.total > 0 && count.active > 0 && count.active <= count.total);
  const Result<ModelSpec> again = parse_model(model_yaml(*model), "model.yaml");
  fuzz::require(again.ok() && *again == *model);
  return 0;
}
