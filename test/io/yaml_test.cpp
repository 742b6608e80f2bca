// The tree, its positions, and JSON.
#include "io/yaml_reader.hpp"
#include "io/yaml_tree.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

std::string place(const YamlNode& node) {
  return std::to_string(node.line) + ":" + std::to_string(node.column) + "+" +
         std::to_string(node.length);
}

}  // namespace

TEST_CASE("Nodes know line, column and length, whatever ends the lines") {
  const std::string unix_text = "a: 12\nbb:\n  - \"x y\"\n  - z\n";
  std::string dos_text = "\xEF\xBB\xBF";
  std::string mac_text;
  for (const char c : unix_text) {
    dos_text += c == '\n' ? "\r\n" : std::string(1, c);
    mac_text += c == '\n' ? '\r' : c;
  }
  for (const std::string& text : {unix_text, dos_text, mac_text}) {
    const auto root = parse_yaml(text, "f");
    REQUIRE(root.ok());
    CHECK(place(*root->find("a")) == "1:4+2");
    const YamlNode& list = *root->find("bb");
    REQUIRE(list.items.size() == 2);
    CHECK(place(list.items[0]) == "3:5+5");
    CHECK(list.items[0].quoted);
    CHECK(list.items[0].text == "x y");
    CHECK(place(list.items[1]) == "4:5+1");
  }
}

TEST_CASE("Columns count characters, not bytes") {
  const auto root = parse_yaml("{\"n\xC3\xA4me\": \"\xE6\xA8\xA1\xE5\x9E\x8B\", b: 3}", "f");
  REQUIRE(root.ok());
  CHECK(place(root->entries[0].second) == "1:10+4");
  CHECK(place(*root->find("b")) == "1:19+1");
}

TEST_CASE("JSON reads like YAML, with tabs and on one line") {
  const std::string json =
      "{\n\t\"num_layers\": 4,\n\t\"nested\": {\n\t\t\"list\": [1, 2],\n\t\t\"none\": "
      "null\n\t}\n}\n";
  const auto root = parse_yaml(json, "c.json");
  REQUIRE(root.ok());
  CHECK(root->find("num_layers")->text == "4");
  CHECK(place(*root->find("num_layers")) == "2:16+1");
  CHECK(root->find("nested")->find("list")->items.size() == 2);
  CHECK(root->find("nested")->find("none")->kind == YamlNode::Kind::kNull);
  const auto line = parse_yaml("{\"a\":1,\"b\":[true,\"x\\\"y\"]}", "c.json");
  REQUIRE(line.ok());
  CHECK(line->find("b")->items[1].text == "x\"y");
  CHECK(line->find("b")->items[1].length == 6);
}

TEST_CASE("Blocks of text read as text") {
  const auto root = parse_yaml("a: >-\n  one \"two\n  three\nb: |\n  x [\n  y\nc: 3\n", "f");
  REQUIRE(root.ok());
  CHECK(root->find("a")->text == "one \"two three");
  CHECK(root->find("a")->quoted);
  CHECK(root->find("b")->text == "x [\ny\n");
  CHECK(place(*root->find("c")) == "7:4+1");
}

TEST_CASE("UTF-8 is checked to the letter") {
  CHECK_FALSE(first_invalid_utf8("plain, \xC3\xA4, \xE2\x82\xAC, \xF0\x9F\x98\x80").has_value());
  struct Row {
    const char* why;
    std::string text;
    std::size_t at;
  };
  const auto row = GENERATE(values<Row>({
      {"lone continuation", "a\x80", 1},
      {"cut short", "ab\xC3", 2},
      {"overlong slash", "\xC0\xAF", 0},
      {"overlong in three bytes", "\xE0\x80\xAF", 0},
      {"surrogate", "\xED\xA0\x80", 0},
      {"beyond the last code point", "\xF4\x90\x80\x80", 0},
      {"no first byte", "abc\xFF", 3},
  }));
  INFO(row.why);
  CHECK(first_invalid_utf8(row.text) == row.at);
}

TEST_CASE("A dotted key names the nearest thing that is there") {
  const Document d("a: {b: [1, {c: 7}]}\nx: 1\n", "f");
  CHECK(d.node_of("a.b[1].c").text == "7");
  CHECK(d.node_of("a.b[0]").text == "1");
  CHECK(&d.node_of("a.b[9]") == d.root().find("a")->find("b"));
  CHECK(&d.node_of("a.zzz") == d.root().find("a"));
  CHECK(&d.node_of("nothing") == &d.root());
  CHECK(&d.node_of("a.b[") == d.root().find("a")->find("b"));
}

TEST_CASE("Quantities name the key, the text and the units that fit") {
  Document d("memory: 80\nlink: 5 us\ntime: 3 us\nrate: -1 GB/s\n", "f");
  MapReader r(d, d.root());
  Bytes memory;
  BytesPerSecond link, rate;
  Seconds time;
  CHECK_FALSE(r.read("memory", memory));
  CHECK_FALSE(r.read("link", link));
  CHECK(r.read("time", time));
  CHECK(time.si() == Approx(3e-6));
  CHECK_FALSE(r.read("rate", rate));
  r.refuse_unknown();
  const std::string text = to_text(d.diagnostics());
  CHECK(text.find("f:1:9: error: 'memory': \"80\" has no unit\n"
                  "  memory: 80\n"
                  "          ^~\n"
                  "  hint: write a number and its unit, for example \"80 GiB\"\n") == 0);
  CHECK(text.find("f:2:7: error: 'link': unknown unit \"us\" in \"5 us\"\n") != std::string::npos);
  CHECK(text.find("f:4:7: error: 'rate': \"-1 GB/s\" is negative\n") != std::string::npos);
}

TEST_CASE("A null is no value in our files and no key in others'") {
  Document ours("a: null\n", "f");
  MapReader strict(ours, ours.root());
  std::int64_t a = 5;
  CHECK_FALSE(strict.read("a", a));
  CHECK_FALSE(ours.ok());
  Document theirs("{\"a\": null}", "f");
  MapReader lenient(theirs, theirs.root(), "", MapReader::Nulls::kAbsent);
  CHECK_FALSE(lenient.read("a", a));
  CHECK_FALSE(lenient.has("a"));
  CHECK(theirs.ok());
  CHECK(a == 5);
}

TEST_CASE("No follow-up of a bad value is reported") {
  Document d("a: x\nb: 0\nc: {e: y}\n", "f");
  MapReader r(d, d.root());
  std::int64_t value = 0;
  r.read("a", value);
  Findings f;
  f.error({"b", "a"}, "a and b do not fit");
  f.error({"c.e.f"}, "below");
  f.error({"b"}, "b is zero");
  d.add(f);
  CHECK(d.diagnostics().size() == 3);
  CHECK(d.diagnostics()[1].message == "b is zero");
  CHECK(d.diagnostics()[1].where.line == 2);
  CHECK(d.diagnostics()[2].where == SourcePosition{"f", 3, 8, 1});
}

}  // namespace meshplan
