#pragma once
// A model as the file that describes it.
#include <string>

#include "spec/model.hpp"

namespace meshplan {

// YAML text that parse_model reads back to the same model; starts with a comment that states the
// parameter count.
[[nodiscard]] std::string model_yaml(const ModelSpec& m);

}  // namespace meshplan
