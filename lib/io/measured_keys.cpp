#include "io/measured_keys.hpp"

namespace meshplan {

FitErrors read_fit_errors(MapReader& r) {
  FitErrors errors;
  r.read("residual_median", errors.residual_median, Need::kRequired);
  r.read("residual_p90", errors.residual_p90, Need::kRequired);
  r.read("held_out_median", errors.held_out_median);
  r.read("held_out_p90", errors.held_out_p90);
  r.read("samples", errors.samples, Need::kRequired);
  r.read("outliers", errors.outliers);
  r.refuse_unknown();
  return errors;
}

Provenance read_provenance(MapReader& r) {
  Provenance p;
  r.read("method", p.method, Need::kRequired);
  r.read("date", p.date);
  r.read("host", p.host);
  r.read("gpu", p.gpu);
  r.read("driver", p.driver);
  r.read("cuda", p.cuda);
  r.read("nccl", p.nccl);
  read_text_map(r, "environment", p.environment);
  read_text_map(r, "notes", p.notes);
  r.refuse_unknown();
  return p;
}

SeenRun read_seen_run(MapReader r) {
  SeenRun run;
  r.read("name", run.name, Need::kRequired);
  r.read("error", run.error, Need::kRequired);
  r.read("noise", run.noise, Need::kRequired);
  if (std::optional<MapReader> map = r.map("sensitivity", Need::kRequired)) {
    for (const auto& [name, value] : map->node().entries)
      map->read(name.text, run.sensitivity[name.text]);
  }
  r.refuse_unknown();
  return run;
}

void read_measured_sources(MapReader& r, std::map<std::string, std::string>& sources) {
  std::map<std::string, std::string> measured;
  read_text_map(r, "measured", measured);
  for (auto& [key, value] : measured) sources[std::string(kMeasuredSource) + key] = value;
}

void read_text_map(MapReader& r, std::string_view key, std::map<std::string, std::string>& target) {
  std::optional<MapReader> map = r.map(key);
  if (!map) return;
  for (const auto& [name, value] : map->node().entries) map->read(name.text, target[name.text]);
}

}  // namespace meshplan
