#include "yaml_json.hpp"

#include <charconv>
#include <cstdint>

#include "io/yaml_tree.hpp"

namespace meshplan::accuracy {
namespace {

using nlohmann::json;

template <class T>
bool whole_number(std::string_view text, T& value) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failure == std::errc{} && end == text.data() + text.size();
}

json plain_scalar(const std::string& text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") return {};
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  std::int64_t integer = 0;
  if (whole_number(text, integer)) return integer;
  // from_chars would also read "inf" and "nan"; YAML writes those with a dot.
  const bool starts_as_number = text.find_first_of("0123456789") <= 2;
  double real = 0;
  if (starts_as_number && whole_number(text, real)) return real;
  return text;
}

json as_json(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return {};
    case YamlNode::Kind::kScalar:
      return node.quoted ? json(node.text) : plain_scalar(node.text);
    case YamlNode::Kind::kSequence: {
      json items = json::array();
      for (const YamlNode& item : node.items) items.push_back(as_json(item));
      return items;
    }
    case YamlNode::Kind::kMap: {
      json entries = json::object();
      for (const auto& [key, value] : node.entries) entries.emplace(key.text, as_json(value));
      return entries;
    }
  }
  return {};
}

}  // namespace

Result<json> yaml_as_json(std::string_view text, const std::string& file) {
  const Result<YamlNode> tree = parse_yaml(text, file);
  if (!tree) return tree.errors();
  return as_json(*tree);
}

}  // namespace meshplan::accuracy
