// Any text as measurements of plans, beside one result and as the result itself.
#include <nlohmann/json.hpp>

#include "fuzz/fuzz.hpp"
#include "report/html.hpp"

MESHPLAN_FUZZ_TARGET(validation) {
  using namespace meshplan;
  const std::string_view text = fuzz::as_text(data, size);
  const auto check = [](std::string_view result, std::string_view validation) {
    const Result<std::string> both = with_validation(result, validation, "v.json");
    fuzz::require_value_or_errors(both);
    if (!both.ok()) return;
    const auto json = nlohmann::json::parse(*both, nullptr, false);
    fuzz::require(json.is_object() && json.contains("validation"));
  };
  check(R"({"plans": [{"rank": 1, "strategy_text": "tp=2"}]})", text);
  // A result is an object: its reader refuses anything else before.
  if (is_json(text) && nlohmann::json::parse(text).is_object()) check(text, text);
  return 0;
}
