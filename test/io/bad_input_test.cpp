// What a person can get wrong in a file, and exactly what they read then.
#include <string>
#include <vector>

#include "io/load.hpp"
#include "io/yaml_tree.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

// A sound model; the tests replace one line of it.
const std::vector<std::string>& sound_lines() {
  static const std::vector<std::string> lines{
      "name: tiny",              // 1
      "num_layers: 4",           // 2
      "hidden_size: 64",         // 3
      "num_attention_heads: 4",  // 4
      "ffn_hidden_size: 256",    // 5
      "vocab_size: 1000",        // 6
      "max_seq_length: 128",     // 7
  };
  return lines;
}

std::string model_with(const std::string& line) {
  const std::string key = line.substr(0, line.find(':') + 1);
  std::string text;
  bool replaced = false;
  for (const std::string& sound : sound_lines()) {
    const bool same = sound.substr(0, sound.find(':') + 1) == key;
    replaced = replaced || same;
    text += (same ? line : sound) + "\n";
  }
  return replaced ? text : text + line + "\n";
}

std::string errors_of(std::string_view text) {
  const auto read = parse_model(text, "m.yaml");
  return read.ok() ? "no error" : to_text(read.errors());
}

struct Row {
  std::string line;
  std::string want;
};

}  // namespace

TEST_CASE("The sound model reads") { CHECK(errors_of(model_with("num_layers: 4")) == "no error"); }

