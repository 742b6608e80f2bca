#include "io/lengths_file.hpp"

#include "io/load.hpp"
#include "support/catch.hpp"

using namespace meshplan;

TEST_CASE("a length a line, or a histogram") {
  const Result<LengthSpec> lines = parse_lengths("# mine\n512\n\n64\r\n512\n", "a.txt");
  REQUIRE(lines);
  CHECK(lines->name == "a.txt");
  CHECK(lines->bins == std::vector<LengthBin>{{64, 1}, {512, 2}});
  for (const char* text : {"64 1\n512 2\n", "64,1\n512,2", "64\t1\n512\t2\n"}) {
    const Result<LengthSpec> histogram = parse_lengths(text, "b.txt");
    REQUIRE(histogram);
    CHECK(histogram->bins == lines->bins);
  }
}

TEST_CASE("what is no file of lengths is refused with its line") {
  const auto line_of = [](std::string_view text) {
    const Result<LengthSpec> lengths = parse_lengths(text, "a.txt");
    REQUIRE_FALSE(lengths);
    CHECK(lengths.errors().front().where.file == "a.txt");
    CHECK_FALSE(lengths.errors().front().hint.empty());
    return lengths.errors().front().where.line;
  };
  CHECK(line_of("") == 0);
  CHECK(line_of("# none\n\n") == 0);
  CHECK(line_of("64 0\n512 0\n") == 0);
  CHECK(line_of("64\nabc\n") == 2);
  CHECK(line_of("64\n512 2\n") == 2);
  CHECK(line_of("64 2\n512\n") == 2);
  CHECK(line_of("1 2 3\n") == 1);
  CHECK(line_of("64\n0\n") == 2);
  CHECK(line_of("-5\n") == 1);
  CHECK(line_of("2000000000\n") == 1);
  CHECK(line_of("64 -1\n") == 1);
  CHECK(line_of("64 nan\n") == 1);
}

TEST_CASE("token counts of JSON lines") {
  const Result<LengthSpec> counts = parse_token_counts(
      "{\"tokens\": 512}\n{\"input_ids\": [1, 2, 3]}\n\n{\"length\": 512, \"text\": \"x\"}\n"
      "{\"tokens\": [5, 6]}\n",
      "a.jsonl");
  REQUIRE(counts);
  CHECK(counts->bins == std::vector<LengthBin>{{2, 1}, {3, 1}, {512, 2}});
  const auto line_of = [](std::string_view text) {
    const Result<LengthSpec> wrong = parse_token_counts(text, "a.jsonl");
    REQUIRE_FALSE(wrong);
    CHECK_FALSE(wrong.errors().front().hint.empty());
    return wrong.errors().front().where.line;
  };
  CHECK(line_of("") == 0);
  CHECK(line_of("{\"tokens\": 1}\n{\"text\": \"not counted\"}") == 2);
  CHECK(line_of("[1, 2]") == 1);
  CHECK(line_of("{\"tokens\": ") == 1);
  CHECK(line_of("{\"tokens\": 0}") == 1);
  CHECK(line_of("{\"tokens\": 1e5}") == 1);
}

TEST_CASE("what is written reads back") {
  const LengthSpec lengths{"data.jsonl", {{3, 1}, {512, 2}, {2000, 40}}};
  const Result<LengthSpec> again = parse_lengths(lengths_file_text(lengths), "x");
  REQUIRE(again);
  CHECK(again->bins == lengths.bins);
}

TEST_CASE("a distribution by name needs no file, and a file that is not there is named") {
  CHECK(load_lengths("fixed(64)")->bins == std::vector<LengthBin>{{64, 1}});
  const Result<LengthSpec> missing = load_lengths("/nowhere/lengths.txt");
  REQUIRE_FALSE(missing);
  CHECK_FALSE(missing.errors().front().hint.empty());
}

TEST_CASE("a model file's histogram of lengths is read, and what is wrong with it is said") {
  const std::string sizes =
      "name: m\nnum_layers: 2\nhidden_size: 64\nnum_attention_heads: 4\nffn_hidden_size: 256\n"
      "vocab_size: 1000\nmax_seq_length: 128\n";
  const auto model = [&](const std::string& lengths) {
    return parse_model(sizes + "lengths: " + lengths + "\n", "m.yaml");
  };
  const Result<ModelSpec> good = model("{name: x, tokens: [64, 100.5], documents: [3, 0.5]}");
  REQUIRE(good);
  CHECK(good->lengths == LengthSpec{"x", {{64, 3}, {100.5, 0.5}}});
  for (const char* bad :
       {"{name: x, tokens: [64], documents: [1, 2]}", "{name: x, tokens: [], documents: []}",
        "{name: x, tokens: [64, 32], documents: [1, 1]}", "{name: x, tokens: [64], documents: [0]}",
        "{name: x, tokens: [0], documents: [1]}", "{tokens: [64], documents: [1]}",
        "{name: x, tokens: [a], documents: [1]}",
        "{name: x, tokens: [64], documents: [1], y: 2}"}) {
    INFO(bad);
    CHECK_FALSE(model(bad));
  }
}
