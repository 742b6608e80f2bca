#pragma once
// The words of a launch script, as far as they can be known without running it.
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace meshplan {

// Of a file, never null; thousands of settings may stand in one line.
using SourceLine = std::shared_ptr<const std::string>;

struct ShellWord {
  std::string text;
  int line = 0, column = 0;  // from 1
};

struct ShellScript {
  // Every word of every command and array in the order of the file, quotes removed and $NAME
  // replaced where a plain assignment above says what it is. An assigned text that holds options
  // ("ARGS='--bf16 --swiglu'") is read as words where it is assigned. References to arrays are left
  // out: the words stand where the array does.
  std::vector<ShellWord> words;
  std::map<std::string, ShellWord> variables;  // last assignment
  std::vector<SourceLine> lines;

  [[nodiscard]] std::string line_of(const ShellWord& word) const { return *shared_line_of(word); }
  [[nodiscard]] SourceLine shared_line_of(const ShellWord& word) const;
};

[[nodiscard]] ShellScript read_shell(std::string_view text);

}  // namespace meshplan
