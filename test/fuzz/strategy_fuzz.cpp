// Any text as a strategy; what parses is written and must read back to the same strategy.
#include <string>

#include "frameworks/preset.hpp"
#include "fuzz/fuzz.hpp"
#include "io/load.hpp"
#include "spec/strategy.hpp"

MESHPLAN_FUZZ_TARGET(strategy) {
  using namespace meshplan;
  const std::string text(fuzz::as_text(data, size));
  // Without '=' the text names a file, and the fuzzer is not to open what it makes up.
  if (text.find('=') == std::string::npos || text.find('/') != std::string::npos) return 0;
  const Result<Strategy> strategy = load_strategy(text, framework_preset(Framework::kMegatron));
  fuzz::require_value_or_errors(strategy);
  if (!strategy.ok()) return 0;
  const std::string written = to_text(*strategy);
  if (written.find('=') == std::string::npos) return 0;
  const Result<Strategy> again = load_strategy(written, framework_preset(Framework::kMegatron));
  fuzz::require(again.ok() && *again == *strategy);
  return 0;
}
