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

TEST_CASE("TOML: an empty text is an empty table") {
  CHECK(parsed("").entries.empty());
  CHECK(parsed("# nothing").entries.empty());
}

TEST_CASE("TOML: what is wrong is said with its place") {
  struct Row {
    const char* text;
    const char* message;
  };
  const auto row = GENERATE(values<Row>({
      {"a = 1\na = 2\n", "a.toml:2:1: error: 'a' has a value already"},
      {"a = 1\na.b = 2\n", "a.toml:2:1: error: 'a' has a value already"},
      {"[t]\n[t]\n", "a.toml:2:1: error: table 't' stands twice"},
      {"[[t]]\n", "arrays of tables are not read"},
      {"a = \n", "a.toml:1:5: error: a value should stand here"},
      {"a = word\n", "a value should stand here"},
      {"a 1\n", "'=' should stand here"},
      {"a = 1 2\n", "a.toml:1:7: error: the line should end here"},
      {"a = \"x\n", "this text does not end"},
      {"a = '''x\n", "this text does not end"},
      {"a = [1, 2\n", "this list does not end"},
      {"a = [1 2]\n", "',' or ']' should stand here"},
      {"a = {b = 1 c = 2}\n", "',' or '}' should stand here"},
      {"a = {b = 1\n", "',' or '}' should stand here"},
      {"a = \"\\q\"\n", "there is no escape '\\q'"},
      {"a = \"\\ud800\"\n", "this is no character"},
      {"= 1\n", "a key should stand here"},
      {"[a\n", "the name of the table should end with ']'"},
      {"a = \xff\n", "the text is not UTF-8"},
  }));
  INFO(row.text);
  CHECK(problem(row.text).find(row.message) != std::string::npos);
}

TEST_CASE("TOML: nesting and the number of keys are bounded") {
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

}  // namespace meshplan
