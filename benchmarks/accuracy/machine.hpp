#pragma once
// Which cluster a published run ran on: from the words of its `gpu` and of the file's hardware
// section to a cluster file, with the number of GPUs that the run used.
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <variant>

#include "base/units.hpp"
#include "io/load.hpp"
#include "run.hpp"
#include "spec/cluster.hpp"

namespace meshplan::accuracy {

// The name of a cluster, and what of it a variant of its GPU changes.
struct MachineChoice {
  std::string cluster;
  std::optional<Bytes> memory;  // of the GPU, as the driver reports it
  std::optional<Bytes> context;
  std::optional<BytesPerSecond> memory_bandwidth;
  std::optional<BytesPerSecond> nvlink;   // per GPU, one direction
  std::optional<BytesPerSecond> network;  // per GPU, from the file's words
  std::optional<std::int64_t> gpus_per_node;
  std::optional<LinkKind> network_kind;

  bool operator==(const MachineChoice&) const = default;
};

struct NoMachine {
  std::string reason;
  bool operator==(const NoMachine&) const = default;
};

// The documented tables of machine.cpp: GPU names and named systems.
[[nodiscard]] std::variant<MachineChoice, NoMachine> choose_machine(const Source& source,
                                                                    const Run& run);

// Bandwidth per GPU and direction that a sentence like "8x 200 Gb/s HDR InfiniBand per node",
// "400 Gb/s per GPU" or "1600 Gbps node-node" states; empty if it states none or several.
[[nodiscard]] std::optional<BytesPerSecond> stated_network(const std::string& inter_node,
                                                           std::int64_t gpus_per_node);

// Loads each cluster once: from `own_clusters`, else by name.
class Machines {
 public:
  Machines(std::filesystem::path own_clusters, DataFolders data)
      : own_(std::move(own_clusters)), data_(std::move(data)) {}

  [[nodiscard]] Result<ClusterSpec> cluster(const MachineChoice& choice, std::int64_t gpus);

 private:
  std::filesystem::path own_;
  DataFolders data_;
  std::map<std::string, ClusterSpec> loaded_;
};

}  // namespace meshplan::accuracy
