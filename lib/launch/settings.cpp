#include "launch/settings.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

namespace meshplan {
namespace {

// JSON writes whole numbers as 5e8 or 8.0 as well.
std::optional<std::int64_t> whole_number(const std::string& text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, value);
  if (failure == std::errc{} && stop == end) return value;
  double real = 0;
  const auto [behind, problem] = std::from_chars(text.data(), end, real);
  constexpr double kMost = 9e15;
  if (problem != std::errc{} || behind != end || std::floor(real) != real) return std::nullopt;
  if (std::abs(real) > kMost) return std::nullopt;
  return static_cast<std::int64_t>(real);
}

std::vector<SourceLine> lines_of(std::string_view text) {
  std::vector<SourceLine> lines;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(std::make_shared<const std::string>(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return lines;
}

void flatten(const YamlNode& node, const std::string& path, const std::vector<SourceLine>& lines,
             const std::string& file, std::map<std::string, Settings::Setting>& all) {
  for (const YamlEntry& entry : node.entries) {
    const std::string name = (path.empty() ? "" : path + ".") + entry.first.text;
    const auto line = static_cast<std::size_t>(std::max(entry.first.line, 1)) - 1;
    Settings::Setting setting{
        {},
        {{file, entry.first.line, entry.first.column, entry.first.length},
         line < lines.size() ? lines[line] : std::make_shared<const std::string>()}};
    // A map stands for what is said of all of it; its values follow.
    const bool map = entry.second.kind == YamlNode::Kind::kMap;
    if (map) {
      setting.value.kind = YamlNode::Kind::kMap;
    } else {
      setting.value = entry.second;
    }
    all[name] = std::move(setting);
    if (map) flatten(entry.second, name, lines, file, all);
  }
}

}  // namespace

void Settings::add(const YamlNode& root, std::string_view text, const std::string& file) {
  flatten(root, "", lines_of(normalised_lines(text)), file, all_);
}

void Settings::add(const std::string& name, const ShellWord& word, const ShellWord* value,
                   const ShellScript& script, const std::string& file) {
  Setting setting;
  if (value != nullptr) {
    setting.value.kind = YamlNode::Kind::kScalar;
    setting.value.text = value->text;
  }
  setting.place = {{file, word.line, word.column, static_cast<int>(word.text.size())},
                   script.shared_line_of(word)};
  all_[name] = std::move(setting);
}

void Settings::add_over(const Settings& over) {
  for (const auto& [name, setting] : over.all_) all_[name] = setting;
}

const Settings::Setting* Settings::find(const std::string& name) {
  read_.insert(name);
  const auto found = all_.find(name);
  return found == all_.end() ? nullptr : &found->second;
}

std::int64_t Settings::integer(const std::string& name, std::int64_t otherwise) {
  const Setting* s = find(name);
  if (s == nullptr) return otherwise;
  const std::optional<std::int64_t> value =
      s->value.kind == YamlNode::Kind::kScalar ? whole_number(s->value.text) : std::nullopt;
  if (!value) {
    report(name, "'" + name + "' must be a whole number",
           s->value.kind == YamlNode::Kind::kNull ? "a variable that is set elsewhere? write it out"
                                                  : "");
  }
  return value.value_or(otherwise);
}

std::int64_t Settings::integer(const std::string& name, std::int64_t otherwise,
                               IntegerRange range) {
  const std::int64_t value = integer(name, otherwise);
  if (value == otherwise) return value;
  const std::optional<std::string> wrong = out_of_range("'" + name + "'", value, range);
  if (!wrong) return value;
  report(name, *wrong);
  return otherwise;
}

bool Settings::flag(const std::string& name, bool otherwise) {
  const Setting* s = find(name);
  if (s == nullptr) return otherwise;
  const std::string& text = s->value.text;
  if (s->value.kind == YamlNode::Kind::kNull || text == "true" || text == "True") return true;
  if (text != "false" && text != "False") report(name, "'" + name + "' must be true or false");
  return false;
}

std::string Settings::text(const std::string& name, const std::string& otherwise) {
  const Setting* s = find(name);
  if (s == nullptr) return otherwise;
  if (s->value.kind == YamlNode::Kind::kScalar) return s->value.text;
  report(name, "'" + name + "' must be a word");
  return otherwise;
}

void Settings::leave_out(std::string_view value, std::vector<std::string>& names) {
  for (auto it = all_.begin(); it != all_.end();) {
    const YamlNode& node = it->second.value;
    const bool out = node.kind == YamlNode::Kind::kScalar && node.text == value;
    if (out) names.push_back(it->first);
    it = out ? all_.erase(it) : std::next(it);
  }
}

void Settings::report(const std::string& name, std::string message, std::string hint) {
  Diagnostic d = error(std::move(message), std::move(hint));
  const auto found = all_.find(name);
  if (found != all_.end()) {
    d.where = found->second.place.where;
    d.source_line = *found->second.place.source_line;
  }
  problems_.push_back(std::move(d));
}

std::map<std::string, SettingPlace, std::less<>> Settings::places() const {
  std::map<std::string, SettingPlace, std::less<>> places;
  for (const auto& [name, setting] : all_) places[name] = setting.place;
  return places;
}

std::vector<std::string> Settings::not_read() const {
  std::vector<std::string> names;
  for (const auto& [name, setting] : all_) {
    if (setting.value.kind != YamlNode::Kind::kMap && !read_.contains(name)) names.push_back(name);
  }
  return names;
}

}  // namespace meshplan
