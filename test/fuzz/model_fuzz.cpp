// Any text as a model file. What parses is checked and, if it passes, counted (no size that the
// rules let through may overflow), written, and reads back to the same model.
#include "fuzz/fuzz.hpp"
#include "io/load.hpp"
#include "model/parameters.hpp"
#include "model/rules.hpp"
#include "report/model_yaml.hpp"
#include "spec/model.hpp"

MESHPLAN_FUZZ_TARGET(model) {
  using namespace meshplan;
  const Result<ModelSpec> model = parse_model(fuzz::as_text(data, size), "fuzz.yaml");
  fuzz::require_value_or_errors(model);
  if (!model.ok() || has_errors(validate(*model))) return 0;
  const ParameterCount count = parameter_count(*model);
  fuzz::require(count.total > 0 && count.active > 0 && count.active <= count.total);
  const Result<ModelSpec> again = parse_model(model_yaml(*model), "written.yaml");
  fuzz::require(again.ok() && *again == *model);
  return 0;
}