TEST_CASE("One wrong value is one message with its position") {
  const auto row = GENERATE(values<Row>({
      {"num_layers: 0",
       "m.yaml:2:13: error: 'num_layers' must be from 1 to 100,000, got 0\n"
       "  num_layers: 0\n"
       "              ^\n"},
      {"num_layers: -3",
       "m.yaml:2:13: error: 'num_layers' must be from 1 to 100,000, got -3\n"
       "  num_layers: -3\n"
       "              ^~\n"},
      {"num_layers: thirty",
       "m.yaml:2:13: error: 'num_layers' must be a whole number, got \"thirty\"\n"
       "  num_layers: thirty\n"
       "              ^~~~~~\n"},
      {"num_layers: 4.5",
       "m.yaml:2:13: error: 'num_layers' must be a whole number, got \"4.5\"\n"
       "  num_layers: 4.5\n"
       "              ^~~\n"},
      {"num_layers: 1e3",
       "m.yaml:2:13: error: 'num_layers' must be a whole number, got \"1e3\"\n"
       "  num_layers: 1e3\n"
       "              ^~~\n"},
      {"num_layers: 010",
       "m.yaml:2:13: error: 'num_layers' must be a whole number, got \"010\"\n"
       "  num_layers: 010\n"
       "              ^~~\n"
       "  hint: leave out the leading zero\n"},
      {"num_layers: 0x10",
       "m.yaml:2:13: error: 'num_layers' must be a whole number, got \"0x10\"\n"
       "  num_layers: 0x10\n"
       "              ^~~~\n"},
      {"num_layers: 1000000000000000000000000000000",
       "m.yaml:2:13: error: 'num_layers' is too large, got \"1000000000000000000000000000000\"\n"
       "  num_layers: 1000000000000000000000000000000\n"
       "              ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n"},
      {"num_layers: \"4\"",
       "m.yaml:2:13: error: 'num_layers' must be a whole number, got \"4\"\n"
       "  num_layers: \"4\"\n"
       "              ^~~\n"
       "  hint: leave out the quotes\n"},
      {"num_layers: [4]",
       "m.yaml:2:13: error: 'num_layers' must be a whole number, got a list\n"
       "  num_layers: [4]\n"
       "              ^\n"},
      {"num_layers: {a: 4}",
       "m.yaml:2:13: error: 'num_layers' must be a whole number, got a map\n"
       "  num_layers: {a: 4}\n"
       "              ^\n"},
      {"num_layers: true",
       "m.yaml:2:13: error: 'num_layers' must be a whole number, got \"true\"\n"
       "  num_layers: true\n"
       "              ^~~~\n"},
      {"num_attention_heads: 5",
       "m.yaml:4:22: error: 'num_attention_heads' must divide 'hidden_size' 64, got 5\n"
       "  num_attention_heads: 5\n"
       "                       ^\n"
       "  hint: or state 'head_dim'\n"},
      {"num_query_groups: 3",
       "m.yaml:8:19: error: 'num_query_groups' must divide the 4 attention heads, got 3\n"
       "  num_query_groups: 3\n"
       "                    ^\n"},
      {"dropout: nan",
       "m.yaml:8:10: error: 'dropout' must be a number, got \"nan\"\n"
       "  dropout: nan\n"
       "           ^~~\n"},
      {"dropout: .inf",
       "m.yaml:8:10: error: 'dropout' must be a number, got \".inf\"\n"
       "  dropout: .inf\n"
       "           ^~~~\n"},
      {"dropout: 1e999",
       "m.yaml:8:10: error: 'dropout' must be a number, got \"1e999\"\n"
       "  dropout: 1e999\n"
       "           ^~~~~\n"},
      {"dropout: -0.1",
       "m.yaml:8:10: error: 'dropout' must be from 0 to 0.99, got -0.1\n"
       "  dropout: -0.1\n"
       "           ^~~~\n"},
      {"gated_mlp: yes",
       "m.yaml:8:12: error: 'gated_mlp' must be true or false, got \"yes\"\n"
       "  gated_mlp: yes\n"
       "             ^~~\n"},
      {"norm: rms_norm",
       "m.yaml:8:7: error: 'norm' must be one of layernorm, rmsnorm, got \"rms_norm\"\n"
       "  norm: rms_norm\n"
       "        ^~~~~~~~\n"
       "  hint: did you mean 'rmsnorm'?\n"},
      {"activation: [gelu]",
       "m.yaml:8:13: error: 'activation' must be one of gelu, silu, relu, relu2, got a list\n"
       "  activation: [gelu]\n"
       "              ^\n"},
      {"name: [tiny]",
       "m.yaml:1:7: error: 'name' must be text, got a list\n"
       "  name: [tiny]\n"
       "        ^\n"},
      {"name: \"\"",
       "m.yaml:1:7: error: 'name' is empty\n"
       "  name: \"\"\n"
       "        ^~\n"},
      {"num_layer: 4",
       "m.yaml:8:1: error: unknown key 'num_layer'\n"
       "  num_layer: 4\n"
       "  ^~~~~~~~~\n"
       "  hint: did you mean 'num_layers'?\n"},
      {"moe: 8",
       "m.yaml:8:6: error: 'moe' must be a map of keys and values, got \"8\"\n"
       "  moe: 8\n"
       "       ^\n"},
      {"attention: {kind: mla, kv_lora_rank: 8}",
       "m.yaml:8:12: error: 'attention.qk_nope_head_dim' is missing\n"
       "  attention: {kind: mla, kv_lora_rank: 8}\n"
       "             ^\n"
       "m.yaml:8:12: error: 'attention.qk_rope_head_dim' is missing\n"
       "  attention: {kind: mla, kv_lora_rank: 8}\n"
       "             ^\n"
       "m.yaml:8:12: error: 'attention.v_head_dim' is missing\n"
       "  attention: {kind: mla, kv_lora_rank: 8}\n"
       "             ^\n"},
      {"moe: {num_experts: 4, top_k: 9, expert_ffn_hidden_size: 8, layers: {evry: 2}}",
       "m.yaml:8:69: error: unknown key 'moe.layers.evry'\n"
       "  moe: {num_experts: 4, top_k: 9, expert_ffn_hidden_size: 8, layers: {evry: 2}}\n"
       "                                                                      ^~~~\n"
       "  hint: did you mean 'every'?\n"
       "m.yaml:8:30: error: 'moe.top_k' is more than the 4 experts, got 9\n"
       "  moe: {num_experts: 4, top_k: 9, expert_ffn_hidden_size: 8, layers: {evry: 2}}\n"
       "                               ^\n"},
      {"vocab_size:",
       "m.yaml:6:1: error: 'vocab_size' has no value\n"
       "  vocab_size:\n"
       "  ^~~~~~~~~~\n"},
  }));
  // Order of the text.
  std::string want = row.want;
  const std::size_t later = want.find("m.yaml:8:30");
  if (later != std::string::npos) want = want.substr(later) + want.substr(0, later);
  CHECK(errors_of(model_with(row.line)) == want);
}

