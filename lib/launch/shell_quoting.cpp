// Names, and where quotes and expansions end.
#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

#include "launch/shell_syntax.hpp"

namespace meshplan::shell {

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool is_name(std::string_view text) {
  return !text.empty() && !(text[0] >= '0' && text[0] <= '9') &&
         std::all_of(text.begin(), text.end(), is_name_char);
}

std::size_t assigned_name(std::string_view word) {
  std::size_t end = 0;
  while (end < word.size() && is_name_char(word[end])) ++end;
  if (!is_name(word.substr(0, end))) return 0;
  if (end < word.size() && word[end] == '[') {
    const std::size_t close = word.find(']', end);
    if (close == std::string_view::npos) return 0;
    end = close + 1;
  }
  const std::string_view rest = word.substr(end);
  return rest.starts_with("=") || rest.starts_with("+=") ? end : 0;
}

std::size_t skip_expansion(std::string_view text, std::size_t at) {
  if (text[at] == '`') {
    for (++at; at < text.size() && text[at] != '`'; ++at) {
      if (text[at] == '\\') ++at;
    }
    return std::min(at + 1, text.size());
  }
  ++at;
  if (at < text.size() && (text[at] == '(' || text[at] == '{')) return skip_quoted(text, at);
  if (at < text.size() && text[at] == '\'') {
    for (++at; at < text.size() && text[at] != '\''; ++at) {
      if (text[at] == '\\') ++at;
    }
    return std::min(at + 1, text.size());
  }
  return at;
}

std::size_t skip_quoted(std::string_view text, std::size_t at) {
  // Brackets may nest without end; only the outermost kind is counted, quotes within are skipped.
  const char open = text[at];
  if (open == '\'') return std::min(text.find('\'', at + 1), text.size() - 1) + 1;
  const char close = open == '(' ? ')' : open == '{' ? '}' : open;
  int depth = 0;
  for (++at; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\\') {
      ++at;
    } else if (c == close && depth == 0) {
      return at + 1;
    } else if (c == close) {
      --depth;
    } else if (c == open && open != '"') {
      ++depth;
    } else if (c == '#' && open == '(' && (text[at - 1] == '\n' || text[at - 1] == ' ')) {
      at = std::min(text.find('\n', at), text.size()) - 1;
    } else if ((c == '\'' || c == '"') && open != '"') {
      at = skip_quoted(text, at) - 1;
    } else if (c == '`' || (c == '$' && at + 1 < text.size() && open == '"' &&
                            (text[at + 1] == '(' || text[at + 1] == '{'))) {
      at = skip_expansion(text, at) - 1;
    }
  }
  return text.size();
}

std::string ansi_c(std::string_view text) {
  static constexpr std::string_view kNames = "abeEfnrtv", kMeant = "\a\b\x1b\x1b\f\n\r\t\v";
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\\' || at + 1 == text.size()) {
      out += text[at];
      continue;
    }
    const char kind = text[++at];
    const auto digits = [&](std::size_t from, std::size_t most, int base) {
      const char* const begin = text.data() + from;
      const char* const end = text.data() + std::min(text.size(), from + most);
      unsigned value = 0;
      const auto read = std::from_chars(begin, end, value, base);
      if (read.ptr != begin) at = from + static_cast<std::size_t>(read.ptr - begin) - 1;
      return read.ptr == begin ? std::optional<unsigned>() : value;
    };
    if (const std::size_t name = kNames.find(kind); name != std::string_view::npos) {
      out += kMeant[name];
    } else if (kind >= '0' && kind <= '7') {
      out += static_cast<char>(digits(at, 3, 8).value_or(0) & 0xffU);
    } else if (kind == 'x') {
      const auto value = digits(at + 1, 2, 16);
      out += value ? std::string(1, static_cast<char>(*value)) : "\\x";
    } else if (std::string_view("\\'\"?").find(kind) != std::string_view::npos) {
      out += kind;
    } else {
      out.append({'\\', kind});
    }
  }
  return out;
}

}  // namespace meshplan::shell
