#pragma once
// Aligned text tables and paragraphs that keep within a width. Text is UTF-8: columns line up by
// what a terminal shows, not by bytes, and no character is ever cut in two.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.hpp"

namespace meshplan {

struct TextOptions {
  std::size_t width = 80;  // columns of the terminal
  bool colour = false;     // ANSI escape codes
};

// Terminal columns that the text takes; control characters count as the '?' they are shown as.
[[nodiscard]] std::size_t display_width(std::string_view utf8);

// The text with control characters and broken UTF-8 replaced by '?': names come from files.
[[nodiscard]] std::string printable(std::string_view text);

// Lines of at most `width` columns, broken at spaces, inside words only where one word is longer.
[[nodiscard]] std::vector<std::string> wrap_text(std::string_view text, std::size_t width);

// The text wrapped to the options' width: `first` starts the first line, and the following lines
// are indented as far as `first` is wide. Ends in '\n'.
[[nodiscard]] std::string paragraph(std::string_view first, std::string_view text,
                                    const TextOptions& options);

enum class Align { kLeft, kRight };

struct Column {
  std::string header;
  Align align = Align::kRight;
  bool wraps = false;  // gives way, onto further lines, when the table is too wide
};

class Table {
 public:
  explicit Table(std::vector<Column> columns, std::size_t gap = 2);
  void add_row(std::vector<std::string> cells);  // one cell per column
  [[nodiscard]] bool empty() const { return rows_.empty(); }

  // Header, a rule, the rows; every line ends in '\n' and has no trailing spaces.
  [[nodiscard]] std::string text(const TextOptions& options) const;

 private:
  [[nodiscard]] std::vector<std::size_t> widths(std::size_t room) const;
  [[nodiscard]] std::string row_text(const std::vector<std::string>& cells,
                                     const std::vector<std::size_t>& widths) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
  std::size_t gap_;
};

enum class Emphasis { kHeading, kGood, kWarning, kBad };
// The text in bold, green, yellow or red; unchanged without colour.
[[nodiscard]] std::string emphasised(std::string_view text, Emphasis e, const TextOptions& options);

// `share` (0..1) of `width` characters, at least one for any share above zero.
[[nodiscard]] std::string bar(double share, std::size_t width);

// "searching [####      ]  40 %, about 3.00 s left": one line of at most `width` columns. The time
// left assumes that the rest goes on as `elapsed` did; it is not stated before a twentieth is done.
// `more` stands behind it where there is room; the bar gives way to it.
[[nodiscard]] std::string progress_line(std::string_view what, double share, Seconds elapsed,
                                        std::size_t width, std::string_view more = {});

}  // namespace meshplan
