#pragma once
// Parts of reading printed arguments; private to this library.
#include <optional>
#include <string>
#include <vector>

#include "io/log_lines.hpp"
#include "launch/log_arguments.hpp"
#include "launch/megatron_namespace.hpp"

namespace meshplan {

// Megatron-Bridge's configuration (bridge_log_arguments.cpp).
[[nodiscard]] Result<std::optional<PrintedArguments>> bridge_arguments(
    const std::vector<LogLine>& lines, const std::string& file);

// NeMo 1's configuration (nemo_log_arguments.cpp).
[[nodiscard]] Result<std::optional<PrintedArguments>> nemo_arguments(
    const std::vector<LogLine>& lines, const std::string& file);

}  // namespace meshplan
