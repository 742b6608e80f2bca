#pragma once
// JSON tree of one file or one row -> the values of run.hpp. Unknown keys are ignored, missing keys
// and values of another type than the format's read as "not stated".
#include <nlohmann/json.hpp>

#include "run.hpp"

namespace meshplan::accuracy {

[[nodiscard]] Run run_of(const nlohmann::json& row);

// Everything of a source but its name and runs.
[[nodiscard]] Source head_of(const nlohmann::json& file);

// What `measured` says about memory, if it names a peak and its unit.
[[nodiscard]] std::optional<MeasuredMemory> memory_of(const nlohmann::json& measured);

}  // namespace meshplan::accuracy
