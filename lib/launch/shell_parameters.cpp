// $NAME, ${NAME...} and the positional parameters.
#include <algorithm>
#include <cctype>
#include <fnmatch.h>

#include "launch/shell_interpreter.hpp"

namespace meshplan::shell {
namespace {

bool is_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// A number that lists and arguments may have; nothing for anything else.
std::optional<std::size_t> small_number(std::string_view text) {
  constexpr std::size_t kLongest = 4;
  if (!is_digits(text) || text.size() > kLongest) return std::nullopt;
  return static_cast<std::size_t>(std::stoul(std::string(text)));
}

// ${X#pattern} and its like.
std::string without(std::string text, const std::string& pattern, bool suffix, bool longest) {
  constexpr std::size_t kMost = 4096;
  if (text.size() > kMost || pattern.size() > kMost) return text;
  const std::size_t n = text.size();
  for (std::size_t i = 0; i <= n; ++i) {
    const std::size_t length = longest ? n - i : i;
    const std::string part = suffix ? text.substr(n - length) : text.substr(0, length);
    if (::fnmatch(pattern.c_str(), part.c_str(), 0) == 0) {
      return suffix ? text.substr(0, n - length) : text.substr(length);
    }
  }
  return text;
}

std::string replaced(const std::string& text, const std::string& what, const std::string& by,
                     bool everywhere) {
  if (what.empty() || text.size() > (1U << 16U)) return text;
  std::string result;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t found = text.find(what, at);
    result += text.substr(at, found - at);
    if (found == std::string::npos) break;
    result += by;
    at = found + what.size();
    if (everywhere) continue;
    result += text.substr(at);
    break;
  }
  return result;
}

}  // namespace

bool Interpreter::is_unset(const std::string& name) const {
  if (const auto n = small_number(name)) return *n > arguments_.size();
  return out_.variables.find(name) == out_.variables.end();
}

Value Interpreter::value_of(const std::string& name, const Segment& at) {
  const auto literal = [&](std::string text) { return known(std::move(text), at.line, at.column); };
  if (const auto n = small_number(name)) {
    if (*n == 0) return literal("script.sh");
    if (*n <= arguments_.size()) return arguments_[*n - 1];
    if (knows_arguments_) return {};
    Value v = unknown("argument " + std::to_string(*n + shifted_), at.line, at.column);
    v.front().unset = true;
    return v;
  }
  if (name == "#") {
    // A script may ask whether it has any: taken as if it were started without.
    const bool said = knows_arguments_ || in_loop_condition_;
    if (said || inputs_.unset_is_empty) {
      out_.took_as_empty = out_.took_as_empty || !said;
      return literal(std::to_string(arguments_.size()));
    }
    return unknown("the number of arguments", at.line, at.column);
  }
  if (name == "?") return literal("0");
  if (name == "-") return {};
  if (name == "$" || name == "!" || name == "RANDOM") {
    return unknown("$" + name, at.line, at.column);
  }
  const auto found = out_.variables.find(name);
  if (found != out_.variables.end()) {
    if (inputs_.environment.find(name) != inputs_.environment.end()) out_.taken.insert(name);
    return found->second.items.empty() ? Value{} : found->second.items.front();
  }
  if (name == assigned_) return {};  // A="$A more" begins with nothing
  if (name == "BASH_SOURCE") return literal("script.sh");
  if (name == "PWD") return literal(".");
  Value v = unknown(name, at.line, at.column);
  v.front().unset = true;
  return v;
}

Value Interpreter::element(const Variable& v, Range index) {
  const Value at = text_in(index, Mode::kQuoted);
  const Segment place = index.source->at(index.begin);
  if (!v.keys.empty()) {
    const auto key = std::find(v.keys.begin(), v.keys.end(), text_of(at));
    if (!is_known(at)) return unknown(unknown_names(at), place.line, place.column);
    return key == v.keys.end() ? Value{} : v.items[static_cast<std::size_t>(key - v.keys.begin())];
  }
  std::string names;
  const std::optional<std::int64_t> n = number(at, names);
  if (!n) return unknown(names.empty() ? "an index" : names, place.line, place.column);
  const std::int64_t from_end = *n < 0 ? *n + static_cast<std::int64_t>(v.items.size()) : *n;
  if (from_end < 0 || from_end >= static_cast<std::int64_t>(v.items.size())) return {};
  return v.items[static_cast<std::size_t>(from_end)];
}

