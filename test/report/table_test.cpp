#include "report/table.hpp"

#include <sstream>

#include "base/check.hpp"
#include "report/search_progress.hpp"
#include "support/catch.hpp"

using namespace meshplan;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("a table lines up its columns under a rule", "[table]") {
  Table table({{"name", Align::kLeft}, {"n"}});
  table.add_row({"a", "1"});
  table.add_row({"longer", "20"});
  CHECK(table.text({}) ==
        "name     n\n"
        "------  --\n"
        "a        1\n"
        "longer  20\n");
}

TEST_CASE("a table that is too wide wraps the columns that may give way", "[table]") {
  Table table({{"key", Align::kLeft}, {"text", Align::kLeft, true}});
  table.add_row({"a", "one two three four"});
  CHECK(table.text({.width = 17}) ==
        "key  text\n"
        "---  ------------\n"
        "a    one two\n"
        "     three four\n");
}

TEST_CASE("no line of a wrapping table is wider than the terminal", "[table]") {
  const std::size_t width = GENERATE(40, 60, 80, 133);
  Table table({{"a", Align::kLeft, true}, {"b", Align::kLeft, true}, {"c"}});
  table.add_row(
      {std::string(200, 'x'), "some words of text that go on for rather long, and on", "7"});
  table.add_row({"short", std::string(90, 'y'), "12345"});
  for (const std::string& line : lines_of(table.text({.width = width}))) {
    CHECK(display_width(line) <= width);
  }
}

TEST_CASE("a row must have a cell per column", "[table]") {
  Table table({{"a"}, {"b"}});
  CHECK_THROWS_AS(table.add_row({"1"}), InternalError);
}

TEST_CASE("widths count what a terminal shows, not bytes", "[table]") {
  CHECK(display_width("plain") == 5);
  CHECK(display_width("\xc3\xa9") == 1);                  // e acute, two bytes
  CHECK(display_width("e\xcc\x81") == 1);                 // e and a combining acute
  CHECK(display_width("\xe6\xa8\xa1\xe5\x9e\x8b") == 4);  // two Chinese characters
  CHECK(display_width("\xff") == 1);                      // not UTF-8
}

TEST_CASE("names with accents and wide characters keep columns aligned", "[table]") {
  Table table({{"m", Align::kLeft}, {"n"}});
  table.add_row({"\xc3\xa9t\xc3\xa9", "1"});
  table.add_row({"\xe6\xa8\xa1", "2"});
  CHECK(table.text({}) == "m    n\n---  -\n\xc3\xa9t\xc3\xa9  1\n\xe6\xa8\xa1   2\n");
}

TEST_CASE("control characters and broken UTF-8 never reach the terminal", "[table]") {
  CHECK(printable("a\x1b[31mb\n") == "a?[31mb?");
  CHECK(printable("\xc3(") == "?(");
  CHECK(printable("\xed\xa0\x80") == "???");  // a surrogate
  CHECK(printable("\xc0\xaf") == "??");       // overlong
  CHECK(printable("\xc3\xa9") == "\xc3\xa9");
}

TEST_CASE("text wraps at spaces, and inside words only where one is too long", "[table]") {
  CHECK(wrap_text("one two three", 7) == std::vector<std::string>{"one two", "three"});
  CHECK(wrap_text("abcdefgh", 3) == std::vector<std::string>{"abc", "def", "gh"});
  CHECK(wrap_text("", 10) == std::vector<std::string>{""});
}

TEST_CASE("wrapping never cuts a character in two", "[table]") {
  const std::vector<std::string> lines = wrap_text("\xc3\xa9\xc3\xa9\xc3\xa9", 2);
  CHECK(lines == std::vector<std::string>{"\xc3\xa9\xc3\xa9", "\xc3\xa9"});
}

TEST_CASE("the lines of a paragraph after the first are indented under its text", "[table]") {
  CHECK(paragraph("- ", "aaaaaaaaaa bbbbbbbbbb cccccccccc", {.width = 24}) ==
        "- aaaaaaaaaa bbbbbbbbbb\n  cccccccccc\n");
}

TEST_CASE("a bar is as long as its share, and never empty for a share above zero", "[table]") {
  CHECK(bar(0.5, 10) == "#####");
  CHECK(bar(0.001, 10) == "#");
  CHECK(bar(0, 10).empty());
  CHECK(bar(2, 10) == std::string(10, '#'));
}

TEST_CASE("colour codes appear only when asked for", "[table]") {
  CHECK(emphasised("x", Emphasis::kBad, {}) == "x");
  CHECK(emphasised("x", Emphasis::kBad, {.colour = true}) == "\x1b[31mx\x1b[0m");
}

TEST_CASE("progress shows the share that is done and the time that is left at the same pace") {
  // Two of eight seconds are a quarter: six are left.
  CHECK(progress_line("searching", 0.25, Seconds{2}, 80) ==
        "searching [########                      ]  25 %, about 6.00 s left");
  CHECK(progress_line("searching", 1, Seconds{8}, 80) ==
        "searching [##############################] 100 %");
  // Too early to tell.
  CHECK(progress_line("measuring", 0.01, Seconds{2}, 80) ==
        "measuring [#                             ]   1 %");
}

TEST_CASE("progress says what a search has found and proved so far, where there is room") {
  CHECK(best_so_far({.share = 0.5, .best = {}, .gap = 0.1}).empty());
  CHECK(best_so_far({.share = 0, .best = Seconds{12}}) == "; best 12.0 s a step");
  const std::string more = best_so_far({.share = 0.5, .best = Seconds{12}, .gap = 0.042});
  CHECK(more == "; best 12.0 s a step, none over 4.2 % faster");
  CHECK(progress_line("searching", 0.5, Seconds{3}, 80, more) ==
        "searching  50 %, about 3.00 s left; best 12.0 s a step, none over 4.2 % faster");
  CHECK(progress_line("searching", 0.5, Seconds{3}, 50, more) ==
        progress_line("searching", 0.5, Seconds{3}, 50));
  for (std::size_t width = 40; width <= 100; ++width) {
    CHECK(display_width(progress_line("searching", 0.5, Seconds{3}, width, more)) <= width);
  }
}

TEST_CASE("progress keeps to its width, and gives up the bar before the numbers") {
  for (std::size_t width = 40; width <= 100; ++width) {
    CHECK(display_width(progress_line("searching", 0.5, Seconds{3}, width)) <= width);
  }
  CHECK(progress_line("searching", 0.5, Seconds{3}, 20) == "searching  50 %, about 3.00 s left");
}
