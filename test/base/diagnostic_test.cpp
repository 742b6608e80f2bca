#include "base/diagnostic.hpp"

#include <string>

#include "base/check.hpp"
#include "base/result.hpp"
#include "support/catch.hpp"

using namespace meshplan;

TEST_CASE("a diagnostic shows position, line, caret and the way out") {
  Diagnostic d = error_at({"models/llama.yaml", 2, 11, 6},
                          "'layers' must be a positive integer, got \"thirty\"", "write a number");
  d.source_line = "  layers: thirty";
  CHECK(to_text(d) ==
        "models/llama.yaml:2:11: error: 'layers' must be a positive integer, got \"thirty\"\n"
        "    layers: thirty\n"
        "            ^~~~~~\n"
        "  hint: write a number\n");
}

TEST_CASE("a diagnostic without position is one line") {
  CHECK(to_text(error("no")) == "error: no\n");
  CHECK(to_text(error_at({"file", 0, 0, 1}, "is a folder")) == "file: error: is a folder\n");
}

TEST_CASE("long lines are cut around the caret and control characters are not printed") {
  Diagnostic d = error_at({"x", 1, 500, 1}, "here");
  d.source_line = std::string(499, 'a') + "\x1b[31m" + std::string(500, 'b');
  const std::string text = to_text(d);
  CHECK(text.size() < 300);
  CHECK(text.find('\x1b') == std::string::npos);
}

TEST_CASE("warnings are no errors") {
  Diagnostic d = error("careful");
  d.severity = Severity::kWarning;
  CHECK_FALSE(has_errors({d}));
  CHECK(has_errors({d, error("wrong")}));
  CHECK(to_text(d) == "warning: careful\n");
}

TEST_CASE("a result is a value or all diagnostics, and taking the wrong one is a bug of ours") {
  const Result<int> value = 3;
  const Result<int> failed = Diagnostics{error("one"), error("two")};
  CHECK(*value == 3);
  CHECK(failed.errors().size() == 2);
  CHECK_THROWS_AS(*failed, InternalError);
  CHECK_THROWS_AS(value.errors(), InternalError);
}