// ${...}
void Interpreter::braces(Range inside, Mode mode, Fields& out) {
  const std::string_view text = inside.text();
  const Segment place = inside.source->at(inside.begin);
  const bool length = text.size() > 1 && text[0] == '#';
  const bool indirect = text.size() > 1 && text[0] == '!';
  std::size_t end = length || indirect ? 1 : 0;
  const std::size_t begin = end;
  if (end < text.size() && std::string_view("@*#?$!-").find(text[end]) != std::string_view::npos) {
    ++end;
  } else {
    while (end < text.size() && is_name_char(text[end])) ++end;
  }
  std::string name(text.substr(begin, end - begin));
  Range index{inside.source, 0, 0};
  if (end < text.size() && text[end] == '[') {
    const std::size_t close = std::min(text.find(']', end), text.size() - 1);
    index = {inside.source, inside.begin + end + 1, inside.begin + close};
    end = close + 1;
  }
  const std::string_view change = text.substr(end);
  const bool whole = index.end > index.begin && (index.text() == "@" || index.text() == "*");
  const auto found = out_.variables.find(name);
  if (name == "@" || name == "*" || whole) {
    const std::vector<Value> none;
    const bool arguments = !whole;
    const std::vector<Value>& items = arguments                       ? arguments_
                                      : found == out_.variables.end() ? none
                                                                      : found->second.items;
    if (length) {
      put(known(std::to_string(items.size()), place.line, place.column), mode, out);
    } else if (indirect && found != out_.variables.end()) {
      std::vector<Value> keys;
      for (std::size_t i = 0; i < items.size(); ++i) {
        keys.push_back(known(found->second.keys.empty() ? std::to_string(i) : found->second.keys[i],
                             place.line, place.column));
      }
      list(keys, mode, false, out);
    } else {
      const bool was_open = out.open;
      list(items, mode, index.text() == "*" && mode != Mode::kPlain, out);
      if (items.empty() && mode == Mode::kQuoted && out.current.empty())
        out.open = was_open && false;
    }
    return;
  }
  if (indirect && found != out_.variables.end() && is_known(value_of(name, place))) {
    name = text_of(value_of(name, place));
  }
  const bool indexed = index.end > index.begin && found != out_.variables.end();
  const Value value = indexed ? element(found->second, index) : value_of(name, place);
  if (length && change.empty()) {
    put(is_known(value) ? known(std::to_string(text_of(value).size()), place.line, place.column)
                        : unknown(unknown_names(value), place.line, place.column),
        mode, out);
    return;
  }
  if (change.empty()) return put(value, mode, out);
  const Range rest{inside.source, inside.begin + end, inside.end};
  const bool colon = change[0] == ':';
  const char how = colon && change.size() > 1 ? change[1] : change[0];
  if (std::string_view("-=+?").find(how) == std::string_view::npos) {
    return put(changed(value, change, rest, mode), mode, out);
  }
  const Range other{inside.source, rest.begin + (colon ? 2 : 1), rest.end};
  const bool absent =
      (is_unset(name) && !indexed) || (colon && is_known(value) && text_of(value).empty());
  if (how == '+') {
    if (absent) return;
    expand(other, mode, out);
    return;
  }
  if (!absent || how == '?') return put(value, mode, out);
  // Quotes around the other word are its own, within quotes too.
  const Value otherwise = text_in(other);
  if (is_unset(name)) out_.defaults[name] = text_of(otherwise);
  if (how == '=') set(name, otherwise);
  put(otherwise, mode, out);
}

// ${X%.*}, ${X/a/b}, ${X:0:2}, ${X,,}
Value Interpreter::changed(const Value& v, std::string_view change, Range rest, Mode mode) {
  const Segment place = rest.source->at(rest.begin);
  if (!is_known(v)) return v;
  std::string text = text_of(v);
  const auto word = [&](std::size_t from) {
    return text_of(text_in({rest.source, std::min(rest.begin + from, rest.end), rest.end}));
  };
  const bool twice = change.size() > 1 && change[0] == change[1];
  (void)mode;
  if (change[0] == '#' || change[0] == '%') {
    text = without(std::move(text), word(twice ? 2 : 1), change[0] == '%', twice);
  } else if (change[0] == '/') {
    const std::string both = word(twice ? 2 : 1);
    const std::size_t slash = std::min(both.find('/'), both.size());
    text = replaced(text, both.substr(0, slash),
                    slash < both.size() ? both.substr(slash + 1) : std::string(), twice);
  } else if (change[0] == ',' || change[0] == '^') {
    const bool lower = change[0] == ',';
    for (std::size_t i = 0; i < text.size() && (twice || i == 0); ++i) {
      const auto c = static_cast<unsigned char>(text[i]);
      text[i] = static_cast<char>(lower ? std::tolower(c) : std::toupper(c));
    }
  } else if (change[0] == ':') {
    const std::string both = word(1);
    const std::size_t colon = std::min(both.find(':'), both.size());
    std::string names;
    const auto from = number(known(both.substr(0, colon), 0, 0), names);
    const auto count = colon < both.size() ? number(known(both.substr(colon + 1), 0, 0), names)
                                           : static_cast<std::int64_t>(text.size());
    if (!from || !count) return unknown("a part of a text", place.line, place.column);
    const auto size = static_cast<std::int64_t>(text.size());
    const std::int64_t begin = std::clamp<std::int64_t>(*from < 0 ? *from + size : *from, 0, size);
    const std::int64_t end = *count < 0 ? size + *count : std::min(begin + *count, size);
    text = text.substr(static_cast<std::size_t>(begin),
                       static_cast<std::size_t>(std::max<std::int64_t>(end - begin, 0)));
  } else {
    return unknown("${...}", place.line, place.column);
  }
  return known(std::move(text), v.empty() ? place.line : v.front().line,
               v.empty() ? place.column : v.front().column);
}

}  // namespace meshplan::shell
