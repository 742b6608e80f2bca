#include "io/load.hpp"

#include <cstdlib>
#include <set>

#include "base/program_path.hpp"
#include "base/text.hpp"
#include "io/shipped_names.hpp"
#include "io/yaml_tree.hpp"

namespace meshplan {
namespace {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
  std::error_code failure;
  return fs::is_regular_file(path, failure);
}

bool is_folder(const fs::path& path) {
  std::error_code failure;
  return fs::is_directory(path, failure);
}

bool looks_like_path(std::string_view text) {
  return text.find('/') != std::string_view::npos || text.ends_with(".yaml") ||
         text.ends_with(".yml") || text.ends_with(".json");
}

struct Named {
  std::string text;
  std::string file;
};

// The text behind a shipped name or a path. A folder stands for the `inside` it holds.
Result<Named> read_named(const std::string& name_or_path, std::string_view what,
                         std::string_view folder, const DataFolders& data,
                         std::string_view inside = {}) {
  fs::path path = name_or_path;
  if (!looks_like_path(name_or_path) && name_or_path != "-") {
    path = data.find(folder, name_or_path);
    if (path.empty() && !name_or_path.empty() && is_file(name_or_path)) path = name_or_path;
  }
  if (path.empty() || (looks_like_path(name_or_path) && !is_file(path) && !is_folder(path))) {
    fs::path alike = find_shipped(folder, name_or_path, data);
    if (!alike.empty()) path = std::move(alike);
  }
  if (path.empty()) {
    const std::vector<std::string> names = data.names(folder);
    const std::vector<std::string_view> known(names.begin(), names.end());
    const std::optional<std::string> near = nearest(name_or_path, known);
    std::string hint =
        near ? "did you mean '" + *near + "'?" : "give a shipped name or the path of a file";
    return error("no " + std::string(what) + " is called '" + name_or_path + "'", std::move(hint));
  }
  if (!inside.empty() && is_folder(path) && is_file(path / inside)) path /= inside;
  Result<std::string> text = read_text_file(path);
  if (!text) return text.errors();
  return Named{std::move(text).value(), path.string()};
}

// Hugging Face configurations are JSON objects that name their kind of model.
bool is_hf_config(const std::string& text, const std::string& file) {
  const std::size_t start = text.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (start == std::string::npos || text[start] != '{') return false;
  const Result<YamlNode> root = parse_yaml(text, file);
  return root && (root->find("model_type") != nullptr || root->find("architectures") != nullptr);
}

// The nearest folder at or above `start` that holds the data: the source tree around a build, or
// the share folder of an installation.
fs::path data_near(fs::path start) {
  constexpr int kMostParents = 8;
  for (int i = 0; i < kMostParents && !start.empty(); ++i) {
    for (const fs::path& root : {start / "share" / "meshplan", start}) {
      if (is_folder(root / kModelFolder) && is_folder(root / kClusterFolder)) return root;
    }
    if (start == start.parent_path()) break;
    start = start.parent_path();
  }
  return {};
}

}  // namespace

DataFolders DataFolders::standard() {
  std::vector<fs::path> roots;
  if (const char* set = std::getenv("MESHPLAN_DATA"); set != nullptr && *set != '\0') {
    roots.emplace_back(set);
  }
  if (const fs::path program = program_path(); !program.empty()) {
    fs::path near = data_near(program.parent_path());
    if (!near.empty()) roots.push_back(std::move(near));
  }
  return DataFolders(std::move(roots));
}

fs::path DataFolders::find(std::string_view kind, std::string_view name) const {
  if (name.empty() || name.front() == '.' || name.find('/') != std::string_view::npos) return {};
  for (const fs::path& root : roots_) {
    fs::path path = root / kind / (std::string(name) + ".yaml");
    if (is_file(path)) return path;
  }
  return {};
}

std::vector<std::string> DataFolders::names(std::string_view kind) const {
  std::set<std::string> names;
  for (const fs::path& root : roots_) {
    std::error_code failure;
    for (fs::directory_iterator it(root / kind, failure), end; !failure && it != end;
         it.increment(failure)) {
      if (it->path().extension() == ".yaml") names.insert(it->path().stem().string());
    }
  }
  return {names.begin(), names.end()};
}

Result<ModelSpec> load_model(const std::string& name_or_path, const DataFolders& data) {
  const Result<Named> named = read_named(name_or_path, "model", kModelFolder, data, "config.json");
  if (!named) return named.errors();
  if (is_hf_config(named->text, named->file)) return parse_hf_config(named->text, named->file);
  return parse_model(named->text, named->file);
}

Result<DeviceSpec> load_device(const std::string& name_or_path, const DataFolders& data) {
  const Result<Named> named = read_named(name_or_path, "device", kDeviceFolder, data);
  if (!named) return named.errors();
  return parse_device(named->text, named->file);
}

Result<ClusterSpec> load_cluster(const std::string& name_or_path, const DataFolders& data) {
  const Result<Named> named = read_named(name_or_path, "cluster", kClusterFolder, data);
  if (!named) return named.errors();
  return parse_cluster(named->text, named->file, data);
}

}  // namespace meshplan