TEST_CASE("Text that is no YAML map is refused as a whole") {
  struct Text {
    std::string text;
    std::string want;
  };
  const auto row = GENERATE(values<Text>({
      {"", "m.yaml: error: is empty\n"},
      {"# only a comment\n\n", "m.yaml: error: is empty\n"},
      {"---\n", "m.yaml: error: is empty\n"},
      {"- a\n- b\n",
       "m.yaml:1:1: error: the file must be a map of keys and values, got a list\n  - a\n  ^\n"},
      {"llama",
       "m.yaml:1:1: error: the file must be a map of keys and values, got \"llama\"\n  llama\n"
       "  ^~~~~\n"},
      {"a: 1\na: 2\n",
       "m.yaml:2:1: error: key 'a' appears twice\n  a: 2\n  ^\n"
       "  hint: the first one is on line 1\n"},
      {"a: &x [1]\nb: *x\n",
       "m.yaml:1:4: error: anchors (&) and aliases (*) are not accepted\n  a: &x [1]\n     ^\n"
       "  hint: write the value out, or put the text in quotes\n"},
      {"a: !!int 4\n",
       "m.yaml:1:4: error: tags (!) are not accepted\n  a: !!int 4\n     ^\n"
       "  hint: leave the tag out, or put the text in quotes\n"},
      {"? [a, b]\n: c\n", "m.yaml:1:3: error: a key must be a word\n  ? [a, b]\n    ^\n"},
      {"a: 1\n---\nb: 2\n",
       "m.yaml: error: holds more than one document\n"
       "  hint: remove what follows the second ---\n"},
      {"a: b: c\n", "m.yaml:1:5: error: not valid YAML: illegal map value\n  a: b: c\n      ^\n"},
      {"a:\n\tb: 1\n",
       "m.yaml:2:3: error: not valid YAML: illegal map value\n   b: 1\n    ^\n"
       "  hint: indent with spaces, not tabs\n"},
      {"a: \"x\n", "m.yaml:1:4: error: this quote is not closed\n  a: \"x\n     ^\n"},
      {"a: 'it''s\n", "m.yaml:1:4: error: this quote is not closed\n  a: 'it''s\n     ^\n"},
      {"a: [1, 2\n", "m.yaml:2:1: error: not valid YAML: end of sequence flow not found\n"},
      {std::string("a: 1\nb: \0\n", 10),
       "m.yaml:2:4: error: a NUL byte: not a text file\n  b:  \n     ^\n"},
      {"a: \x04\n", "m.yaml:1:4: error: a control character\n  a:  \n     ^\n"},
      {"a: caf\xe9\n", "m.yaml:1:7: error: not UTF-8 text\n  a: caf?\n        ^\n"},
      {"\xff\xfe"
       "a\n",
       "m.yaml:1:1: error: not UTF-8 text\n  ??"
       "a\n  ^\n"},
  }));
  CHECK(errors_of(row.text) == row.want);
}

TEST_CASE("Nesting beyond the limit is refused before it can exhaust the stack") {
  const std::string deep_flow(1 << 20, '[');
  std::string deep_block, deep_list;
  for (std::size_t i = 0; i < 3000; ++i) deep_block += std::string(i, ' ') + "a:\n";
  for (std::size_t i = 0; i < 100'000; ++i) deep_list += "- ";
  for (const std::string& text : {deep_flow, deep_block, deep_list, "a: " + deep_flow}) {
    const auto read = parse_yaml(text, "deep");
    REQUIRE_FALSE(read.ok());
    CHECK(read.errors().front().message == "nested deeper than 64 levels");
  }
}

TEST_CASE("Nesting up to the limit reads") {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + "1" + std::string(depth, ']');
  };
  CHECK(parse_yaml(nested(kMaxDepth), "f").ok());
  CHECK_FALSE(parse_yaml(nested(kMaxDepth + 1), "f").ok());
}

