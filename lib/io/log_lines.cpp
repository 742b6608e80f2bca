#include "io/log_lines.hpp"

#include <algorithm>
#include <cmath>

#include "base/quantity.hpp"

namespace meshplan {

std::string without_colours(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\x1b') {
      plain += text[i];
      continue;
    }
    if (i + 1 < text.size() && text[i + 1] == '[') {
      i += 2;
      while (i < text.size() && !(text[i] >= '@' && text[i] <= '~')) ++i;
    }
  }
  return plain;
}

std::vector<LogLine> log_lines(std::string_view plain) {
  std::vector<LogLine> lines;
  int number = 1;
  for (std::size_t at = 0; at < plain.size();) {
    const std::size_t end = std::min(plain.find_first_of("\r\n", at), plain.size());
    if (end > at) lines.push_back({plain.substr(at, end - at), number});
    if (end < plain.size() && plain[end] == '\n') ++number;
    at = end + 1;
  }
  return lines;
}

std::optional<double> number_after(std::string_view line, std::string_view key) {
  const std::size_t at = line.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  std::string digits;
  for (std::size_t i = line.find_first_not_of(" \t", at + key.size()); i < line.size(); ++i) {
    const char c = line[i];
    const bool part =
        (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E';
    if (c == ',' && i + 1 < line.size() && line[i + 1] >= '0' && line[i + 1] <= '9') continue;
    if (!part) break;
    digits += c;
  }
  while (!digits.empty() && (digits.back() == '.' || digits.back() == '-')) digits.pop_back();
  const Result<double> value = parse_real(digits);
  return value.ok() && std::isfinite(*value) ? std::optional(*value) : std::nullopt;
}

}  // namespace meshplan
