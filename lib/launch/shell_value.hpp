#pragma once
// Text whose every part knows where in the script it stands, and what it needs to be known.
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace meshplan::shell {

// A part of a text. Where `unknown` is not empty, it names what would say it ("SLURM_NNODES, 3")
// and `text` is empty.
struct Segment {
  std::string text;
  std::string unknown;
  // It is unknown because nothing sets the variable: whoever runs the script may leave it empty.
  bool unset = false;
  int line = 0, column = 0;  // from 1
};
using Value = std::vector<Segment>;

[[nodiscard]] std::string text_of(const Value& v);
[[nodiscard]] bool is_known(const Value& v);
// Names that would say the unknown parts, without repeats, joined by ", ".
[[nodiscard]] std::string unknown_names(const Value& v);
[[nodiscard]] Value known(std::string text, int line, int column);
[[nodiscard]] Value unknown(std::string name, int line, int column);

// The first line that is not empty, cut where it is long.
[[nodiscard]] std::string first_line(std::string_view text);
// Behind the last '/'.
[[nodiscard]] std::string without_folder(const std::string& path);

// A text that is read as a script: positions of its characters lead back to the file.
struct Source {
  struct Anchor {
    std::size_t offset;
    int line, column;
  };
  std::string text;
  std::vector<Anchor> anchors;  // by offset; characters behind one stand in its line

  [[nodiscard]] Segment at(std::size_t offset) const;  // position only
};
[[nodiscard]] Source source_of(std::string_view file_text);
// Unknown parts are left out; `was_known` says whether there were none.
[[nodiscard]] Source source_of(const Value& v);

// Of a source, without copying it.
struct Range {
  const Source* source = nullptr;
  std::size_t begin = 0, end = 0;

  [[nodiscard]] std::string_view text() const {
    return std::string_view(source->text).substr(begin, end - begin);
  }
};

}  // namespace meshplan::shell
