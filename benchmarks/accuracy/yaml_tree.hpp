#pragma once
// YAML text -> a JSON tree, straight from the parser's events: yaml-cpp's own tree takes several
// times as long on files of a megabyte.
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace meshplan::accuracy {

// Plain scalars become null, booleans, integers and numbers by the YAML 1.2 core schema; quoted
// ones stay text. Of keys given twice the first wins. Aliases are refused.
Result<nlohmann::json> yaml_tree(const std::string& text, const std::string& file);

}  // namespace meshplan::accuracy
