#pragma once
// What is wrong with something the user gave, and where. A diagnostic owns its strings.
#include <string>
#include <string_view>
#include <vector>

namespace meshplan {

enum class Severity { kError, kWarning, kNote };

// "error", "warning", "note".
[[nodiscard]] std::string_view name_of(Severity s);

// Position inside a text; lines and columns count from 1, and 0 means "not known".
struct SourcePosition {
  std::string file;  // file name as the user wrote it, or "--flag" for the command line
  int line = 0;
  int column = 0;
  int length = 1;  // how many characters the caret underlines

  bool operator==(const SourcePosition&) const = default;
};

struct Diagnostic {
  Severity severity = Severity::kError;
  SourcePosition where;
  std::string message;      // what is wrong
  std::string source_line;  // the offending line, empty if there is none
  std::string hint;         // the way out, empty if there is none

  bool operator==(const Diagnostic&) const = default;
};

using Diagnostics = std::vector<Diagnostic>;

[[nodiscard]] Diagnostic error(std::string message, std::string hint = {});
[[nodiscard]] Diagnostic error_at(SourcePosition where, std::string message, std::string hint = {});

// "file:line:column: error: message", the line, a caret under it, and the hint; ends in '\n'.
[[nodiscard]] std::string to_text(const Diagnostic& d);
[[nodiscard]] std::string to_text(const Diagnostics& all);

[[nodiscard]] bool has_errors(const Diagnostics& all);

}  // namespace meshplan
