#pragma once
// What the user is told on standard error while a command runs. spdlog stays behind it.
#include <string_view>

namespace meshplan {

enum class LogLevel { kQuiet, kNormal, kVerbose };  // errors only; all but debug; all

void set_up_log(LogLevel level, bool colour);

void log_debug(std::string_view text);
void log_info(std::string_view text);
void log_warning(std::string_view text);
void log_error(std::string_view text);

}  // namespace meshplan
