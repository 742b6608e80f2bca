#pragma once
// Configurations that are Python, as text: enough of its grammar for calls with keywords and
// assignments. Nothing is run.
#include <string>
#include <string_view>
#include <vector>

namespace meshplan {

// The text without comments and without what stands in triple quotes, every other byte where it
// was.
[[nodiscard]] std::string without_python_comments(std::string_view text);

struct PythonKeyword;

struct PythonValue {
  enum class Kind { kText, kNumber, kWord, kList, kCall, kName, kOther };

  Kind kind = Kind::kOther;
  std::string text;  // of a text, a number (products worked out), True, False or None;
                     // the dotted name of a call or a name
  std::vector<PythonValue> items;       // of a list; what a call is given by position
  std::vector<PythonKeyword> keywords;  // of a call
  int line = 0;                         // from 1

  [[nodiscard]] const PythonValue* keyword(std::string_view name) const;
};

// "name=value" of a call: a type of its own, since a pair needs the value complete.
struct PythonKeyword {
  std::string name;
  PythonValue value;
};

// The expression between two offsets of `text`, which has no comments; the first is in `line`.
[[nodiscard]] PythonValue read_python_value(std::string_view text, std::size_t begin,
                                            std::size_t end, int line = 1);

// A statement: one line, or as many as its brackets span.
struct PythonStatement {
  std::size_t begin = 0, end = 0;  // offsets, without what it is indented by
  std::size_t indent = 0;
  int line = 0;
};
[[nodiscard]] std::vector<PythonStatement> python_statements(std::string_view text);

// "left = right" of a statement: the offset of the "="; npos where it assigns nothing.
[[nodiscard]] std::size_t python_assignment(std::string_view text, const PythonStatement& s);

}  // namespace meshplan
