#pragma once
// Predicted against measured, for people and as a document.
#include <string>

#include "report/json.hpp"
#include "report/table.hpp"
#include "validate/validate.hpp"

namespace meshplan {

struct ValidationTextOptions {
  bool every_operation = false;  // also those that hardly weigh
};

// The plans ranked anew, then each plan's operations with ratio and share of the step, and what was
// not measured and why.
[[nodiscard]] std::string validation_text(const ModelSpec& m, const Machine& machine,
                                          const Validation& v, const ValidationTextOptions& what,
                                          const TextOptions& options);

// What would be measured, without measuring.
[[nodiscard]] std::string validation_agenda_text(const Machine& machine, const Validation& v,
                                                 const TextOptions& options);

// validation.schema.json
[[nodiscard]] std::string validation_document(const ToolInfo& tool, const ModelSpec& m,
                                              const ClusterSpec& c, const Machine& machine,
                                              const Validation& v);

}  // namespace meshplan
