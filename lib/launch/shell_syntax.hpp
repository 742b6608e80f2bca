#pragma once
// The grammar of a shell script: commands and their words, which are not yet expanded.
#include <list>
#include <memory>
#include <vector>

#include "launch/shell_value.hpp"

namespace meshplan::shell {

struct Redirect {
  bool here_document = false;
  bool expands = true;  // of a here-document: its delimiter was not quoted
  bool output = false;
  Range target;  // a word, or the text of a here-document
};

struct Node {
  enum class Kind {
    kSimple,      // words, with assignments before the first that is none
    kSequence,    // children one after the other
    kAnd,         // children until one fails
    kOr,          // children until one succeeds
    kNot,         // of one child
    kPipe,        // children side by side
    kIf,          // condition, body, condition, body, ..., perhaps a body for all else
    kCase,        // words: the subject; arms in `arms`
    kFor,         // words: the variable and what it takes; children: the body
    kWhile,       // condition and body
    kFunction,    // words: its name; children: its body
    kTest,        // [[ words ]]
    kArithmetic,  // (( words[0] ))
  };
  struct Arm {
    std::vector<Range> patterns;
    std::unique_ptr<Node> body;
  };
  Kind kind = Kind::kSimple;
  std::vector<Range> words;
  std::list<Redirect> redirects;  // whose places stay: a here-document is read behind its line
  std::vector<std::unique_ptr<Node>> children;
  std::vector<Arm> arms;
  bool over_arguments = false;  // "for x": the script's arguments
  bool until = false;           // of a loop
};

// Never fails: what is no shell is read as commands that nobody knows. `source` must outlive it.
[[nodiscard]] std::unique_ptr<Node> parse(const Source& source);

// The words between the parentheses of an array, "A=(...)".
[[nodiscard]] std::vector<Range> words_in(Range list);

// Behind the quote, parenthesis or brace that begins at `at`; the end of the text where none ends.
[[nodiscard]] std::size_t skip_quoted(std::string_view text, std::size_t at);
// Of an expansion: `at` is its '$' or '`'.
[[nodiscard]] std::size_t skip_expansion(std::string_view text, std::size_t at);
// What `$'text'` stands for: \n, \t, \xHH, \nnn and the like as bash reads them, others as they
// are.
[[nodiscard]] std::string ansi_c(std::string_view text);

[[nodiscard]] bool is_name_char(char c);
[[nodiscard]] bool is_name(std::string_view text);
// Length of "NAME", "NAME[i]" before "=" or "+=" where the word begins with an assignment; else 0.
[[nodiscard]] std::size_t assigned_name(std::string_view word);

}  // namespace meshplan::shell
