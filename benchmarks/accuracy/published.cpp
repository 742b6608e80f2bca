#include "published.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "fields.hpp"
#include "io/load.hpp"
#include "yaml_json.hpp"

namespace meshplan::accuracy {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

Result<Source> source_of(const json& file, const std::string& path) {
  if (!file.is_object()) return error_at({path, 0, 0, 1}, "not a file of published runs");
  Source source = head_of(file);
  source.name = fs::path(path).stem().string();
  const auto runs = file.find("runs");
  if (runs == file.end() || runs->is_null()) return source;
  if (!runs->is_array()) return error_at({path, 0, 0, 1}, "'runs' must be a list");
  source.runs.reserve(runs->size());
  for (const json& row : *runs) {
    if (!row.is_object()) return error_at({path, 0, 0, 1}, "every run must be a map of keys");
    source.runs.push_back(run_of(row));
  }
  return source;
}

// A compact row with its model section and the defaults filled in.
Result<json> expanded(json row, const json& head, const SourcePosition& where) {
  if (!row.is_object()) return error_at(where, "every line must be a JSON object");
  const auto defaults = head.find("defaults");
  if (defaults != head.end() && defaults->is_object()) {
    for (const auto& [key, value] : defaults->items()) row.emplace(key, value);
  }
  const auto model = row.find("model");
  if (model != row.end() && model->is_string()) {
    const auto models = head.find("models");
    if (models == head.end() || !models->is_object() ||
        !models->contains(model->get<std::string>()))
      return error_at(where, "no model section is called \"" + model->get<std::string>() + "\"");
    *model = models->at(model->get<std::string>());
  }
  return row;
}

bool is_published_file(const fs::path& path) {
  const std::string ending = path.extension().string();
  return ending == ".yaml" || ending == ".yml" || ending == ".jsonl";
}

// The files that the inputs name, sorted inside each folder.
Result<std::vector<fs::path>> files_of(std::span<const fs::path> inputs) {
  std::vector<fs::path> files;
  Diagnostics problems;
  for (const fs::path& input : inputs) {
    std::error_code failure;
    if (!fs::is_directory(input, failure)) {
      files.push_back(input);
      continue;
    }
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(input, failure)) {
      if (is_published_file(entry.path())) found.push_back(entry.path());
    }
    if (found.empty())
      problems.push_back(error_at({input.string(), 0, 0, 1}, "no file of published runs in it",
                                  "files end in .yaml, .yml or .jsonl"));
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  if (!problems.empty()) return problems;
  return files;
}

}  // namespace

Result<Source> parse_published_yaml(const std::string& text, const std::string& file) {
  Result<json> tree = yaml_as_json(text, file);
  if (!tree) return tree.errors();
  return source_of(*tree, file);
}

Result<Source> parse_published_compact(const std::string& text, const std::string& file) {
  json head;
  json runs = json::array();
  int line = 0;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    const std::string_view content(text.data() + start, end - start);
    start = end + 1;
    ++line;
    if (content.empty()) continue;
    const SourcePosition where{file, line, 1, 1};
    json row = json::parse(content, nullptr, false);
    if (row.is_discarded()) return error_at(where, "not valid JSON");
    if (head.is_null()) {
      if (!row.is_object()) return error_at(where, "the first line must be the file's head");
      head = std::move(row);
      continue;
    }
    Result<json> full = expanded(std::move(row), head, where);
    if (!full) return full.errors();
    runs.push_back(std::move(full.value()));
  }
  if (head.is_null()) return error_at({file, 0, 0, 1}, "the file is empty");
  head["runs"] = std::move(runs);
  return source_of(head, file);
}

Result<std::vector<Source>> read_published(std::span<const std::filesystem::path> inputs) {
  Result<std::vector<fs::path>> files = files_of(inputs);
  if (!files) return files.errors();
  std::vector<Source> sources;
  std::set<std::string> names;
  Diagnostics problems;
  for (const fs::path& path : *files) {
    const Result<std::string> text = read_text_file(path);
    if (!text) {
      problems.insert(problems.end(), text.errors().begin(), text.errors().end());
      continue;
    }
    Result<Source> source = path.extension() == ".jsonl"
                                ? parse_published_compact(*text, path.string())
                                : parse_published_yaml(*text, path.string());
    if (!source) {
      problems.insert(problems.end(), source.errors().begin(), source.errors().end());
    } else if (!names.insert(source->name).second) {
      problems.push_back(
          error_at({path.string(), 0, 0, 1}, "source \"" + source->name + "\" is given twice"));
    } else {
      sources.push_back(std::move(source.value()));
    }
  }
  if (!problems.empty()) return problems;
  if (sources.empty()) return error("no published runs were given");
  return sources;
}

}  // namespace meshplan::accuracy
