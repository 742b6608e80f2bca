#include "base/diagnostic.hpp"

#include <algorithm>

#include "base/printable.hpp"

namespace meshplan {
namespace {

std::string position_text(const SourcePosition& where) {
  if (where.file.empty()) return {};
  std::string text = printable_text(where.file);
  if (where.line > 0) text += ":" + std::to_string(where.line);
  if (where.line > 0 && where.column > 0) text += ":" + std::to_string(where.column);
  return text + ": ";
}

// Long lines (a config.json on one line) are cut to a window around the caret.
constexpr std::size_t kMaxShown = 120;

std::string caret_lines(const Diagnostic& d) {
  const std::size_t column = static_cast<std::size_t>(std::max(d.where.column, 1)) - 1;
  std::size_t first = 0;
  if (d.source_line.size() > kMaxShown && column > kMaxShown / 2) first = column - kMaxShown / 2;
  std::string shown = d.source_line.substr(std::min(first, d.source_line.size()), kMaxShown);
  // Control characters would move the caret or the terminal.
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  std::string text = "  " + printable_text(shown) + "\n";
  const std::size_t at = column - std::min(first, column);
  if (at > shown.size()) return text;
  const auto wanted = static_cast<std::size_t>(std::max(d.where.length, 1));
  const std::size_t room = std::max<std::size_t>(shown.size() - std::min(at, shown.size()), 1);
  text += "  " + std::string(at, ' ') + "^" + std::string(std::min(wanted, room) - 1, '~') + "\n";
  return text;
}

}  // namespace

std::string_view name_of(Severity s) {
  switch (s) {
    case Severity::kError:
      return "error";
    case Severity::kWarning:
      return "warning";
    case Severity::kNote:
      return "note";
  }
  return "error";
}

Diagnostic error(std::string message, std::string hint) {
  return Diagnostic{Severity::kError, {}, std::move(message), {}, std::move(hint)};
}

Diagnostic error_at(SourcePosition where, std::string message, std::string hint) {
  return Diagnostic{Severity::kError, std::move(where), std::move(message), {}, std::move(hint)};
}

std::string to_text(const Diagnostic& d) {
  std::string text = position_text(d.where);
  text += name_of(d.severity);
  text += ": " + printable_text(d.message) + "\n";
  if (!d.source_line.empty()) text += caret_lines(d);
  if (!d.hint.empty()) text += "  hint: " + printable_text(d.hint) + "\n";
  return text;
}

std::string to_text(const Diagnostics& all) {
  std::string text;
  for (const Diagnostic& d : all) text += to_text(d);
  return text;
}

bool has_errors(const Diagnostics& all) {
  return std::any_of(all.begin(), all.end(),
                     [](const Diagnostic& d) { return d.severity == Severity::kError; });
}

}  // namespace meshplan
