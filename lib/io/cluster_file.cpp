#include <filesystem>

#include "io/device_file.hpp"
#include "io/load.hpp"
#include "io/measured_keys.hpp"
#include "io/parts.hpp"

namespace meshplan {
namespace {

std::string item_path(std::string_view list, std::size_t i) {
  return std::string(list) + "[" + std::to_string(i) + "]";
}

// A number of devices, or the word "all".
void read_span(MapReader& r, std::int64_t& span) {
  const YamlNode* node = r.find("span");
  if (node != nullptr && node->kind == YamlNode::Kind::kScalar && node->text == "all") {
    span = 0;
    return;
  }
  if (r.read("span", span, Need::kRequired) && span < 2) {
    r.report("span", "'" + r.path_of("span") + "' must be 2 or more devices, or all, got " +
                         std::to_string(span));
  }
}

LinkLevel read_level(MapReader r) {
  LinkLevel level;
  r.read("name", level.name, Need::kRequired);
  read_span(r, level.span);
  r.read("bandwidth", level.bandwidth, Need::kRequired);
  r.read("latency", level.latency, Need::kRequired);
  r.read("kind", level.kind, Need::kRequired);
  r.read("oversubscription", level.oversubscription);
  r.read("token_message", level.token_message);
  r.refuse_unknown();
  return level;
}

// [[1 MiB, 23 us], ...]
std::vector<TimedSize> read_sizes(MapReader& r, std::string_view key, Need need) {
  std::vector<TimedSize> points;
  const std::vector<const YamlNode*> items = r.list(key, need);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string path = item_path(r.path_of(key), i);
    if (items[i]->kind != YamlNode::Kind::kSequence || items[i]->items.size() != 2) {
      r.document().report(*items[i], path, "'" + path + "' must be a pair of a size and a time",
                          "for example [1 MiB, 23 us]");
      continue;
    }
    auto& [size, time] = points.emplace_back();
    read_value(r.document(), path + "[0]", items[i]->items[0], size);
    read_value(r.document(), path + "[1]", items[i]->items[1], time);
  }
  return points;
}

AlphaBeta read_summary(MapReader r) {
  AlphaBeta summary;
  r.read("latency", summary.latency, Need::kRequired);
  r.read("bandwidth", summary.bandwidth, Need::kRequired);
  r.read("error", summary.error, Need::kRequired);
  r.refuse_unknown();
  return summary;
}

CollectiveFit read_fit(MapReader r) {
  CollectiveFit fit;
  r.read("operation", fit.operation, Need::kRequired);
  r.read("level", fit.level, Need::kRequired);
  r.read("ranks", fit.ranks, Need::kRequired);
  r.read("nodes", fit.nodes);
  r.read("bidirectional", fit.bidirectional);
  fit.points = read_sizes(r, "points", Need::kRequired);
  if (std::optional<MapReader> summary = r.map("summary")) fit.summary = read_summary(*summary);
  if (std::optional<MapReader> errors = r.map("errors")) fit.errors = read_fit_errors(*errors);
  fit.samples = read_sizes(r, "samples", Need::kOptional);
  r.refuse_unknown();
  return fit;
}

bool is_path(std::string_view text) {
  return text.find('/') != std::string_view::npos || text.ends_with(".yaml") ||
         text.ends_with(".yml") || text.ends_with(".json");
}

// A name, a path (relative to the cluster's file), or the device itself.
void read_device_of(MapReader& r, const DataFolders& data, DeviceSpec& device) {
  const YamlNode* node = r.find("device");
  if (node != nullptr && node->kind == YamlNode::Kind::kMap) {
    MapReader below(r.document(), *node, "device");
    device = read_device(below);
    Findings prefixed;
    const Findings all = findings(device);
    for (const Finding& finding : all.all()) {
      std::vector<std::string> keys;
      for (const std::string& key : finding.keys) keys.push_back("device." + key);
      prefixed.error(std::move(keys), finding.diagnostic.message, finding.diagnostic.hint);
    }
    r.document().add(prefixed);
    return;
  }
  std::string name;
  if (!r.read("device", name, Need::kRequired)) return;
  if (is_path(name)) {
    const std::filesystem::path folder = std::filesystem::path(r.document().file()).parent_path();
    if (!folder.empty()) name = (folder / name).string();
  }
  Result<DeviceSpec> loaded = load_device(name, data);
  if (loaded) {
    device = std::move(loaded).value();
    return;
  }
  // A device file has positions of its own; an unknown name is at fault here.
  if (!loaded.errors().front().where.file.empty()) {
    r.document().add(loaded.errors());
  } else {
    r.report("device", loaded.errors().front().message, loaded.errors().front().hint);
  }
}

}  // namespace

Result<ClusterSpec> parse_cluster(std::string_view text, const std::string& file,
                                  const DataFolders& data) {
  Document document(text, file);
  if (!document.ok()) return document.diagnostics();
  return read_cluster(document, data);
}

Result<ClusterSpec> read_cluster(Document& document, const DataFolders& data) {
  MapReader r(document, document.root());
  if (!document.ok()) return document.diagnostics();
  ClusterSpec c;
  r.read("name", c.name, Need::kRequired);
  read_device_of(r, data, c.device);
  r.read("nodes", c.nodes, Need::kRequired);
  r.read("gpus_per_node", c.gpus_per_node, Need::kRequired);
  const std::vector<const YamlNode*> levels = r.list("levels", Need::kRequired);
  for (std::size_t i = 0; i < levels.size(); ++i) {
    c.levels.push_back(read_level(MapReader(document, *levels[i], item_path("levels", i))));
  }
  const std::vector<const YamlNode*> fits = r.list("collectives");
  for (std::size_t i = 0; i < fits.size(); ++i) {
    c.collectives.push_back(read_fit(MapReader(document, *fits[i], item_path("collectives", i))));
  }
  if (std::optional<MapReader> measured = r.map("measured")) {
    c.measured = read_provenance(*measured);
  }
  const std::vector<const YamlNode*> runs = r.list("seen_runs");
  for (std::size_t i = 0; i < runs.size(); ++i) {
    c.seen_runs.push_back(read_seen_run(MapReader(document, *runs[i], item_path("seen_runs", i))));
  }
  r.read("host_memory", c.host_memory);
  if (std::optional<MapReader> cost = r.map("cost")) {
    cost->read("usd_per_gpu_hour", c.usd_per_gpu_hour, Need::kRequired);
    cost->refuse_unknown();
  }
  r.read("source", c.source);
  r.refuse_unknown();
  document.add(findings(c));
  if (!document.ok()) return document.diagnostics();
  return c;
}

}  // namespace meshplan
