#include "io/presets_file.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "io/strategy_file.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

constexpr std::array kReshardKinds{ReshardKind::kUnchanged, ReshardKind::kAtLoad,
                                   ReshardKind::kOption, ReshardKind::kConverted, ReshardKind::kNo};

ReshardKind read_kind(MapReader& r) {
  std::array<std::string_view, kReshardKinds.size()> names{};
  std::transform(kReshardKinds.begin(), kReshardKinds.end(), names.begin(),
                 [](ReshardKind k) { return name_of(k); });
  const YamlNode* node = r.find("kind");
  if (node == nullptr) {
    r.report("kind", "'" + r.path_of("kind") + "' is missing");
    return ReshardKind::kNo;
  }
  const auto index = read_name(r.document(), r.path_of("kind"), *node, names);
  return kReshardKinds[index.value_or(0)];
}

ReshardRule read_rule(MapReader& checkpoint, std::string_view key) {
  ReshardRule rule;
  std::optional<MapReader> r = checkpoint.map(key, Need::kRequired);
  if (!r) return rule;
  rule.kind = read_kind(*r);
  r->read("how", rule.how, Need::kRequired);
  r->read("source", rule.source, Need::kRequired);
  r->refuse_unknown();
  return rule;
}

bool is_date(const std::string& text) {
  if (text.size() != 7 && text.size() != 10) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 4 || i == 7;
    if (dash ? text[i] != '-' : text[i] < '0' || text[i] > '9') return false;
  }
  return true;
}

// The keys of a strategy that a framework decides.
PresetValues read_values(MapReader& r) {
  Strategy s;
  s.seq_len = 1;  // stated elsewhere
  std::map<std::string, MapReader, std::less<>> maps;
  for_each_key(s, [&](std::string_view key, auto& member) {
    if (!is_preset_key(key)) return;
    const std::size_t dot = key.find('.');
    if (dot == std::string_view::npos) {
      r.read(key, member);
      return;
    }
    const std::string outer(key.substr(0, dot));
    auto map = maps.find(outer);
    if (map == maps.end()) {
      if (!r.has(outer)) return;
      std::optional<MapReader> inner = r.map(outer);
      if (!inner) return;
      map = maps.emplace(outer, std::move(*inner)).first;
    }
    map->second.read(key.substr(dot + 1), member);
  });
  for (auto& [name, map] : maps) map.refuse_unknown();
  r.document().add(findings(s));
  return values_of(s);
}

Preset read_release(MapReader r, const std::string& framework) {
  Preset p;
  p.framework_name = framework;
  r.read("release", p.release_name, Need::kRequired);
  r.read("alias", p.alias);
  if (r.read("date", p.date, Need::kRequired) && !is_date(p.date)) {
    r.report("date", "'" + r.path_of("date") + "' must be a date, got \"" + p.date + "\"",
             "for example 2024-06-14, or 2024-06");
  }
  r.read("source", p.source, Need::kRequired);
  p.values = read_values(r);
  if (std::optional<MapReader> checkpoint = r.map("checkpoint")) {
    p.shards = read_rule(*checkpoint, "shards");
    p.model = read_rule(*checkpoint, "model");
    checkpoint->refuse_unknown();
  }
  r.refuse_unknown();
  return p;
}

}  // namespace

Result<std::vector<Preset>> parse_presets(std::string_view text, const std::string& file) {
  Document document(text, file);
  if (!document.ok()) return document.diagnostics();
  MapReader r(document, document.root());
  std::string framework;
  r.read("framework", framework, Need::kRequired);
  std::vector<Preset> all;
  const std::vector<const YamlNode*> releases = r.list("releases", Need::kRequired);
  for (std::size_t i = 0; i < releases.size(); ++i) {
    const std::string path = "releases[" + std::to_string(i) + "]";
    all.push_back(read_release(MapReader(document, *releases[i], path), framework));
    if (i > 0 && all[i - 1].date < all[i].date) {
      document.report(*releases[i], path, "releases must be listed newest first");
    }
  }
  r.refuse_unknown();
  if (!document.ok()) return document.diagnostics();
  return all;
}

Result<std::vector<Preset>> load_presets(const DataFolders& data) {
  std::vector<Preset> all;
  Diagnostics problems;
  for (const std::string_view folder : {kFrameworkFolder, kHistoricalFrameworkFolder}) {
    for (const std::string& name : data.names(folder)) {
      const std::string path = data.find(folder, name).string();
      const Result<std::string> text = read_text_file(path);
      Result<std::vector<Preset>> rows =
          text ? parse_presets(*text, path) : Result<std::vector<Preset>>(text.errors());
      if (!rows) {
        problems.insert(problems.end(), rows.errors().begin(), rows.errors().end());
        continue;
      }
      std::move(rows->begin(), rows->end(), std::back_inserter(all));
    }
  }
  if (has_errors(problems)) return problems;
  return all;
}

}  // namespace meshplan
