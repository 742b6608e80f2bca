#include <algorithm>
#include <array>

#include "base/quantity.hpp"
#include "io/nccl_tests_parts.hpp"
#include "io/yaml_reader.hpp"

namespace meshplan::nccl_tests {
namespace {

constexpr auto kNulls = MapReader::Nulls::kAbsent;

// Variables that change what NCCL does; the log holds the whole environment.
bool matters(std::string_view variable) {
  return variable.starts_with("NCCL_") || variable == "CUDA_DEVICE_MAX_CONNECTIONS" ||
         variable == "CUDA_VISIBLE_DEVICES" || variable.starts_with("UCX_NET_DEVICES");
}

void read_environment(MapReader& r, Provenance& provenance) {
  for (const YamlNode* node : r.list("env")) {
    const std::size_t equals = node->text.find('=');
    if (equals == std::string::npos) continue;
    const std::string name = node->text.substr(0, equals);
    if (matters(name)) provenance.environment[name] = node->text.substr(equals + 1);
  }
}

void read_row(MapReader r, NcclTestsRun& run) {
  std::int64_t bytes = 0;
  r.read("size", bytes, Need::kRequired);
  // Null where the test has no out-of-place result (the replay of a trace).
  std::optional<MapReader> out = r.map("out_of_place");
  if (!out) return;
  double us = 0, wrong = 0;
  const bool host_time = out->has("cpu_time");
  if (!out->read(host_time ? "cpu_time" : "time", us, Need::kRequired)) return;
  if (const YamlNode* node = out->find("nwrong");
      node != nullptr && node->kind == YamlNode::Kind::kScalar) {
    out->read("nwrong", wrong);
  }
  if (bytes < 0 || us < 0) {
    out->report("time", "a size or a time is below zero");
  } else if (bytes > 0 && us > 0) {
    if (const std::string why = no_measurement(bytes, us); !why.empty()) {
      out->report("time", why);
      return;
    }
    run.rows.push_back({Bytes{bytes}, Seconds{us * 1e-6},
                        static_cast<std::int64_t>(std::clamp(wrong, 0.0, 1e15))});
  }
}

std::vector<RankLine> read_devices(MapReader& config, Document& document) {
  std::vector<RankLine> ranks;
  const std::vector<const YamlNode*> devices = config.list("devices", Need::kRequired);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    MapReader device(document, *devices[i], "config.devices[" + std::to_string(i) + "]", kNulls);
    RankLine rank;
    device.read("group", rank.group);
    device.read("hostname", rank.host, Need::kRequired);
    device.read("device_info", rank.gpu);
    ranks.push_back(std::move(rank));
  }
  // Each process lists the first of its devices alone; they share its host.
  std::int64_t threads = 1, gpus = 1;
  config.read("nthreads", threads);
  config.read("ngpus", gpus);
  constexpr std::int64_t kMostEach = 4096;
  const bool sane = threads >= 1 && threads <= kMostEach && gpus >= 1 && gpus <= kMostEach;
  const std::int64_t each = sane ? threads * gpus : 0;
  if (each < 1 || each > kMostEach) {
    config.report("ngpus", "nthreads times ngpus must be from 1 to 4096");
    return ranks;
  }
  std::vector<RankLine> all;
  for (const RankLine& rank : ranks) {
    for (std::int64_t i = 0; i < each; ++i) all.push_back(rank);
  }
  return all;
}

}  // namespace

Result<std::vector<NcclTestsRun>> parse_json(std::string_view text, const std::string& file,
                                             std::optional<Collective> operation) {
  Document document(text, file);
  if (!document.ok()) return document.diagnostics();
  MapReader r(document, document.root(), {}, kNulls);
  NcclTestsRun run;
  std::string name;
  if (const std::vector<const YamlNode*> args = r.list("args"); !args.empty()) {
    name = args.front()->text;
  }
  const std::optional<Collective> named = name.empty() ? operation : nccl_tests_operation(name);
  if (!named) return unknown_operation({file, 1, 1}, name);
  run.operation = *named;
  run.provenance.method = "nccl-tests";
  r.read("start_time", run.provenance.date);
  std::int64_t version = 0;
  if (r.read("nccl_version", version)) run.provenance.nccl = version_text(version);
  read_environment(r, run.provenance);
  if (std::optional<MapReader> config = r.map("config", Need::kRequired)) {
    const std::vector<RankLine> ranks = read_devices(*config, document);
    const std::string wrong = describe_ranks(ranks, run);
    if (document.ok() && !wrong.empty()) {
      config->report("devices", "this run cannot be used: " + wrong);
    }
  }
  const std::vector<const YamlNode*> rows = r.list("results", Need::kRequired);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    read_row(MapReader(document, *rows[i], "results[" + std::to_string(i) + "]", kNulls), run);
  }
  if (document.ok() && run.rows.empty()) r.report("results", "there is not one result");
  if (!document.ok()) return document.diagnostics();
  std::vector<NcclTestsRun> runs;
  runs.push_back(std::move(run));
  return runs;
}

}  // namespace meshplan::nccl_tests
