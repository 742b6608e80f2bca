#pragma once
// A device plug-in, loaded at run time.
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "probe/operation.hpp"
#include "probe/plugin_abi.hpp"

namespace meshplan {

enum class BackendKind { kNccl, kMpi };

// Where plug-ins are looked for: MESHPLAN_PLUGINS, then beside the program and in the installation
// prefix around it.
[[nodiscard]] std::vector<std::filesystem::path> plugin_folders();

class Plugin {
 public:
  // Errors say which library is missing, or that the plug-in was not built or installed.
  static Result<std::shared_ptr<Plugin>> load(BackendKind kind,
                                              const std::vector<std::filesystem::path>& folders);

  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;
  // Stays loaded until the process ends: MPI and CUDA leave threads and exit handlers behind.
  ~Plugin() = default;

  [[nodiscard]] const meshplan_probe_plugin_table& table() const { return *table_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  Plugin(const meshplan_probe_plugin_table* table, std::string path)
      : table_(table), path_(std::move(path)) {}

  const meshplan_probe_plugin_table* table_;
  std::string path_;
};

// The operation as the C interface has it, for one rank of the job.
[[nodiscard]] meshplan_probe_operation to_abi(const Operation& op, std::int64_t rank,
                                              std::int64_t ranks);

MESHPLAN_NAMES(BackendKind, {{BackendKind::kNccl, "nccl"}, {BackendKind::kMpi, "mpi"}});

}  // namespace meshplan
