#include "launch/python_text.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace meshplan {
namespace {

constexpr int kDeepest = 50;

bool is_quote(char c) { return c == '"' || c == '\''; }
bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.';
}
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::string_view between_blanks(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// Behind the text in quotes that begins at `at`; at most `end`.
std::size_t behind_text(std::string_view text, std::size_t at, std::size_t end) {
  const char quote = text[at];
  for (++at; at < end && text[at] != quote && text[at] != '\n'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return std::min(at + 1, end);
}

// The first offset that holds one of `wanted` outside of brackets and texts; `end` without one.
std::size_t find_outside(std::string_view text, std::size_t at, std::size_t end,
                         std::string_view wanted) {
  int depth = 0;
  while (at < end) {
    const char c = text[at];
    if (is_quote(c)) {
      at = behind_text(text, at, end);
      continue;
    }
    if (depth == 0 && wanted.find(c) != std::string_view::npos) return at;
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') depth = std::max(depth - 1, 0);
    ++at;
  }
  return end;
}

int newlines(std::string_view text, std::size_t begin, std::size_t end) {
  const std::string_view own = text.substr(begin, end - begin);
  return static_cast<int>(std::count(own.begin(), own.end(), '\n'));
}

// "8 * 2048" -> "16384"; empty where it is no product of whole numbers.
std::string product(std::string_view text) {
  std::int64_t all = 1;
  std::size_t factors = 0;
  while (true) {
    const std::size_t star = text.find('*');
    std::string digits(between_blanks(text.substr(0, star)));
    std::erase(digits, '_');
    std::int64_t value = 0;
    const auto [next, failure] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (failure != std::errc{} || next != digits.data() + digits.size()) return {};
    if (__builtin_mul_overflow(all, value, &all)) return {};
    ++factors;
    if (star == std::string_view::npos) break;
    text.remove_prefix(star + 1);
  }
  return factors > 0 ? std::to_string(all) : std::string();
}

bool is_real(std::string_view text) {
  double value = 0;
  const auto [next, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failure == std::errc{} && next == text.data() + text.size();
}

PythonValue read_value(std::string_view text, std::size_t begin, std::size_t end, int line,
                       int depth);

// The comma-separated parts between two offsets: a list's items, a call's arguments.
void read_parts(std::string_view text, std::size_t begin, std::size_t end, int line, int depth,
                PythonValue& into) {
  while (begin < end) {
    const std::size_t comma = find_outside(text, begin, end, ",");
    const std::size_t equals = find_outside(text, begin, comma, "=");
    const bool compares =
        equals + 1 < comma && (text[equals + 1] == '=' ||
                               std::string_view("!<>=").find(text[equals > 0 ? equals - 1 : 0]) !=
                                   std::string_view::npos);
    if (equals < comma && !compares) {
      into.keywords.push_back(
          {std::string(between_blanks(text.substr(begin, equals - begin))),
           read_value(text, equals + 1, comma, line + newlines(text, begin, equals), depth + 1)});
    } else if (!between_blanks(text.substr(begin, comma - begin)).empty()) {
      into.items.push_back(read_value(text, begin, comma, line, depth + 1));
    }
    line += newlines(text, begin, comma);
    begin = comma + 1;
  }
}

PythonValue read_value(std::string_view text, std::size_t begin, std::size_t end, int line,
                       int depth) {
  const std::size_t first = begin;
  while (begin < end && is_blank(text[begin])) ++begin;
  line += newlines(text, first, begin);
  while (end > begin && is_blank(text[end - 1])) --end;
  PythonValue value;
  value.line = line;
  if (begin == end || depth > kDeepest) return value;
  const std::string_view own = text.substr(begin, end - begin);
  using Kind = PythonValue::Kind;
  if (own == "True" || own == "False" || own == "None") {
    value.kind = Kind::kWord, value.text = own;
    return value;
  }
  if (is_quote(own.front())) {
    if (behind_text(text, begin, end) != end) return value;
    value.kind = Kind::kText, value.text = own.substr(1, own.size() - 2);
    return value;
  }
  if (std::string whole = product(own); !whole.empty()) {
    value.kind = Kind::kNumber, value.text = std::move(whole);
    return value;
  }
  if (is_real(own)) {
    value.kind = Kind::kNumber, value.text = own;
    return value;
  }
  const char open = own.front();
  if ((open == '[' || open == '(') && find_outside(text, begin + 1, end, "])") == end - 1) {
    const std::size_t inside = begin + 1;
    if (own.find(" for ") != std::string_view::npos) return value;
    if (open == '(' && find_outside(text, inside, end - 1, ",") == end - 1) {
      return read_value(text, inside, end - 1, line, depth + 1);  // only brackets
    }
    value.kind = Kind::kList;
    read_parts(text, inside, end - 1, line, depth, value);
    return value;
  }
  std::size_t name = begin;
  while (name < end && is_word(text[name])) ++name;
  if (name == begin) return value;
  value.text = text.substr(begin, name - begin);
  if (name == end) {
    value.kind = Kind::kName;
  } else if (text[name] == '(' && find_outside(text, name + 1, end, ")") == end - 1) {
    value.kind = Kind::kCall;
    read_parts(text, name + 1, end - 1, line, depth, value);
  } else {
    value.text.clear();
  }
  return value;
}

}  // namespace

std::string without_python_comments(std::string_view text) {
  std::string plain(text);
  for (std::size_t at = 0; at < plain.size();) {
    const char c = plain[at];
    if (c == '#') {
      while (at < plain.size() && plain[at] != '\n') plain[at++] = ' ';
    } else if (is_quote(c) && plain.compare(at, 3, std::string(3, c)) == 0) {
      const std::size_t close = plain.find(std::string(3, c), at + 3);
      const std::size_t end = close == std::string::npos ? plain.size() : close + 3;
      for (; at < end; ++at) {
        if (plain[at] != '\n') plain[at] = ' ';
      }
    } else if (is_quote(c)) {
      at = behind_text(plain, at, plain.size());
    } else {
      ++at;
    }
  }
  return plain;
}

const PythonValue* PythonValue::keyword(std::string_view name) const {
  const auto found = std::find_if(keywords.begin(), keywords.end(),
                                  [&](const PythonKeyword& k) { return k.name == name; });
  return found == keywords.end() ? nullptr : &found->value;
}

PythonValue read_python_value(std::string_view text, std::size_t begin, std::size_t end, int line) {
  return read_value(text, begin, std::min(end, text.size()), line, 0);
}

std::vector<PythonStatement> python_statements(std::string_view text) {
  std::vector<PythonStatement> all;
  int line = 1;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = find_outside(text, at, text.size(), "\n");
    const std::string_view own = text.substr(at, end - at);
    const std::size_t first = own.find_first_not_of(" \t\r\n");
    if (first != std::string_view::npos) {
      const auto skipped = static_cast<int>(
          std::count(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(first), '\n'));
      all.push_back({at + first, end, first, line + skipped});
    }
    line += 1 + static_cast<int>(std::count(own.begin(), own.end(), '\n'));
    at = end + 1;
  }
  return all;
}

std::size_t python_assignment(std::string_view text, const PythonStatement& s) {
  const std::size_t at = find_outside(text, s.begin, s.end, "=");
  if (at >= s.end || at + 1 >= s.end || text[at + 1] == '=' || at == s.begin) {
    return std::string_view::npos;
  }
  const bool more = std::string_view("!<>+-*/").find(text[at - 1]) != std::string_view::npos;
  return more ? std::string_view::npos : at;
}

}  // namespace meshplan
