// Words of a script -> the fields that a command gets.
#include <algorithm>

#include "launch/shell_arithmetic.hpp"
#include "launch/shell_interpreter.hpp"

namespace meshplan::shell {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

}  // namespace

void Interpreter::Fields::add(Segment s) {
  open = true;
  if (!current.empty() && current.back().unknown.empty() && s.unknown.empty()) {
    Segment& last = current.back();
    const bool joins =
        last.line == s.line && last.column + static_cast<int>(last.text.size()) == s.column;
    if (joins) {
      last.text += s.text;
      return;
    }
  }
  current.push_back(std::move(s));
}

void Interpreter::Fields::split(const Value& v) {
  for (const Segment& s : v) {
    if (!s.unknown.empty()) {
      add(s);
      continue;
    }
    std::size_t begin = 0;
    while (begin < s.text.size()) {
      const std::size_t word = s.text.find_first_not_of(kBlanks, begin);
      if (word != begin) close();
      if (word == std::string::npos) break;
      const std::size_t end = std::min(s.text.find_first_of(kBlanks, word), s.text.size());
      add({s.text.substr(word, end - word), {}, false, s.line, s.column + static_cast<int>(word)});
      begin = end;
    }
  }
}

void Interpreter::Fields::close() {
  if (open) all.push_back(std::move(current));
  current.clear();
  open = false;
}

std::vector<Value> Interpreter::fields_of(Range word) {
  Fields out;
  expand(word, Mode::kPlain, out);
  out.close();
  return std::move(out.all);
}

Value Interpreter::text_in(Range word, Mode mode) {
  Fields out;
  out.splits = false;
  expand(word, mode, out);
  return std::move(out.current);
}

void Interpreter::put(const Value& v, Mode mode, Fields& out) {
  for (const Segment& s : v) {
    if (s.text.size() > room_) return;
    room_ -= s.text.size();
  }
  if (mode == Mode::kPlain && out.splits) {
    out.split(v);
    return;
  }
  for (const Segment& s : v) out.add(s);
}

void Interpreter::list(const std::vector<Value>& items, Mode mode, bool joined, Fields& out) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) {
      const Segment at = items[i].empty() ? Segment() : items[i].front();
      if (joined || !out.splits) {
        out.add({" ", {}, false, at.line, at.column - 1});
      } else {
        out.close();
      }
    }
    if (mode != Mode::kPlain) out.open = true;
    put(items[i], mode, out);
  }
}

void Interpreter::expand(Range range, Mode mode, Fields& out) {
  const std::string_view text = range.source->text;
  const auto literal = [&](std::size_t at, std::size_t length) {
    Segment s = range.source->at(at);
    s.text = std::string(text.substr(at, length));
    out.add(std::move(s));
  };
  for (std::size_t i = range.begin; i < range.end;) {
    const char c = text[i];
    if (c == '\'' && mode == Mode::kPlain) {
      const std::size_t end = std::min(skip_quoted(text, i), range.end);
      out.open = true;
      for (std::size_t k = i + 1; k + 1 < end; ++k) literal(k, 1);
      i = end;
    } else if (c == '"' && mode != Mode::kDocument) {
      const std::size_t end = std::min(skip_quoted(text, i), range.end);
      out.open = true;
      const std::size_t last = end > i + 1 && text[end - 1] == '"' ? end - 1 : end;
      if (++depth_ < kDeepestCalls) expand({range.source, i + 1, last}, Mode::kQuoted, out);
      --depth_;
      i = end;
    } else if (c == '\\') {
      i = backslash(range, i, mode, out);
    } else if (c == '$' || c == '`') {
      i = dollar(range, i, mode, out);
    } else {
      literal(i, 1);
      ++i;
    }
  }
}

std::size_t Interpreter::backslash(Range range, std::size_t at, Mode mode, Fields& out) {
  const std::string_view text = range.source->text;
  if (at + 1 >= range.end) return range.end;
  const char next = text[at + 1];
  if (next == '\n') return at + 2;
  if (next == '\r' && at + 2 < range.end && text[at + 2] == '\n') return at + 3;
  const bool escapes = mode == Mode::kPlain ||
                       std::string_view("$`\\").find(next) != std::string_view::npos ||
                       (next == '"' && mode == Mode::kQuoted);
  Segment s = range.source->at(escapes ? at + 1 : at);
  s.text = std::string(text.substr(escapes ? at + 1 : at, escapes ? 1 : 2));
  out.add(std::move(s));
  return at + 2;
}

