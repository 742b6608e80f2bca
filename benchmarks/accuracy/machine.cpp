#include "machine.hpp"

#include <array>
#include <cmath>
#include <regex>
#include <span>

#include "words.hpp"

namespace meshplan::accuracy {
namespace {

constexpr double kGb = 1e9;

// A GPU as tables name it. The first row whose words all occur wins, so variants come first.
struct GpuRow {
  std::string_view word;     // in the run's `gpu`, else in the hardware section's
  std::string_view variant;  // a second word that must occur too; empty: none
  double memory_gb;          // 0: whatever is stated
  std::string_view cluster;  // empty: not shipped
  double memory_gib_changed = 0, memory_gbs_changed = 0, nvlink_gbs_changed = 0;
};

constexpr std::array kGpus{
    GpuRow{"GB300", "", 0, "gb300-nvl72"},
    GpuRow{"B300", "", 0, "dgx-b300"},
    GpuRow{"GB200", "", 0, "gb200-nvl72"},
    GpuRow{"B200", "", 0, "dgx-b200"},
    // GH200: the H100 die with 96 GB of HBM3 at 4 TB/s (NVIDIA GH200 datasheet).
    GpuRow{"GH200", "", 96, "dgx-h100", 95.6, 4000},
    GpuRow{"GH200", "", 0, ""},
    GpuRow{"H200", "", 0, "hgx-h200"},
    // H800, A800: H100 and A100 whose NVLink is cut to 400 GB/s in both directions together
    // (DeepSeek-V3, 2412.19437, sec. 3.1; NVIDIA A800 datasheet).
    GpuRow{"H800", "", 0, "dgx-h100", 0, 0, 200},
    GpuRow{"A800", "", 0, "dgx-a100-80gb", 0, 0, 200},
    GpuRow{"H100", "PCIe", 0, ""},
    // H100 with 96 GB of HBM2e at 500 W (the GPU of torchtitan's published tables).
    GpuRow{"H100", "", 96, "hgx-h100-96gb"},
    GpuRow{"H100", "", 0, "dgx-h100"},
    GpuRow{"A100", "", 80, "dgx-a100-80gb"},
    // Nothing stated: the 40 GB part, the only one until November 2020.
    GpuRow{"A100", "", 0, "dgx-a100-40gb"},
    GpuRow{"Ampere", "", 0, "dgx-a100-80gb"},
    GpuRow{"V100", "DGX-2", 0, "dgx-2-v100"},
    GpuRow{"V100", "", 16, "dgx-v100", 15.8},
    GpuRow{"V100", "", 0, "dgx-v100"},
    GpuRow{"MI300X", "", 0, "mi300x-platform"},
    GpuRow{"MI325X", "", 0, "mi325x-platform"},
    GpuRow{"MI350X", "", 0, "mi350x-platform"},
    GpuRow{"MI355X", "", 0, "mi355x-platform"},
    GpuRow{"L40S", "", 0, "l40s-server"},
    GpuRow{"H20", "", 0, "hgx-h20"},
    GpuRow{"4090", "", 0, "rtx-4090"},
    GpuRow{"5090", "", 0, "rtx-5090"},
    GpuRow{"3090", "", 0, "rtx-3090"},
};

// Systems whose network differs from the GPU's usual one, by words of the file's name, title or
// repository. Their numbers and sources are in clusters/<name>.yaml.
struct SystemRow {
  std::string_view word;
  std::string_view usual;  // the cluster it stands in for
  std::string_view cluster;
  double context_gib = 0;  // 0: as the device's file says
};

constexpr std::array kSystems{
    // CUDA 11 and PyTorch of 2022 loaded all kernels: 1.3 to 1.6 GB of the device by nvidia-smi
    // (bigscience train/tr11-176B-ml/chronicles-prequel.md).
    SystemRow{"bigscience", "dgx-a100-80gb", "jean-zay-a100", 1.4},
    SystemRow{"internevo", "dgx-a100-80gb", "internevo-a100"},
    SystemRow{"aleph", "dgx-a100-80gb", "aleph-alpha-a100"},
    SystemRow{"llm-foundry", "dgx-a100-80gb", "oci-a100-roce"},
    SystemRow{"llm-foundry", "dgx-a100-40gb", "oci-a100-40gb-roce"},
    SystemRow{"nanotron", "dgx-h100", "hf-h100-efa"},
    SystemRow{"vtrain", "dgx-a100-80gb", "vtrain-a100"},
    SystemRow{"fms-fsdp", "dgx-a100-80gb", "fms-a100"},
    SystemRow{"fms-fsdp", "dgx-h100", "fms-h100"},
};

// Instances of a cloud that ship as clusters, by their names in what is said of the network.
constexpr std::array kInstances{
    SystemRow{"p4d", "dgx-a100-40gb", "aws-p4d"},
    SystemRow{"p5en", "hgx-h200", "aws-p5en"},
    SystemRow{"p5", "dgx-h100", "aws-p5"},
    SystemRow{"p6-b200", "dgx-b200", "aws-p6-b200"},
    SystemRow{"p6-b300", "dgx-b300", "aws-p6-b300"},
};

// What a table keyed by GPU name says about `gpu`; the longest key that occurs wins ("GB200" over
// "B200"). The entry without a key is for every GPU.
std::optional<double> entry_for(const PerGpu& table, const std::string& gpu) {
  std::optional<double> found;
  std::size_t longest = 0;
  for (const auto& [key, value] : table) {
    if (!has_word(gpu, key) || (found && key.size() < longest)) continue;
    found = value;
    longest = key.size();
  }
  return found;
}

// "A100 80GB", "A100-SXM4-40GB", "V100-32GB".
std::optional<double> stated_memory(const std::string& gpu) {
  static const std::regex pattern(R"((\d+)\s*GB\b)", std::regex::icase);
  std::smatch match;
  if (!std::regex_search(gpu, match, pattern)) return std::nullopt;
  return std::stod(match[1].str());
}

double memory_of(const Source& source, const Run& run) {
  const std::string& gpu = run.gpu.empty() ? source.gpu : run.gpu;
  if (const auto in_name = stated_memory(gpu)) return *in_name;
  if (const auto in_table = entry_for(source.gpu_memory_gb, gpu)) return *in_table;
  // "NVIDIA A100 (memory size not stated; 60 GiB used)": not the one of 40.
  static const std::regex used(R"((\d+) GiB used)");
  std::smatch match;
  if (std::regex_search(gpu, match, used) && std::stod(match[1].str()) > 40) return 80;
  return stated_memory(source.gpu).value_or(0);
}

const GpuRow* gpu_row(const std::string& gpu, double memory_gb) {
  for (const GpuRow& row : kGpus) {
    if (!has_word(gpu, row.word) || !has_word(gpu, row.variant)) continue;
    if (row.memory_gb != 0 && std::abs(memory_gb - row.memory_gb) > 1) continue;
    return &row;
  }
  return nullptr;
}

// The named system of the source that stands in for `usual`, if it is one.
const SystemRow* system_row(const Source& source, std::string_view usual) {
  const std::string words = source.name + " " + source.title + " " + source.repo;
  for (const SystemRow& row : kSystems) {
    if (row.usual == usual && has_word(words, row.word)) return &row;
  }
  for (const SystemRow& row : kInstances) {
    if (row.usual == usual && has_word(source.inter_node, row.word)) return &row;
  }
  return nullptr;
}

std::optional<LinkKind> stated_kind(const std::string& inter_node) {
  if (has_word(inter_node, "EFA")) return LinkKind::kEfa;
  if (has_any(inter_node, {"RoCE", "Slingshot"})) return LinkKind::kRoce;
  if (has_any(inter_node, {"InfiniBand", "Omni-Path", "HDR", "NDR", "EDR"}))
    return LinkKind::kInfiniband;
  if (has_word(inter_node, "Ethernet")) return LinkKind::kEthernet;
  return std::nullopt;
}

}  // namespace

std::optional<BytesPerSecond> stated_network(const std::string& inter_node,
                                             std::int64_t gpus_per_node) {
  const double gpus = static_cast<double>(gpus_per_node);
  std::smatch match;
  static const std::regex times(R"((\d+)\s*x\s*(\d+)\s*(Gb\b|Gb/s|Gbit/s|Gbps|GB/s))");
  if (std::regex_search(inter_node, match, times)) {
    const double bits_per_byte = match[3].str() == "GB/s" ? 1 : 8;
    return BytesPerSecond{std::stod(match[1].str()) * std::stod(match[2].str()) * kGb /
                          (bits_per_byte * gpus)};
  }
  static const std::regex per_gpu(R"((\d+)\s*(?:Gb/s|Gbit/s|Gbps) per GPU)");
  if (std::regex_search(inter_node, match, per_gpu))
    return BytesPerSecond{std::stod(match[1].str()) * kGb / 8};
  static const std::regex per_node(R"((\d+)\s*(?:Gb/s|Gbit/s|Gbps) (?:node|per node))");
  if (std::regex_search(inter_node, match, per_node))
    return BytesPerSecond{std::stod(match[1].str()) * kGb / (8 * gpus)};
  return std::nullopt;
}

std::variant<MachineChoice, NoMachine> choose_machine(const Source& source, const Run& run) {
  const std::string& gpu = run.gpu.empty() ? source.gpu : run.gpu;
  // What a training step holds hardly depends on the device.
  const bool any = source.use == Use::kMemory || run.longest;
  if (gpu.empty() && !any) return NoMachine{"GPU not stated"};
  const GpuRow* row = gpu_row(gpu, memory_of(source, run));
  if (row == nullptr && any) row = gpu_row("A100", 80);
  if (row == nullptr || row->cluster.empty()) return NoMachine{"device not shipped: " + gpu};
  MachineChoice choice;
  const SystemRow* system = system_row(source, row->cluster);
  choice.cluster = std::string(system != nullptr ? system->cluster : row->cluster);
  if (system != nullptr && system->context_gib > 0)
    choice.context = ceil_bytes(system->context_gib * static_cast<double>(kGiB));
  if (row->memory_gib_changed > 0)
    choice.memory = ceil_bytes(row->memory_gib_changed * static_cast<double>(kGiB));
  if (run.longest) choice.memory = run.longest->memory;
  if (row->memory_gbs_changed > 0)
    choice.memory_bandwidth = BytesPerSecond{row->memory_gbs_changed * kGb};
  if (row->nvlink_gbs_changed > 0) choice.nvlink = BytesPerSecond{row->nvlink_gbs_changed * kGb};
  // A system with a file of its own is described there completely.
  if (choice.cluster != row->cluster || has_word(row->cluster, "dgx-2")) return choice;
  const double per_node = entry_for(source.gpus_per_node, gpu).value_or(0);
  if (per_node >= 1) choice.gpus_per_node = static_cast<std::int64_t>(per_node);
  if (choice.gpus_per_node)
    choice.network = stated_network(source.inter_node, *choice.gpus_per_node);
  if (choice.network) choice.network_kind = stated_kind(source.inter_node);
  return choice;
}

Result<ClusterSpec> Machines::cluster(const MachineChoice& choice, std::int64_t gpus) {
  auto at = loaded_.find(choice.cluster);
  if (at == loaded_.end()) {
    const std::filesystem::path file = own_ / (choice.cluster + ".yaml");
    Result<ClusterSpec> spec =
        load_cluster(std::filesystem::exists(file) ? file.string() : choice.cluster, data_);
    if (!spec) return spec.errors();
    at = loaded_.emplace(choice.cluster, std::move(spec.value())).first;
  }
  ClusterSpec c = at->second;
  if (choice.memory) c.device.memory = *choice.memory;
  if (choice.context) c.device.context = *choice.context;
  if (choice.memory_bandwidth) c.device.memory_bandwidth = *choice.memory_bandwidth;
  if (choice.nvlink) c.levels.front().bandwidth = *choice.nvlink;
  if (choice.gpus_per_node && *choice.gpus_per_node != c.gpus_per_node) {
    if (c.levels.front().span == c.gpus_per_node) c.levels.front().span = *choice.gpus_per_node;
    c.gpus_per_node = *choice.gpus_per_node;
  }
  for (std::size_t i = 1; i < c.levels.size(); ++i) {
    if (choice.network) c.levels[i].bandwidth = *choice.network;
    if (choice.network_kind) c.levels[i].kind = *choice.network_kind;
  }
  return with_gpus(std::move(c), gpus);
}

}  // namespace meshplan::accuracy
