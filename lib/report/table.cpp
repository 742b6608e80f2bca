#include "report/table.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "base/check.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"

namespace meshplan {
namespace {

std::size_t columns_of(const Character& c) {
  struct Range {
    std::uint32_t first, last;
  };
  // East Asian wide characters and emoji take two columns, combining marks none.
  constexpr std::array wide{
      Range{0x1100, 0x115f}, Range{0x2e80, 0xa4cf},   Range{0xac00, 0xd7a3},
      Range{0xf900, 0xfaff}, Range{0xfe30, 0xfe6f},   Range{0xff00, 0xff60},
      Range{0xffe0, 0xffe6}, Range{0x1f300, 0x1faff}, Range{0x20000, 0x3fffd}};
  constexpr std::array none{Range{0x300, 0x36f}, Range{0x200b, 0x200f}, Range{0xfe00, 0xfe0f}};
  const auto holds = [&](const Range& r) { return c.code >= r.first && c.code <= r.last; };
  if (!c.valid) return 1;
  if (std::any_of(none.begin(), none.end(), holds)) return 0;
  return std::any_of(wide.begin(), wide.end(), holds) ? 2 : 1;
}

// Bytes of the longest prefix that takes at most `width` columns, at least one character.
std::size_t prefix_bytes(std::string_view text, std::size_t width) {
  std::size_t bytes = 0, used = 0;
  while (bytes < text.size()) {
    const Character c = first_character(text.substr(bytes));
    if (bytes > 0 && used + columns_of(c) > width) break;
    used += columns_of(c);
    bytes += c.bytes;
  }
  return bytes;
}

std::string padded(std::string_view text, std::size_t width, Align align) {
  const std::size_t used = display_width(text);
  const std::string space(width > used ? width - used : 0, ' ');
  return align == Align::kLeft ? std::string(text) + space : space + std::string(text);
}

void trim_right(std::string& text) { text.erase(text.find_last_not_of(' ') + 1); }

}  // namespace

std::size_t display_width(std::string_view utf8) {
  std::size_t width = 0;
  for (std::size_t at = 0; at < utf8.size();) {
    const Character c = first_character(utf8.substr(at));
    width += columns_of(c);
    at += c.bytes;
  }
  return width;
}

std::string printable(std::string_view text) { return printable_text(text); }

std::vector<std::string> wrap_text(std::string_view text, std::size_t width) {
  width = std::max<std::size_t>(width, 1);
  std::vector<std::string> lines;
  std::string line;
  const auto flush = [&] {
    lines.push_back(std::move(line));
    line.clear();
  };
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    if (!line.empty() && display_width(line) + 1 + display_width(word) > width) flush();
    if (!line.empty()) line += ' ';
    while (display_width(word) > width) {
      const std::size_t bytes = prefix_bytes(word, width);
      line += word.substr(0, bytes);
      word.remove_prefix(bytes);
      flush();
    }
    line += word;
  }
  if (!line.empty() || lines.empty()) flush();
  return lines;
}

std::string paragraph(std::string_view first, std::string_view text, const TextOptions& options) {
  const std::size_t indent = display_width(first);
  const std::size_t room = options.width > indent + 20 ? options.width - indent : 20;
  std::string result;
  for (const std::string& line : wrap_text(printable(text), room)) {
    result += (result.empty() ? std::string(first) : std::string(indent, ' ')) + line;
    trim_right(result);
    result += '\n';
  }
  return result;
}

Table::Table(std::vector<Column> columns, std::size_t gap)
    : columns_(std::move(columns)), gap_(gap) {}

void Table::add_row(std::vector<std::string> cells) {
  PLAN_CHECK(cells.size() == columns_.size());
  for (std::string& cell : cells) cell = printable(cell);
  rows_.push_back(std::move(cells));
}