std::size_t Interpreter::dollar(Range range, std::size_t at, Mode mode, Fields& out) {
  const std::string_view text = std::string_view(range.source->text).substr(0, range.end);
  const Segment place = range.source->at(at);
  const std::size_t end = skip_expansion(text, at);
  const auto inside = [&](std::size_t open, std::size_t close) {
    const std::size_t last = end > at + open + close ? end - close : at + open;
    return Range{range.source, std::min(at + open, last), last};
  };
  if (text[at] == '`') {
    put(substitution(inside(1, 1)), mode, out);
    return end;
  }
  const std::string_view rest = text.substr(at + 1);
  if (rest.starts_with("((")) {
    put(calculated(inside(3, 2)), mode, out);
  } else if (rest.starts_with("(")) {
    put(substitution(inside(2, 1)), mode, out);
  } else if (rest.starts_with("{")) {
    braces(inside(2, 1), mode, out);
  } else if (rest.starts_with("'") && mode == Mode::kPlain) {
    Segment s = place;
    s.text = ansi_c(inside(2, 1).text());
    out.open = true;
    out.add(std::move(s));
  } else if (rest.starts_with("\"") && mode == Mode::kPlain) {
    return at + 1;  // a string to translate: what follows is read as a quoted one
  } else if (rest.starts_with("@") || rest.starts_with("*")) {
    if (!knows_arguments_ && mode == Mode::kPlain) return at + 2;
    list(arguments_, mode, rest[0] == '*' && mode != Mode::kPlain, out);
    if (arguments_.empty() && mode == Mode::kQuoted && out.current.empty()) out.open = false;
    return at + 2;
  } else {
    std::size_t length = 0;
    if (!rest.empty() && rest[0] >= '0' && rest[0] <= '9') {
      length = 1;
    } else {
      while (length < rest.size() && is_name_char(rest[length])) ++length;
      const bool special =
          !rest.empty() && std::string_view("#?$!-").find(rest[0]) != std::string_view::npos;
      if (length == 0 && special) length = 1;
    }
    if (length == 0) {
      Segment s = place;
      s.text = "$";
      out.add(std::move(s));
      return at + 1;
    }
    put(value_of(std::string(rest.substr(0, length)), place), mode, out);
    return at + 1 + length;
  }
  return end;
}

std::optional<std::int64_t> Interpreter::number(const Value& expression, std::string& names) {
  if (!is_known(expression)) {
    names = unknown_names(expression);
    return std::nullopt;
  }
  if (++depth_ > kDeepestCalls) {
    --depth_;
    return std::nullopt;
  }
  ArithmeticVariables variables;
  variables.get = [&](const std::string& name) -> std::optional<std::int64_t> {
    const Value v = value_of(name, {});
    if (is_known(v)) return number(v, names);
    names += (names.empty() ? "" : ", ") + unknown_names(v);
    return std::nullopt;
  };
  variables.set = [&](const std::string& name, std::optional<std::int64_t> value) {
    const Segment at = expression.empty() ? Segment() : expression.front();
    set(name, value ? known(std::to_string(*value), at.line, at.column)
                    : unknown(name, at.line, at.column));
  };
  const std::optional<std::int64_t> value = arithmetic(text_of(expression), variables);
  --depth_;
  return value;
}

Value Interpreter::calculated(Range expression) {
  const Segment at = expression.source->at(expression.begin);
  const Value text = text_in(expression, Mode::kQuoted);
  std::string names;
  const std::optional<std::int64_t> value = number(text, names);
  if (value) return known(std::to_string(*value), at.line, at.column);
  return unknown(names.empty() ? "$((" + std::string(expression.text()) + "))" : names, at.line,
                 at.column);
}

Value Interpreter::substitution(Range command) {
  const Segment at = command.source->at(command.begin);
  if (depth_ >= kDeepestCalls) return unknown("$(...)", at.line, at.column);
  ++depth_;
  sources_.push_back({std::string(command.text()), {{0, at.line, at.column}}});
  Source& source = sources_.back();
  for (std::size_t i = 0; i < source.text.size(); ++i) {
    if (source.text[i] != '\n') continue;
    const Segment next = command.source->at(command.begin + i + 1);
    source.anchors.push_back({i + 1, next.line, next.column});
  }
  scripts_.push_back(parse(source));
  // What a subshell changes stays in it.
  const std::map<std::string, Variable> before = out_.variables;
  const bool stopped = stopped_;
  Value printed;
  Value* outer = captured_;
  captured_ = &printed;
  (void)execute(*scripts_.back());
  captured_ = outer;
  out_.variables = before;
  stopped_ = stopped;
  --depth_;
  while (!printed.empty() && printed.back().unknown.empty()) {
    std::string& last = printed.back().text;
    while (!last.empty() && last.back() == '\n') last.pop_back();
    if (!last.empty()) break;
    printed.pop_back();
  }
  return printed;
}

}  // namespace meshplan::shell
