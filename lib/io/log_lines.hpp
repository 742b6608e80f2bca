#pragma once
// The lines of a training log, as a terminal shows them.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace meshplan {

struct LogLine {
  std::string_view text;
  int number = 0;  // in the file, from 1
};

// Text without the escape codes of a terminal.
[[nodiscard]] std::string without_colours(std::string_view text);

// Lines that are not empty, as views of `plain`. Progress bars rewrite theirs after a carriage
// return: each state of one is a line, and all have the same number.
[[nodiscard]] std::vector<LogLine> log_lines(std::string_view plain);

// The number behind `key`, thousands separators dropped; blanks may stand between.
[[nodiscard]] std::optional<double> number_after(std::string_view line, std::string_view key);

}  // namespace meshplan
