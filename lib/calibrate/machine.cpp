#include "calibrate/machine.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "comm/measured.hpp"

namespace meshplan {
namespace {

struct KnownName {
  std::string_view driver, device;
};
// As cudaDeviceProp::name has them. Longer names first where one begins like another.
constexpr auto kNames = std::to_array<KnownName>({{"Tesla V100-SXM2-32GB", "v100-sxm2-32gb"},
                                                  {"NVIDIA A100-SXM4-40GB", "a100-sxm-40gb"},
                                                  {"NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"},
                                                  {"NVIDIA H100 80GB HBM3", "h100-sxm-80gb"},
                                                  {"NVIDIA H100 PCIe", "h100-pcie-80gb"},
                                                  {"NVIDIA H200", "h200-sxm-141gb"},
                                                  {"NVIDIA B200", "b200-180gb"},
                                                  {"NVIDIA GB200", "gb200"},
                                                  {"NVIDIA B300 SXM6 AC", "b300-270gb"},
                                                  {"NVIDIA GB300", "gb300"}});

// Stands for what with_measured_levels() puts there.
constexpr BytesPerSecond kUnmeasured{1e9};
constexpr Seconds kUnmeasuredLatency{1e-6};

// What was measured across one level; zero where nothing was.
struct LevelTimes {
  BytesPerSecond fastest{};
  Seconds answered{};  // least half of a ping-pong
  Seconds waited{};    // least time of a collective that ends when everybody has answered
};

LevelTimes times_of(const std::string& level, std::span<const CollectiveFit> fits,
                    std::span<const LevelLatency> latencies) {
  const auto take_least = [](Seconds& least, Seconds time) {
    if (least == Seconds{} || time < least) least = time;
  };
  LevelTimes found;
  for (const LevelLatency& l : latencies) {
    if (l.level == level) take_least(found.answered, l.time);
  }
  for (const CollectiveFit& fit : fits) {
    if (fit.level != level || fit.points.empty()) continue;
    const double factor = bus_factor(fit.operation, static_cast<double>(fit.ranks));
    for (const auto& [bytes, time] : fit.points) {
      found.fastest = std::max(found.fastest, BytesPerSecond{bytes.si() * factor / time.si()});
    }
    const bool one_way = fit.operation == Collective::kBroadcast ||
                         (fit.operation == Collective::kSendRecv && !fit.bidirectional);
    if (!one_way) take_least(found.waited, fit.points.front().second);
  }
  return found;
}

}  // namespace

std::string_view shipped_device(std::string_view driver_name) {
  const auto found = std::find_if(kNames.begin(), kNames.end(),
                                  [&](const KnownName& n) { return n.driver == driver_name; });
  return found == kNames.end() ? std::string_view() : found->device;
}

DeviceSpec processor_device(double cores, Bytes memory) {
  // Two vector units of 256 bits with fused multiply-add, at 2.5 GHz.
  constexpr double kFlopsPerCore = 2.5e9 * 32;
  const std::string nominal =
      "nominal, not measured: bench measures only the communication of processors";
  DeviceSpec d;
  d.name = "processor";
  d.architecture = Architecture::kAmpere;
  d.memory = memory;
  d.memory_bandwidth = BytesPerSecond{10e9};
  d.l2_cache = Bytes{kMiB};
  d.multiprocessors = 1;
  for (const Precision p : {Precision::kFp32, Precision::kFp16, Precision::kBf16}) {
    d.peak[static_cast<std::size_t>(p)] = FlopsPerSecond{std::max(cores, 0.5) * kFlopsPerCore};
    d.gemm.sustained[static_cast<std::size_t>(p)] = 0.5;
  }
  d.attention = {.forward = 0.3, .backward = 0.3, .seq_half = 0};
  d.memory_efficiency = 0.7;
  d.kernel_overhead = d.launch_gap = Seconds{1e-6};
  d.host_link = d.memory_bandwidth;
  d.sources["memory"] = "physical memory of the host over its ranks";
  d.sources["architecture"] = "there is none for processors; stands for: bf16 without emulation";
  for (const char* key : {"peak", "gemm.sustained", "attention", "memory_bandwidth",
                          "memory_efficiency", "kernel_overhead", "launch_gap", "host_link"}) {
    d.sources[key] = nominal;
  }
  return d;
}

ClusterSpec cluster_of(const Machine& m, DeviceSpec device) {
  ClusterSpec c;
  const std::string host = m.ranks.empty() ? "machine" : m.ranks.front().host;
  c.name = "measured-" + host;
  c.device = std::move(device);
  c.nodes = m.nodes;
  c.gpus_per_node = m.ranks_per_node;
  const LinkKind inside = m.accelerator ? LinkKind::kNvlink : LinkKind::kPcie;
  c.levels.push_back({"node", m.ranks_per_node, kUnmeasured, kUnmeasuredLatency, inside});
  if (m.nodes > 1) {
    c.levels.push_back({"network", 0, kUnmeasured, kUnmeasuredLatency, LinkKind::kEthernet});
  }
  c.source = "meshplan bench (" + m.backend + ") on " + std::to_string(m.ranks.size()) + " ranks";
  return c;
}

MeasuredLevels with_measured_levels(ClusterSpec c, std::span<const CollectiveFit> fits,
                                    std::span<const LevelLatency> latencies) {
  MeasuredLevels result;
  for (LinkLevel& level : c.levels) {
    if (level.span == 1) continue;  // of one device: nothing crosses it
    const LevelTimes found = times_of(level.name, fits, latencies);
    std::string bandwidth = "not measured", latency = "not measured";
    if (found.fastest.si() > 0) {
      level.bandwidth = found.fastest;
      bandwidth = "highest of its curves";
    }
    if (found.answered.si() > 0) {
      level.latency = found.answered;
      latency = "half of a ping-pong";
    } else if (found.waited.si() > 0) {
      level.latency = found.waited;
      latency = "least of its collectives";
      result.warnings.push_back("the latency of level '" + level.name + "', " +
                                human_time(level.latency) +
                                ", is that of a whole collective: no ping-pong crossed it");
    }
    const bool whole = found.fastest.si() > 0 && latency != "not measured";
    if (!whole) {
      result.warnings.push_back(
          "level '" + level.name + "' was not measured: " + human_bandwidth(level.bandwidth) +
          " and " + human_time(level.latency) +
          " only stand in its place; run bench again with --resume and a "
          "larger --budget, without --only, or name the machine with --cluster");
    }
    c.source += "; level '" + level.name + "': bandwidth " + bandwidth + ", latency " + latency;
  }
  result.cluster = std::move(c);
  return result;
}

}  // namespace meshplan
