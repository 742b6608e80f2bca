#include "launch/shell.hpp"

#include <algorithm>

namespace meshplan {
namespace {

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_plain(char c) {
  return is_letter_or_digit(c) || std::string_view("_-./:=+@%").find(c) != std::string_view::npos;
}

}  // namespace

std::string shell_word(std::string_view text) {
  std::string kept(text);
  std::erase(kept, '\0');
  if (!kept.empty() && std::all_of(kept.begin(), kept.end(), is_plain)) return kept;
  std::string quoted = "'";
  for (const char c : kept) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string shell_assignments(const std::map<std::string, std::string>& variables) {
  std::string text;
  for (const auto& [name, value] : variables) text += '\n' + name + '=' + shell_word(value);
  return text;
}

std::string shell_line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + shell_word(word);
  return line;
}

std::string comment_text(std::string_view text) {
  std::string line(text);
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return line;
}

std::string plain_name(std::string_view text) {
  std::string name;
  for (const char c : text) {
    const bool fine = is_letter_or_digit(c) || c == '.' || c == '_' || c == '-';
    name += fine ? c : '_';
  }
  constexpr std::size_t kLongest = 64;
  name.resize(std::min(name.size(), kLongest));
  if (name.empty() || name.front() == '-' || name.front() == '.') name.insert(0, 1, 'x');
  return name;
}

}  // namespace meshplan
