#include "launch/shell.hpp"

#include <array>
#include <cstdio>

#include "support/catch.hpp"

namespace meshplan {
namespace {

// What a shell makes of `words`, one per line of hexadecimal bytes.
std::string through_shell(const std::string& command) {
  FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string output;
  std::array<char, 256> buffer{};
  for (std::size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    output.append(buffer.data(), n);
  }
  CHECK(::pclose(pipe) == 0);
  return output;
}

const std::string kHostile[] = {
    "plain",          "",      "two words", "it's", "$(exit 9)", "`exit 9`",   "a\nb",
    "\"; exit 9; \"", "$HOME", "*",         "\\",   "-n",        "a'b\"c$d`e", "(tt|)*3",
    "([0]*3+[1])",    "\t#x",  "~",         "!x",   "{a,b}",     "\xc3\xa9"};

}  // namespace

TEST_CASE("a shell reads a quoted word as the text that it was") {
  for (const std::string& text : kHostile) {
    INFO(text);
    CHECK(through_shell("printf %s " + shell_word(text)) == text);
  }
}

TEST_CASE("bytes that no program can be passed are left out") {
  CHECK(shell_word(std::string_view("a\0b", 3)) == "ab");
}

TEST_CASE("numbers and paths stay readable") {
  CHECK(shell_word("3e-4") == "3e-4");
  CHECK(shell_word("/data/x_1.json") == "/data/x_1.json");
  CHECK(shell_line({"--split", "99,1,0"}) == "--split '99,1,0'");
}

TEST_CASE("a comment stays one line") {
  CHECK(comment_text("a\nrm -rf x\r\x1b[1m") == "a rm -rf x  [1m");
}

TEST_CASE("job names have plain characters alone") {
  CHECK(plain_name("my model/7b\n--wrap=x") == "my_model_7b_--wrap_x");
  CHECK(plain_name("--wrap") == "x--wrap");
  CHECK(plain_name("") == "x");
  CHECK(plain_name(std::string(300, 'a')).size() == 64);
}

}  // namespace meshplan
