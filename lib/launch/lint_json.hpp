#pragma once
// Imported runs and what lint says of them as JSON.
#include <optional>
#include <string>
#include <string_view>

#include "base/units.hpp"
#include "launch/lint.hpp"

namespace meshplan {

// The planner's best for the same work, and what the run itself takes where it fits.
struct PlannerChoice {
  Strategy strategy;
  Seconds step_time;
  std::optional<Seconds> own_step_time;
};

// lint.schema.json
[[nodiscard]] std::string lint_document(std::string_view tool_version, const ImportedRun& run,
                                        const Diagnostics& found, const std::string& file,
                                        const std::optional<PlannerChoice>& planner);

// run.schema.json: the strategy that an argument list or script states.
[[nodiscard]] std::string run_document(std::string_view tool_version, const ImportedRun& run,
                                       const std::string& file);

// The keys that differ from the framework's preset, as a strategy file.
[[nodiscard]] std::string strategy_yaml(const Strategy& s);

}  // namespace meshplan
