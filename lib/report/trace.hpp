#pragma once
// One step as a trace that Perfetto and chrome://tracing open.
#include <string>
#include <string_view>

#include "cost/timeline.hpp"
#include "report/json.hpp"

namespace meshplan {

// Trace Event Format (Chrome): a process per pipeline rank; its threads are the compute stream, the
// sends, and what follows the pipeline. trace.schema.json. `name`: what the trace is of.
[[nodiscard]] std::string trace_document(const ToolInfo& tool, std::string_view name,
                                         const StepTimeline& t);

}  // namespace meshplan