TEST_CASE("Brackets and quotes inside of text are no nesting") {
  const std::string many(200, '[');
  CHECK(parse_yaml("a: \"" + many + "\"\n", "f").ok());
  CHECK(parse_yaml("a: '" + many + "'\n", "f").ok());
  CHECK(parse_yaml("# " + many + "\na: 1\n", "f").ok());
  CHECK(parse_yaml("a: x" + many + "\n", "f").ok());
  CHECK(parse_yaml("a: it's\nb: don't\n", "f").ok());
}

TEST_CASE("An alias bomb costs nothing: the first anchor ends it") {
  std::string bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n";
  for (char c = 'b'; c < 'z'; ++c) {
    bomb += std::string(1, c) + ": &" + c + " [";
    for (int i = 0; i < 9; ++i)
      bomb += std::string(i > 0 ? "," : "") + "*" + static_cast<char>(c - 1);
    bomb += "]\n";
  }
  const auto read = parse_yaml(bomb, "bomb");
  REQUIRE_FALSE(read.ok());
  CHECK(read.errors().front().where.line == 1);
}

TEST_CASE("A text beyond the size limit is refused") {
  const auto read = parse_yaml(std::string(kMaxFileBytes + 1, ' '), "big");
  REQUIRE_FALSE(read.ok());
  CHECK(read.errors().front().message == "larger than 16 MiB");
}

TEST_CASE("All problems of a file are reported at once, in the order of the text") {
  CHECK(errors_of("num_layer: 4\n"
                  "hidden_size: wide\n"
                  "num_attention_heads: 4\n"
                  "vocab_size: 0\n"
                  "max_seq_length: 128\n"
                  "moe: {num_experts: 4}\n"
                  "norm: rms\n") ==
        "m.yaml:1:1: error: 'name' is missing\n"
        "  num_layer: 4\n"
        "  ^\n"
        "m.yaml:1:1: error: 'num_layers' is missing\n"
        "  num_layer: 4\n"
        "  ^\n"
        "m.yaml:1:1: error: unknown key 'num_layer'\n"
        "  num_layer: 4\n"
        "  ^~~~~~~~~\n"
        "  hint: did you mean 'num_layers'?\n"
        "m.yaml:2:14: error: 'hidden_size' must be a whole number, got \"wide\"\n"
        "  hidden_size: wide\n"
        "               ^~~~\n"
        "m.yaml:4:13: error: 'vocab_size' must be from 1 to 67,108,864, got 0\n"
        "  vocab_size: 0\n"
        "              ^\n"
        "m.yaml:6:6: error: 'moe.top_k' is missing\n"
        "  moe: {num_experts: 4}\n"
        "       ^\n"
        "m.yaml:6:6: error: 'moe.expert_ffn_hidden_size' is missing\n"
        "  moe: {num_experts: 4}\n"
        "       ^\n"
        "m.yaml:7:7: error: 'norm' must be one of layernorm, rmsnorm, got \"rms\"\n"
        "  norm: rms\n"
        "        ^~~\n");
}

TEST_CASE("A file with nothing but mistakes is not listed to the end") {
  std::string text = model_with("num_layers: 4");
  for (int i = 0; i < 5000; ++i) text += "wrong_" + std::to_string(i) + ": 1\n";
  const auto read = parse_model(text, "m.yaml");
  REQUIRE_FALSE(read.ok());
  CHECK(read.errors().size() == 101);
  CHECK(read.errors().back().message == "more problems follow that are not shown");
}

}  // namespace meshplan
