// Any text as a strategy file; what parses is written as key=value text and reads back the same.
#include "frameworks/preset.hpp"
#include "fuzz/fuzz.hpp"
#include "io/strategy_file.hpp"

MESHPLAN_FUZZ_TARGET(strategy_file) {
  using namespace meshplan;
  const std::string text(fuzz::as_text(data, size));
  Document document(text, "strategy.yaml");
  if (!document.ok()) {
    fuzz::require(!to_text(document.diagnostics()).empty());
    return 0;
  }
  const StrategyText read = read_strategy(document, framework_preset(Framework::kMegatron));
  if (!document.ok()) {
    fuzz::require(has_errors(document.diagnostics()) && !to_text(document.diagnostics()).empty());
    return 0;
  }
  const std::string written = to_text(read.strategy);
  if (written.find('=') == std::string::npos) return 0;
  const Result<StrategyText> again = read_strategy(written, framework_preset(Framework::kMegatron));
  fuzz::require(again.ok() && again->strategy == read.strategy);
  return 0;
}
