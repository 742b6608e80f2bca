#include "io/device_file.hpp"

#include "io/load.hpp"
#include "io/measured_keys.hpp"

namespace meshplan {
namespace {

// A map from precision names to values.
template <class T>
void read_per_precision(MapReader& r, std::string_view key, PerPrecision<T>& target) {
  std::optional<MapReader> map = r.map(key, Need::kRequired);
  if (!map) return;
  for (std::size_t i = 0; i < kNumPrecisions; ++i) {
    map->read(NameTable<Precision>::rows[i].name, target[i]);
  }
  map->refuse_unknown();
}

}  // namespace

DeviceSpec read_device(MapReader& r) {
  DeviceSpec d;
  r.read("name", d.name, Need::kRequired);
  r.read("architecture", d.architecture, Need::kRequired);
  r.read("memory", d.memory, Need::kRequired);
  r.read("context", d.context, Need::kRequired);
  r.read("memory_bandwidth", d.memory_bandwidth, Need::kRequired);
  r.read("l2_cache", d.l2_cache, Need::kRequired);
  r.read("multiprocessors", d.multiprocessors, Need::kRequired);
  read_per_precision(r, "peak", d.peak);
  if (std::optional<MapReader> gemm = r.map("gemm", Need::kRequired)) {
    read_per_precision(*gemm, "sustained", d.gemm.sustained);
    gemm->read("k_half", d.gemm.k_half, Need::kRequired);
    gemm->read("output_exposed", d.gemm.output_exposed);
    gemm->refuse_unknown();
  }
  if (std::optional<MapReader> attention = r.map("attention", Need::kRequired)) {
    attention->read("forward", d.attention.forward, Need::kRequired);
    attention->read("backward", d.attention.backward, Need::kRequired);
    attention->read("seq_half", d.attention.seq_half, Need::kRequired);
    attention->refuse_unknown();
  }
  r.read("memory_efficiency", d.memory_efficiency, Need::kRequired);
  r.read("kernel_overhead", d.kernel_overhead, Need::kRequired);
  r.read("launch_gap", d.launch_gap, Need::kRequired);
  r.read("host_link", d.host_link, Need::kRequired);
  r.read("collective_gap", d.collective_gap);
  r.read("tdp_watts", d.tdp_watts);
  r.read("overlap_slowdown", d.overlap_slowdown);
  r.read("variability", d.variability);
  read_text_map(r, "sources", d.sources);
  read_measured_sources(r, d.sources);
  r.refuse_unknown();
  return d;
}

Result<DeviceSpec> parse_device(std::string_view text, const std::string& file) {
  Document document(text, file);
  if (!document.ok()) return document.diagnostics();
  MapReader r(document, document.root());
  if (!document.ok()) return document.diagnostics();
  DeviceSpec d = read_device(r);
  document.add(findings(d));
  if (!document.ok()) return document.diagnostics();
  return d;
}

}  // namespace meshplan
