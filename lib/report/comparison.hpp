#pragma once
// Measured runs beside their predictions, for people and for programs.
#include <span>
#include <string>

#include "compare/comparison.hpp"
#include "report/json.hpp"
#include "report/table.hpp"

namespace meshplan {

[[nodiscard]] std::string comparison_text(std::span<const ComparedRun> runs,
                                          const TextOptions& options);
// compare.schema.json
[[nodiscard]] std::string comparison_document(const ToolInfo& tool,
                                              std::span<const ComparedRun> runs);

}  // namespace meshplan
