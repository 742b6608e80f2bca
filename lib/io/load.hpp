#pragma once
// Text -> spec, with positions. Files are YAML (JSON is accepted, being a subset). Every problem of
// a file is reported at once, each with file:line:column, the line, a caret and the nearest valid
// key. Limits: 16 MiB per file, 64 levels of nesting, no YAML aliases (expansion bombs).
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "spec/cluster.hpp"
#include "spec/model.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

// Where a number of a device comes from that its file leaves out, followed by the architecture.
inline constexpr std::string_view kUsualSource = "left out of the file: usual for";

// Folders that hold models/ and hardware-profiles/.
class DataFolders {
 public:
  // MESHPLAN_DATA, then the installation prefix next to the running program, then the source tree.
  static DataFolders standard();
  explicit DataFolders(std::vector<std::filesystem::path> roots) : roots_(std::move(roots)) {}

  // The file <root>/<kind>/<name>.yaml of the first root that has one; empty if none.
  [[nodiscard]] std::filesystem::path find(std::string_view kind, std::string_view name) const;
  [[nodiscard]] std::vector<std::string> names(std::string_view kind) const;  // sorted

 private:
  std::vector<std::filesystem::path> roots_;
};

inline constexpr std::string_view kModelFolder = "models";
inline constexpr std::string_view kDeviceFolder = "hardware-profiles/devices";
inline constexpr std::string_view kClusterFolder = "hardware-profiles/clusters";

// `name_or_path`: a shipped name, a YAML/JSON file of ours, or (models) a Hugging Face config.json.
Result<ModelSpec> load_model(const std::string& name_or_path, const DataFolders& data);
Result<DeviceSpec> load_device(const std::string& name_or_path, const DataFolders& data);
Result<ClusterSpec> load_cluster(const std::string& name_or_path, const DataFolders& data);

// The same from text; `file` is how diagnostics call it.
Result<ModelSpec> parse_model(std::string_view text, const std::string& file);
Result<ModelSpec> parse_hf_config(std::string_view text, const std::string& file);
Result<DeviceSpec> parse_device(std::string_view text, const std::string& file);
Result<ClusterSpec> parse_cluster(std::string_view text, const std::string& file,
                                  const DataFolders& data);

// "key=value,..." or a path to a YAML/JSON file of the same keys. The framework preset is applied
// over `defaults` (what other flags said) if the text names a framework, then the explicit keys.
// dp is 0 where it is not stated: with_derived_dp() fills it in. Which keys were stated is known to
// read_strategy (io/strategy_file.hpp).
Result<Strategy> load_strategy(const std::string& text_or_path, const Strategy& defaults);

// Whole file, or what a pipe gives ("-": standard input), or a diagnostic: missing, a folder,
// empty, too large, not UTF-8.
Result<std::string> read_text_file(const std::filesystem::path& path);

}  // namespace meshplan
