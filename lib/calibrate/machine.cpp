#include "calibrate/machine.hpp"

#include <algorithm>
#include <array>

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
  c.source = "meshplan bench (" + m.backend + ") on " + std::to_string(m.ranks.size()) +
             " ranks; bandwidth and latency of the levels are read off the measured curves";
  return c;
}

ClusterSpec with_measured_levels(ClusterSpec c, std::span<const CollectiveFit> fits) {
  for (LinkLevel& level : c.levels) {
    BytesPerSecond fastest{};
    Seconds one_way{}, least{};
    for (const CollectiveFit& fit : fits) {
      if (fit.level != level.name || fit.points.empty()) continue;
      const double factor = bus_factor(fit.operation, static_cast<double>(fit.ranks));
      for (const auto& [bytes, time] : fit.points) {
        fastest = std::max(fastest, BytesPerSecond{bytes.si() * factor / time.si()});
      }
      const Seconds time = fit.points.front().second;
      if (least == Seconds{} || time < least) least = time;
      const bool sends = fit.operation == Collective::kSendRecv && !fit.bidirectional;
      if (sends && (one_way == Seconds{} || time < one_way)) one_way = time;
    }
    if (fastest.si() > 0) level.bandwidth = fastest;
    if (least.si() > 0) level.latency = one_way.si() > 0 ? one_way : least;
  }
  return c;
}

}  // namespace meshplan