std::vector<std::size_t> Table::widths(std::size_t room) const {
  std::vector<std::size_t> widths(columns_.size());
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    widths[i] = display_width(columns_[i].header);
    for (const auto& row : rows_) widths[i] = std::max(widths[i], display_width(row[i]));
  }
  const std::size_t gaps = columns_.empty() ? 0 : gap_ * (columns_.size() - 1);
  std::size_t total = std::accumulate(widths.begin(), widths.end(), gaps);
  constexpr std::size_t kNarrowest = 12;
  // The widest column that may wrap gives way, one column at a time, so that several share.
  while (total > room) {
    std::size_t widest = columns_.size();
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (!columns_[i].wraps || widths[i] <= kNarrowest) continue;
      if (widest == columns_.size() || widths[i] > widths[widest]) widest = i;
    }
    if (widest == columns_.size()) break;
    --widths[widest];
    --total;
  }
  return widths;
}

std::string Table::row_text(const std::vector<std::string>& cells,
                            const std::vector<std::size_t>& widths) const {
  std::vector<std::vector<std::string>> lines;
  std::size_t height = 1;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    lines.push_back(columns_[i].wraps ? wrap_text(cells[i], widths[i])
                                      : std::vector<std::string>{cells[i]});
    height = std::max(height, lines.back().size());
  }
  std::string text;
  for (std::size_t n = 0; n < height; ++n) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (i > 0) line += std::string(gap_, ' ');
      line += padded(n < lines[i].size() ? lines[i][n] : "", widths[i], columns_[i].align);
    }
    trim_right(line);
    text += line + '\n';
  }
  return text;
}

std::string Table::text(const TextOptions& options) const {
  const std::vector<std::size_t> widths = this->widths(options.width);
  std::vector<std::string> headers, rules;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    headers.push_back(columns_[i].header);
    rules.emplace_back(widths[i], '-');
  }
  std::string header = row_text(headers, widths);
  header.pop_back();
  std::string text = emphasised(header, Emphasis::kHeading, options) + '\n';
  text += row_text(rules, widths);
  for (const auto& row : rows_) text += row_text(row, widths);
  return text;
}

std::string emphasised(std::string_view text, Emphasis e, const TextOptions& options) {
  if (!options.colour) return std::string(text);
  const auto code = [e]() -> std::string_view {
    switch (e) {
      case Emphasis::kHeading:
        return "1";
      case Emphasis::kGood:
        return "32";
      case Emphasis::kWarning:
        return "33";
      case Emphasis::kBad:
        return "31";
    }
    return "0";
  };
  return "\x1b[" + std::string(code()) + "m" + std::string(text) + "\x1b[0m";
}

std::string bar(double share, std::size_t width) {
  if (!(share > 0)) return {};
  const auto length = static_cast<std::size_t>(std::lround(share * static_cast<double>(width)));
  return std::string(std::clamp<std::size_t>(length, 1, width), '#');
}

std::string progress_line(std::string_view what, double share, Seconds elapsed, std::size_t width,
                          std::string_view more) {
  constexpr double kEnoughSeen = 0.05;
  constexpr std::size_t kLongestBar = 30, kShortestBar = 5;
  const double done = std::clamp(share, 0.0, 1.0);
  const std::string percent = fixed(100 * done, 0);
  std::string after = " " + std::string(3 - percent.size(), ' ') + percent + " %";
  if (done >= kEnoughSeen && done < 1) {
    after += ", about " + human_time(elapsed * ((1 - done) / done)) + " left";
  }
  if (!more.empty() && display_width(what) + display_width(after) + display_width(more) < width) {
    after += std::string(more);
  }
  const std::size_t used = display_width(what) + 3 + display_width(after);
  const std::size_t room = width > used ? width - used : 0;
  if (room < kShortestBar) return std::string(what) + after;
  const std::size_t length = std::min(room, kLongestBar);
  const std::string filled = bar(done, length);
  return std::string(what) + " [" + filled + std::string(length - filled.size(), ' ') + "]" + after;
}

}  // namespace meshplan
