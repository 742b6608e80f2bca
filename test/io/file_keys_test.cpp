#include "io/file_keys.hpp"

#include <set>
#include <string>
#include <vector>

#include "io/load.hpp"
#include "io/yaml_tree.hpp"
#include "support/catch.hpp"

using namespace meshplan;

namespace {

// "levels[].span" -> "levels: [{span: ~}]"; mla, whose keys other kinds of attention lack.
std::string document_with(std::string_view key, bool latent) {
  std::string text, closing;
  std::string_view rest = key;
  while (!rest.empty()) {
    const std::size_t dot = rest.find('.');
    std::string_view name = rest.substr(0, dot);
    rest = dot == std::string_view::npos ? std::string_view() : rest.substr(dot + 1);
    const bool list = name.ends_with("[]");
    if (list) name.remove_suffix(2);
    text += "{";
    if (latent && text.ends_with("attention: {") && rest.empty() && name != "kind")
      text += "kind: mla, ";
    text += std::string(name) + ": " + (list ? "[" : "");
    closing = std::string(list ? "]" : "") + "}" + closing;
  }
  return text + "~" + closing;
}

template <class Parse>
void check_known(std::span<const KeyMeaning> keys, bool latent, const Parse& parse) {
  for (const KeyMeaning& row : keys) {
    CAPTURE(row.key, document_with(row.key, latent));
    CHECK_FALSE(row.meaning.empty());
    CHECK(row.meaning.size() <= 100);
    const std::string problems = parse(document_with(row.key, latent));
    CHECK(problems.find("unknown key") == std::string::npos);
  }
}

void add_paths(const YamlNode& node, const std::string& path, std::set<std::string>& all) {
  if (node.kind == YamlNode::Kind::kSequence) {
    for (const YamlNode& item : node.items) add_paths(item, path + "[]", all);
    return;
  }
  if (node.kind != YamlNode::Kind::kMap) {
    all.insert(path);
    return;
  }
  for (const auto& [name, value] : node.entries) {
    add_paths(value, path.empty() ? name.text : path + "." + name.text, all);
  }
}

// What the files say is described: the key itself, or one that it is below.
void check_described(std::string_view folder, std::span<const KeyMeaning> keys) {
  const DataFolders data({MESHPLAN_SOURCE_DIR});
  const std::vector<std::string> names = data.names(folder);
  REQUIRE_FALSE(names.empty());
  for (const std::string& name : names) {
    const Result<std::string> text = read_text_file(data.find(folder, name));
    REQUIRE(text.ok());
    const Result<YamlNode> root = parse_yaml(*text, name);
    REQUIRE(root.ok());
    std::set<std::string> paths;
    add_paths(*root, "", paths);
    for (const std::string& path : paths) {
      CAPTURE(name, path);
      CHECK(std::any_of(keys.begin(), keys.end(), [&](const KeyMeaning& row) {
        if (!path.starts_with(row.key)) return false;
        const std::string_view below = std::string_view(path).substr(row.key.size());
        return below.empty() || below.front() == '.' || below.front() == '[';
      }));
    }
  }
}

}  // namespace

TEST_CASE("every key that is described is one that the files may have") {
  const DataFolders data({MESHPLAN_SOURCE_DIR});
  const auto problems = [](const auto& result) {
    return result ? std::string() : to_text(result.errors());
  };
  check_known(model_key_meanings(), true,
              [&](const std::string& text) { return problems(parse_model(text, "m.yaml")); });
  check_known(cluster_key_meanings(), false, [&](const std::string& text) {
    return problems(parse_cluster(text, "c.yaml", data));
  });
  check_known(device_key_meanings(), false,
              [&](const std::string& text) { return problems(parse_device(text, "d.yaml")); });
}

TEST_CASE("every key of the shipped files is described") {
  check_described(kModelFolder, model_key_meanings());
  check_described(kClusterFolder, cluster_key_meanings());
  check_described(kDeviceFolder, device_key_meanings());
}
