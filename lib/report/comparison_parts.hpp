#pragma once
// Parts of a comparison's text and document; private to this library.
#include <span>
#include <string>

#include "compare/losses.hpp"
#include "compare/memory_measure.hpp"
#include "compare/trace_comparison.hpp"
#include "report/json_value.hpp"
#include "report/table.hpp"

namespace meshplan {

[[nodiscard]] std::string trace_text(const TraceComparison& t, const TextOptions& options);
[[nodiscard]] Json trace_json(const TraceComparison& t);

[[nodiscard]] std::string losses_text(std::span<const TimeLoss> losses, const TextOptions& options);
[[nodiscard]] Json losses_json(std::span<const TimeLoss> losses);

// Measured memory beside the ledger of the plan's fullest pipeline rank.
[[nodiscard]] std::string memory_text(const MemoryMeasure& m, const PlanCost& plan,
                                      const TextOptions& options);
[[nodiscard]] Json memory_measure_json(const MemoryMeasure& m, const PlanCost& plan);

}  // namespace meshplan
