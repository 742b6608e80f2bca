#pragma once
// Text that reaches a shell or a comment of a script.
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace meshplan {

// One word of a shell command line, quoted where a shell would read it as anything else. NUL bytes
// cannot be passed to programs and are left out.
[[nodiscard]] std::string shell_word(std::string_view text);
[[nodiscard]] std::string shell_line(const std::vector<std::string>& words);

// A line "NAME=value" of each, in front of it a line break.
[[nodiscard]] std::string shell_assignments(const std::map<std::string, std::string>& variables);

// Fit for the rest of a comment line: no line breaks or control characters.
[[nodiscard]] std::string comment_text(std::string_view text);

// Letters, digits, '.', '_' and '-' only, never empty or starting with '-': job names, identifiers.
[[nodiscard]] std::string plain_name(std::string_view text);

}  // namespace meshplan
