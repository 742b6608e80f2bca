#include "io/toml_tree.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

YamlNode parsed(std::string_view text) {
  const Result<YamlNode> tree = parse_toml(text, "a.toml");
  INFO((tree.ok() ? std::string() : to_text(tree.errors())));
  REQUIRE(tree.ok());
  return *tree;
}

std::string problem(std::string_view text) {
  const Result<YamlNode> tree = parse_toml(text, "a.toml");
  REQUIRE(!tree.ok());
  return to_text(tree.errors());
}

const YamlNode& at(const YamlNode& tree, std::initializer_list<std::string_view> keys) {
  const YamlNode* node = &tree;
  for (const std::string_view key : keys) {
    node = node->find(key);
    REQUIRE(node != nullptr);
  }
  return *node;
}

}  // namespace

TEST_CASE("TOML: tables, dotted keys, values of every kind, with their places") {
  if (!reads_toml()) return;
  const YamlNode t = parsed(
      "# a comment\r\n"
      "top = 1_000\n"
      "[a.b]  # another\n"
      "text = \"x \\\"y\\\" \\u00e9\\n\"\n"
      "plain = 'C:\\dir'\n"
      "on = true\n"
      "f = -1.5e3\n"
      "c.d = +7\n"
      "\"quoted key\" = 2024-01-31T10:00:00\n"
      "list = [ 1, # one\n  [\"p\", \"q\"],\n]\n"
      "in = {x = 1, y = {z = 'deep'}}\n"
      "[a]\n"
      "several = \"\"\"\n"
      "one\n"
      "two\"\"\"\n");
  CHECK(at(t, {"top"}).text == "1000");
  CHECK(at(t, {"a", "b", "text"}).text == "x \"y\" \xC3\xA9\n");
  CHECK(at(t, {"a", "b", "text"}).quoted);
  CHECK(at(t, {"a", "b", "plain"}).text == "C:\\dir");
  CHECK(at(t, {"a", "b", "on"}).text == "true");
  CHECK(!at(t, {"a", "b", "on"}).quoted);
  CHECK(at(t, {"a", "b", "f"}).text == "-1.5e3");
  CHECK(at(t, {"a", "b", "c", "d"}).text == "7");
  CHECK(at(t, {"a", "b", "quoted key"}).text == "2024-01-31T10:00:00");
  CHECK(at(t, {"a", "b", "list"}).items.at(1).items.at(1).text == "q");
  CHECK(at(t, {"a", "b", "in", "y", "z"}).text == "deep");
  CHECK(at(t, {"a", "several"}).text == "one\ntwo");
  CHECK(at(t, {"a", "b", "f"}).line == 7);
  CHECK(at(t, {"a", "b", "f"}).column == 5);
  CHECK(at(t, {"a", "b", "f"}).length == 6);
}

TEST_CASE("TOML: arrays of tables are sequences of maps, each with its place") {
  if (!reads_toml()) return;
  const YamlNode t = parsed(
      "[[run]]\n"
      "name = 'a'\n"
      "[run.of]\n"
      "x = 0x1F\n"
      "[[run]]\n"
      "name = 'b'\n"
      "[[run.step]]\n"
      "[[run.step]]\n");
  const YamlNode& run = at(t, {"run"});
  REQUIRE(run.kind == YamlNode::Kind::kSequence);
  REQUIRE(run.items.size() == 2);
  CHECK(at(run.items[0], {"of", "x"}).text == "31");
  CHECK(at(run.items[1], {"name"}).text == "b");
  CHECK(at(run.items[1], {"name"}).line == 6);
  CHECK(run.items[1].line == 5);
  CHECK(at(run.items[1], {"step"}).items.size() == 2);
}

TEST_CASE("TOML: keys stand in the order of the text, with their places") {
  if (!reads_toml()) return;
  const YamlNode t = parsed("[z]\nb = 1\n'\xC3\xA9 \xC3\xA9' = 2_0.5\na.c = 3\n[a]\n");
  REQUIRE(t.entries.size() == 2);
  CHECK(t.entries[0].first.text == "z");
  CHECK(t.entries[0].second.line == 1);
  CHECK(t.entries[0].second.column == 2);
  const YamlNode& z = t.entries[0].second;
  REQUIRE(z.entries.size() == 3);
  CHECK(z.entries[1].first.text == "\xC3\xA9 \xC3\xA9");
  CHECK(z.entries[1].first.length == 5);
  CHECK(z.entries[1].second.text == "20.5");
  CHECK(z.entries[1].second.column == 9);
  CHECK(z.entries[2].first.text == "a");
  CHECK(at(z, {"a", "c"}).column == 7);
}

TEST_CASE("TOML: an empty text is an empty table") {
  if (!reads_toml()) return;
  CHECK(parsed("").entries.empty());
  CHECK(parsed("# nothing").entries.empty());
}

