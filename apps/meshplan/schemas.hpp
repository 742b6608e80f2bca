#pragma once
#include <string>

namespace meshplan {

// The JSON Schema of the documents that a command prints, as it is installed; "plan", "estimate",
// "explain" or "lint".
[[nodiscard]] const char* schema_text(const std::string& name);

}  // namespace meshplan
