#pragma once
// YAML text -> a JSON tree.
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace meshplan::accuracy {

// Plain scalars become null, booleans, integers and numbers by the YAML 1.2 core schema; quoted
// ones stay text.
Result<nlohmann::json> yaml_as_json(std::string_view text, const std::string& file);

}  // namespace meshplan::accuracy
