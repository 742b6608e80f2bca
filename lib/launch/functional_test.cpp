#include "launch/functional_test.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "io/yaml_tree.hpp"
#include "launch/shell.hpp"

namespace meshplan {
namespace {

constexpr std::string_view kSection = "MODEL_ARGS:";

// The words of an option, as the test's shell passes them.
Result<std::string> words_of(const YamlEntry& entry, const std::string& file) {
  const YamlNode& value = entry.second;
  const std::string& name = entry.first.text;
  std::vector<std::string> words{name};
  if (value.kind == YamlNode::Kind::kMap) {
    return error_at({file, entry.first.line, entry.first.column, entry.first.length},
                    "'" + name + "' must have a value, not a section");
  }
  if (value.kind == YamlNode::Kind::kSequence) {
    for (const YamlNode& item : value.items) words.push_back(item.text);
  } else if (value.text.starts_with('[') && value.text.ends_with(']')) {
    std::string_view inner = std::string_view(value.text).substr(1, value.text.size() - 2);
    while (!inner.empty()) {
      const std::size_t end = std::min(inner.find(' '), inner.size());
      if (end > 0) words.emplace_back(inner.substr(0, end));
      inner.remove_prefix(std::min(end + 1, inner.size()));
    }
  } else if (value.kind == YamlNode::Kind::kScalar && value.text != "true") {
    if (value.text == "false") return std::string();
    // What the test's surroundings fill in stays for the shell reader to find.
    if (value.text.find("${") != std::string::npos) return name + " \"" + value.text + "\"";
    words.push_back(value.text);
  }
  return shell_line(words);
}

// Without the lines that say an option again in the same words, as a good many of these files do.
std::string without_repeats(std::string_view text) {
  std::set<std::string, std::less<>> seen;
  std::string kept;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    const std::size_t first = line.find_first_not_of(' ');
    const bool option = first != std::string_view::npos && line.substr(first).starts_with("--");
    if (!option || seen.emplace(line.substr(first)).second) kept += line;
    kept += '\n';
    begin = end + 1;
  }
  return kept;
}

}  // namespace

bool is_functional_test(std::string_view text) {
  return text.starts_with(kSection) || text.find("\nMODEL_ARGS:") != std::string_view::npos;
}

Result<NamedText> functional_test_arguments(const NamedText& file) {
  const Result<YamlNode> root = parse_yaml(without_repeats(file.text), file.name);
  if (!root) return root.errors();
  const YamlNode* mode = root->find("MODE");
  if (mode != nullptr && mode->text != "pretraining") {
    return error_at(
        {file.name, mode->line, mode->column, mode->length},
        "this test's mode is '" + mode->text + "': it does not train as pretraining does");
  }
  const YamlNode* arguments = root->find("MODEL_ARGS");
  if (arguments == nullptr || arguments->kind != YamlNode::Kind::kMap) {
    return error_at({file.name}, "'MODEL_ARGS' must be a section of options");
  }
  std::vector<std::string> lines;
  Diagnostics problems;
  for (const YamlEntry& entry : arguments->entries) {
    Result<std::string> words = words_of(entry, file.name);
    if (!words) {
      problems.insert(problems.end(), words.errors().begin(), words.errors().end());
      continue;
    }
    const auto line = static_cast<std::size_t>(std::max(entry.first.line, 1));
    if (lines.size() < line) lines.resize(line);
    lines[line - 1] += (lines[line - 1].empty() ? "" : " ") + *words;
  }
  if (!problems.empty()) return problems;
  NamedText list{file.name, {}};
  for (const std::string& line : lines) list.text += line + "\n";
  return list;
}

}  // namespace meshplan
