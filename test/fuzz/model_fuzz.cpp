// Any text as a model file and as a Hugging Face config.json. What parses is checked and, if it
// passes, counted: no size that the rules let through may overflow.
#include "fuzz/fuzz.hpp"
#include "io/load.hpp"
#include "spec/model.hpp"

namespace meshplan::fuzz {
namespace {

void check(const Result<ModelSpec>& model) {
  require_value_or_errors(model);
  if (!model.ok() || has_errors(validate(*model))) return;
  const ParameterCount count = parameter_count(*model);
  require(count.total > 0 && count.active > 0 && count.active <= count.total);
}

}  // namespace
}  // namespace meshplan::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace meshplan;
  const std::string_view text = fuzz::as_text(data, size);
  fuzz::check(parse_model(text, "fuzz.yaml"));
  fuzz::check(parse_hf_config(text, "config.json"));
  return 0;
}
