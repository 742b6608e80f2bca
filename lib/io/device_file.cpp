#include "io/device_file.hpp"

#include <array>

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

// What a file of datasheet numbers leaves out, by architecture: the shipped device of the same make
// whose numbers are measured or fitted where there is one, else estimates as those of the shipped
// files (hardware-profiles/devices).
struct Usual {
  Architecture architecture;
  double sustained, fp8_sustained, attention, attention_backward, memory_efficiency;
  double l2_mib, launch_us, link_gbs;
  std::int64_t multiprocessors;
};
constexpr std::array kUsual{
    Usual{Architecture::kVolta, 0.75, 0, 0.4, 0.32, 0.8, 6, 8, 12, 80},
    Usual{Architecture::kAmpere, 0.75, 0, 0.52, 0.42, 0.8, 40, 6, 24, 84},
    Usual{Architecture::kAda, 0.65, 0.6, 0.45, 0.36, 0.86, 72, 6, 24, 128},
    Usual{Architecture::kHopper, 0.73, 0.6, 0.62, 0.52, 0.728, 50, 6, 48, 132},
    Usual{Architecture::kBlackwell, 0.65, 0.56, 0.6, 0.48, 0.728, 96, 6, 48, 148},
    Usual{Architecture::kCdna3, 0.51, 0.47, 0.38, 0.27, 0.78, 32, 8, 48, 304},
    Usual{Architecture::kCdna4, 0.5, 0.46, 0.38, 0.27, 0.78, 32, 8, 48, 256},
};
static_assert(kUsual.size() == NameTable<Architecture>::rows.size());

// Shares of peak fall with peak per watt (hardware-profiles/devices/gb200.yaml, gemm.sustained): of
// twice the rate of 8 bits as 2^-0.32.
constexpr double kFourBitShare = 0.8;

// Starts from the architecture's usual values, and says of each that the file leaves out what it
// is.
void start_from_usual(MapReader& r, DeviceSpec& d) {
  const Usual& usual = kUsual[static_cast<std::size_t>(d.architecture)];
  d.context = Bytes{kGiB};
  d.l2_cache = ceil_bytes(usual.l2_mib * static_cast<double>(kMiB));
  d.multiprocessors = usual.multiprocessors;
  d.gemm.k_half = 256;
  for (std::size_t i = 0; i < kNumPrecisions; ++i) {
    const Precision p = NameTable<Precision>::rows[i].value;
    d.gemm.sustained[i] = is_quantised(p) ? usual.fp8_sustained : usual.sustained;
    if (p == Precision::kNvfp4) d.gemm.sustained[i] *= kFourBitShare;
    if (d.peak[i].si() <= 0) d.gemm.sustained[i] = 0;
  }
  d.attention = {usual.attention, usual.attention_backward, 800};
  d.memory_efficiency = usual.memory_efficiency;
  d.kernel_overhead = Seconds{2.5e-6};
  d.launch_gap = Seconds{usual.launch_us * 1e-6};
  d.host_link = BytesPerSecond{usual.link_gbs * 1e9};
  const std::string source = std::string(kUsualSource) + " " + std::string(name_of(d.architecture));
  for (const std::string_view key :
       {"context", "l2_cache", "multiprocessors", "gemm", "attention", "memory_efficiency",
        "kernel_overhead", "launch_gap", "host_link"}) {
    if (!r.has(std::string(key))) d.sources[std::string(key)] = source;
  }
}

}  // namespace

DeviceSpec read_device(MapReader& r) {
  DeviceSpec d;
  r.read("name", d.name, Need::kRequired);
  r.read("architecture", d.architecture, Need::kRequired);
  r.read("memory", d.memory, Need::kRequired);
  r.read("memory_bandwidth", d.memory_bandwidth, Need::kRequired);
  read_per_precision(r, "peak", d.peak);
  start_from_usual(r, d);
  r.read("context", d.context);
  r.read("l2_cache", d.l2_cache);
  r.read("multiprocessors", d.multiprocessors);
  if (std::optional<MapReader> gemm = r.map("gemm")) {
    d.gemm.sustained = {};
    read_per_precision(*gemm, "sustained", d.gemm.sustained);
    gemm->read("k_half", d.gemm.k_half, Need::kRequired);
    gemm->read("output_exposed", d.gemm.output_exposed);
    gemm->refuse_unknown();
  }
  if (std::optional<MapReader> attention = r.map("attention")) {
    attention->read("forward", d.attention.forward, Need::kRequired);
    attention->read("backward", d.attention.backward, Need::kRequired);
    attention->read("seq_half", d.attention.seq_half, Need::kRequired);
    attention->refuse_unknown();
  }
  r.read("memory_efficiency", d.memory_efficiency);
  r.read("kernel_overhead", d.kernel_overhead);
  r.read("launch_gap", d.launch_gap);
  r.read("host_link", d.host_link);
  r.read("collective_gap", d.collective_gap);
  r.read("tdp_watts", d.tdp_watts);
  r.read("overlap_slowdown", d.overlap_slowdown);
  r.read("variability", d.variability);
  std::map<std::string, std::string> usual = std::move(d.sources);
  d.sources = {};
  read_text_map(r, "sources", d.sources);
  d.sources.merge(usual);
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
