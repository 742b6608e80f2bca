#include "launch/shell_value.hpp"

#include <algorithm>

namespace meshplan::shell {

std::string text_of(const Value& v) {
  std::string text;
  for (const Segment& s : v) text += s.text;
  return text;
}

bool is_known(const Value& v) {
  return std::all_of(v.begin(), v.end(), [](const Segment& s) { return s.unknown.empty(); });
}

std::string unknown_names(const Value& v) {
  std::vector<std::string_view> names;
  for (const Segment& s : v) {
    if (s.unknown.empty()) continue;
    if (std::find(names.begin(), names.end(), s.unknown) == names.end()) names.push_back(s.unknown);
  }
  std::string text;
  for (const std::string_view name : names) {
    text += (text.empty() ? "" : ", ") + std::string(name);
  }
  return text;
}

Value known(std::string text, int line, int column) {
  return {{std::move(text), {}, false, line, column}};
}

Value unknown(std::string name, int line, int column) {
  return {{{}, std::move(name), false, line, column}};
}

Segment Source::at(std::size_t offset) const {
  const auto behind = std::upper_bound(
      anchors.begin(), anchors.end(), offset,
      [](std::size_t value, const Anchor& anchor) { return value < anchor.offset; });
  if (behind == anchors.begin()) return {{}, {}, false, 1, 1};
  const Anchor& anchor = *std::prev(behind);
  return {{}, {}, false, anchor.line, anchor.column + static_cast<int>(offset - anchor.offset)};
}

Source source_of(std::string_view file_text) {
  Source source{std::string(file_text), {{0, 1, 1}}};
  int line = 1;
  for (std::size_t i = 0; i < file_text.size(); ++i) {
    if (file_text[i] == '\n') source.anchors.push_back({i + 1, ++line, 1});
  }
  return source;
}

Source source_of(const Value& v) {
  Source source;
  for (const Segment& s : v) {
    source.anchors.push_back({source.text.size(), s.line, s.column});
    source.text += s.text;
  }
  return source;
}

std::string first_line(std::string_view text) {
  constexpr std::size_t kLongest = 70;
  const std::size_t begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  text.remove_prefix(begin);
  std::string line(text.substr(0, text.find('\n')));
  if (line.size() > kLongest) line = line.substr(0, kLongest - 3) + "...";
  return line;
}

std::string without_folder(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

}  // namespace meshplan::shell
