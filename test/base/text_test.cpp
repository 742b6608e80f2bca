#include "base/text.hpp"

#include <array>

#include "base/printable.hpp"
#include "support/catch.hpp"

using namespace meshplan;

TEST_CASE("marks that turn or hide text are not printed") {
  for (const char* mark : {"\u200e", "\u200f", "\u061c", "\ufeff", "\u202e", "\u2066"}) {
    CHECK(printable_text("a" + std::string(mark) + "b") == "a?b");
  }
  CHECK(printable_text("\u00e9\u6f22") == "\u00e9\u6f22");
}

TEST_CASE("control characters of JSON are escaped, and nothing else of it changes") {
  CHECK(escaped_json("{\"a\": [1, \"\u00e9\\n\"]}") == "{\"a\": [1, \"\u00e9\\n\"]}");
  CHECK(escaped_json("\"\x7f\u0085\u2028\u202e\ufeff\"") ==
        "\"\\u007f\\u0085\\u2028\\u202e\\ufeff\"");
  CHECK(escaped_json("\x85\xff") == "\x85\xff");  // broken: no character
  CHECK(escaped_json("").empty());
}

TEST_CASE("numbers for people have three digits and a unit that fits") {
  CHECK(human_bytes(Bytes{65'820'000'000}) == "61.3 GiB");
  CHECK(human_bytes(Bytes{0}) == "0.00 B");
  CHECK(human_time(Seconds{1.2387}) == "1.24 s");
  CHECK(human_time(Seconds{13e-6}) == "13.0 us");
  CHECK(human_time(Seconds{}) == "0 s");
  CHECK(human_time(Seconds{120}) == "120 s");
  CHECK(human_time(Seconds{7200}) == "2.00 h");
  CHECK(human_rate(FlopsPerSecond{412e12}) == "412 TFLOP/s");
  CHECK(human_bandwidth(BytesPerSecond{450e9}) == "450 GB/s");
  CHECK(human_percent(0.4213) == "42.1 %");
  CHECK(human_count(405.853e9) == "405.9 B");
  CHECK(human_count(12) == "12");
}

TEST_CASE("a rounded value moves to the next unit instead of showing 1000") {
  CHECK(human_time(Seconds{0.99996e-3}) == "1.00 ms");
}

TEST_CASE("thousands are grouped") {
  CHECK(with_thousands(16384) == "16,384");
  CHECK(with_thousands(-1234567) == "-1,234,567");
  CHECK(with_thousands(999) == "999");
}

TEST_CASE("fixed text never shows minus zero") {
  CHECK(fixed(-0.0001, 2) == "0.00");
  CHECK(fixed(-1.005, 1) == "-1.0");
}

TEST_CASE("edit distance counts inserted, deleted, replaced and swapped characters") {
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("bandwith", "bandwidth") == 1);
  CHECK(edit_distance("mico_batch", "micro_batch") == 1);
  CHECK(edit_distance("tpye", "type") == 1);
}

TEST_CASE("the nearest name is offered only if it is near") {
  constexpr std::array<std::string_view, 3> known{"hidden_size", "num_layers", "vocab_size"};
  CHECK(nearest("hiden_size", known) == "hidden_size");
  CHECK(nearest("num_layer", known) == "num_layers");
  CHECK_FALSE(nearest("completely_else", known).has_value());
  CHECK_FALSE(nearest("", known).has_value());
}

TEST_CASE("words are joined as people write lists") {
  const std::array<std::string, 3> words{"tp", "pp", "dp"};
  CHECK(join_words(words) == "tp, pp and dp");
  CHECK(join_words(std::span(words).first(1)) == "tp");
  CHECK(join_words({}).empty());
}