TEST_CASE("TOML: what is wrong is said with its place") {
  if (!reads_toml()) return;
  struct Row {
    const char* text;
    const char* message;
  };
  const auto row = GENERATE(values<Row>({
      {"a = 1\na = 2\n", "a.toml:2:1: error: key-value pair: cannot redefine existing integer 'a'"},
      {"a = 1\n\"a\" = 2\n", "a.toml:2:1: error: key-value pair: cannot redefine"},
      {"a = {b = 1, b = 2}\n", "a.toml:1:13: error: key-value pair: cannot redefine"},
      {"a = 1\na.b = 2\n", "a.toml:2:1: error: key-value pair: cannot redefine existing integer"},
      {"[t]\n[t]\n", "a.toml:2:1: error: table header: cannot redefine existing table 't'"},
      {"t = [1]\n[[t]]\n", "a.toml:2:1: error: table header: cannot redefine existing array 't'"},
      {"a = \n", "a.toml:1:5: error: key-value pair: expected value, saw the end of the line"},
      {"a = word\n",
       "a.toml:1:5: error: value: could not determine value type\n  a = word\n      ^\n"
       "  hint: text stands in quotes"},
      {"a = table\n", "hint: text stands in quotes"},
      {"a 1\n", "a.toml:1:3: error: key-value pair: expected '=', saw '1'"},
      {"a = 1 2\n", "a.toml:1:7: error: key-value pair: expected a comment or whitespace, saw '2'"},
      {"a = \"x\n", "a.toml:1:7: error: string: the line ends before its closing quote"},
      {"a = 'x\n", "the line ends before its closing quote"},
      {"a = '''x\n", "literal string: encountered end-of-file"},
      {"a = [1, 2\n", "array: encountered end-of-file"},
      {"a = [1 2]\n", "a.toml:1:8: error: array: expected comma or closing ']', saw '2'"},
      {"a = {b = 1 c = 2}\n", "inline table: expected comma or closing '}', saw 'c'"},
      {"a = {b = 1\n", "inline table: expected key or closing '}', saw the end of the line"},
      {"a = \"\\q\"\n", "a.toml:1:7: error: string: unknown escape sequence '\\q'"},
      {"a = \"\\ud800\"\n", "unicode surrogates (U+D800 - U+DFFF) are explicitly prohibited"},
      {"a = 99999999999999999999\n", "not representable in 64 bits"},
      {"= 1\n", "a.toml:1:1: error: root table: expected keys"},
      {"[a\n", "a.toml:1:3: error: table header: expected ']', saw the end of the line"},
      {"a = \xff\n", "a.toml:1:5: error: the text is not UTF-8"},
      {"a = '\xC3\xA9' 2\n", "a.toml:1:9: error: key-value pair: expected a comment"},
  }));
  INFO(row.text);
  CHECK(problem(row.text).find(row.message) != std::string::npos);
}

TEST_CASE("TOML: nesting and the number of keys are bounded") {
  if (!reads_toml()) return;
  CHECK(problem("a = " + std::string(100'000, '[')).find("too deep") != std::string::npos);
  std::string tables = "a = ";
  for (int i = 0; i < 1000; ++i) tables += "{a = ";
  CHECK(problem(tables).find("too deep") != std::string::npos);
  std::string keys;
  for (int i = 0; i < 5000; ++i) keys += "k" + std::to_string(i) + " = 1\n";
  CHECK(problem(keys).find("too many keys") != std::string::npos);
  std::string dots = "a";
  for (int i = 0; i < 100'000; ++i) dots += ".a";
  CHECK(problem(dots + " = 1").find("too deep") != std::string::npos);
  CHECK(problem("[" + dots + "]").find("too deep") != std::string::npos);
  // Quotes before those that close a text hide nothing that follows.
  CHECK(problem("t = \"\"\"x\"\"\"\"\"\n" + dots + " = 1").find("a.toml:2:") != std::string::npos);
  CHECK(problem("t = ''''x''''\n" + dots + " = 1").find("too deep") != std::string::npos);
  CHECK(parsed("t = '''" + dots + "\n[[[\n'''\n# " + dots).entries.size() == 1);
  std::string list = "a = [1";
  for (int i = 0; i < 30'000; ++i) list += ",1";
  CHECK(problem(list + "]").find("more than 20000 tables and values") != std::string::npos);
  std::string tables_and_keys;
  for (int i = 0; i < 150; ++i) {
    tables_and_keys += "[t" + std::to_string(i) + "]\n";
    for (int k = 0; k < 200; ++k) tables_and_keys += "k" + std::to_string(k) + " = 1\n";
  }
  CHECK(problem(tables_and_keys).find("more than 20000 tables and values") != std::string::npos);
}

TEST_CASE("TOML: a program that was built without toml++ says how to get it") {
  if (reads_toml()) return;
  CHECK(problem("").find("libtomlplusplus-dev") != std::string::npos);
}

}  // namespace meshplan
