#pragma once
// Everything that reaches the user: results on standard output, the rest on standard error.
#include <string>
#include <string_view>

#include "base/diagnostic.hpp"
#include "command.hpp"
#include "report/json.hpp"
#include "report/table.hpp"
#include "search/search.hpp"

namespace meshplan {

inline constexpr ToolInfo kTool{MESHPLAN_VERSION};

// Results go out in one piece. A reader that closed its end early (| head) is no failure; a full
// disk is: then this says so and returns kExitBadInput, else it returns `exit_code`.
[[nodiscard]] int write_result(std::string_view text, int exit_code);

// Width and colours of standard output. Without a terminal: 80 columns, no colours.
[[nodiscard]] TextOptions console_options();

void set_up_logging(const CommonFlags& flags);

// Diagnostics on standard error and, with --json, as a document on standard output.
[[nodiscard]] int report_errors(const Diagnostics& all, const CommonFlags& flags);

// A bar with the time left on standard error; no-op unless that is a person's terminal and nothing
// asks for quiet.
[[nodiscard]] Progress progress_bar(const CommonFlags& flags,
                                    const std::string& what = "searching");
void clear_progress_bar(const CommonFlags& flags);

}  // namespace meshplan
