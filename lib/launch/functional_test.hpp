#pragma once
// The YAML by which Megatron-LM's functional tests, and those of projects that copied them, start
// training.
#include <string_view>

#include "base/result.hpp"
#include "launch/imported_run.hpp"

namespace meshplan {

// Whether a text has a MODEL_ARGS section.
[[nodiscard]] bool is_functional_test(std::string_view text);

// The arguments as an argument list, each option in the line where the YAML has it: a value of true
// is an option without one, "[a b]" are several values, all else is one
// (tests/functional_tests/shell_test_utils/_run_training.sh). Fails where the test does not train.
[[nodiscard]] Result<NamedText> functional_test_arguments(const NamedText& file);

}  // namespace meshplan
