#include <memory>

#include "console.hpp"
#include "import.hpp"
#include "inputs.hpp"
#include "io/file_keys.hpp"
#include "launch/launch.hpp"
#include "report/lists.hpp"

namespace meshplan {
namespace {

enum class ListKind {
  kModels,
  kDevices,
  kClusters,
  kSchedules,
  kFrameworks,
  kExporters,
  kImporters,
  kKeys
};
constexpr std::array kListKinds{std::pair{ListKind::kModels, std::string_view("models")},
                                std::pair{ListKind::kDevices, std::string_view("devices")},
                                std::pair{ListKind::kClusters, std::string_view("clusters")},
                                std::pair{ListKind::kSchedules, std::string_view("schedules")},
                                std::pair{ListKind::kFrameworks, std::string_view("frameworks")},
                                std::pair{ListKind::kExporters, std::string_view("exporters")},
                                std::pair{ListKind::kImporters, std::string_view("importers")},
                                std::pair{ListKind::kKeys, std::string_view("keys")}};

struct ListFlags {
  CommonFlags common;
  std::string kind;
};

template <class Spec>
using Loader = Result<Spec> (*)(const std::string&, const DataFolders&);

template <class Spec>
std::vector<Spec> load_all(std::string_view folder, Loader<Spec> load, Diagnostics& problems) {
  const DataFolders data = DataFolders::standard();
  std::vector<Spec> all;
  for (const std::string& name : data.names(folder)) {
    std::optional<Spec> spec = take(load(name, data), name, problems);
    if (spec) all.push_back(std::move(*spec));
  }
  if (all.empty() && problems.empty()) {
    problems.push_back(error("no folder '" + std::string(folder) + "' with data was found",
                             "set MESHPLAN_DATA to the folder that holds it"));
  }
  return all;
}

template <class Spec, class ToText, class ToJson>
int list_files(const CommonFlags& flags, std::string_view folder, Loader<Spec> load,
               const ToText& to_text, const ToJson& to_json) {
  Diagnostics problems;
  const std::vector<Spec> all = load_all(folder, load, problems);
  if (has_errors(problems)) return report_errors(problems, flags);
  return write_result(flags.json ? to_json(kTool, all) : to_text(all, console_options()), kExitOk);
}

int list_frameworks(const CommonFlags& flags) {
  const Result<std::vector<const Preset*>> all = all_presets();
  if (!all) return report_errors(all.errors(), flags);
  return write_result(
      flags.json ? framework_list_document(kTool, *all) : framework_list(*all, console_options()),
      kExitOk);
}

int list_formats(const CommonFlags& flags, std::string_view kind, std::string_view header,
                 std::span<const FormatFact> all) {
  return write_result(flags.json ? format_list_document(kTool, kind, all)
                                 : format_list(header, all, console_options()),
                      kExitOk);
}

int list_exporters(const CommonFlags& flags) {
  std::vector<FormatFact> all;
  for (const auto& row : NameTable<LaunchFormat>::rows) {
    all.push_back({row.name, description_of(row.value), limits_of(row.value)});
  }
  return list_formats(flags, "exporters", "--format", all);
}

int list_importers(const CommonFlags& flags) {
  std::vector<FormatFact> all;
  for (const ImportKind& kind : kImportKinds) all.push_back({kind.name, kind.what, {}});
  return list_formats(flags, "importers", "kind", all);
}

int list_keys(const CommonFlags& flags) {
  const std::array all{
      KeyGroup{"strategy", strategy_key_meanings()}, KeyGroup{"model", model_key_meanings()},
      KeyGroup{"cluster", cluster_key_meanings()}, KeyGroup{"device", device_key_meanings()}};
  return write_result(flags.json ? key_list_document(kTool, all) : key_list(all, console_options()),
                      kExitOk);
}

int list(const ListFlags& flags) {
  set_up_logging(flags.common);
  Diagnostics problems;
  if (flags.kind.empty())
    problems.push_back(error("what to list is missing", "for example 'meshplan list models'"));
  const auto kind = read_choice(
                        flags.kind.empty() ? "models" : flags.kind, "list", kListKinds,
                        [](const auto& row) { return row.second; }, problems)
                        .first;
  if (has_errors(problems)) return report_errors(problems, flags.common);
  const CommonFlags& common = flags.common;
  switch (kind) {
    case ListKind::kModels:
      return list_files<ModelSpec>(common, kModelFolder, load_model, model_list,
                                   model_list_document);
    case ListKind::kDevices:
      return list_files<DeviceSpec>(common, kDeviceFolder, load_device, device_list,
                                    device_list_document);
    case ListKind::kClusters:
      return list_files<ClusterSpec>(common, kClusterFolder, load_cluster, cluster_list,
                                     cluster_list_document);
    case ListKind::kSchedules:
      return write_result(
          common.json ? schedule_list_document(kTool) : schedule_list(console_options()), kExitOk);
    case ListKind::kFrameworks:
      return list_frameworks(common);
    case ListKind::kExporters:
      return list_exporters(common);
    case ListKind::kImporters:
      return list_importers(common);
    case ListKind::kKeys:
      return list_keys(common);
  }
  return kExitInternal;
}

}  // namespace

void add_list_command(CommandLine& program) {
  const auto flags = std::make_shared<ListFlags>();
  Subcommand command = program.add_command("list", "Show what ships with the program",
                                           "meshplan list clusters\n  meshplan list exporters");
  command.add_value("kind", flags->kind, "",
                    "models, devices, clusters, schedules, frameworks, exporters, importers or "
                    "keys");
  command.add_common(flags->common);
  command.set_action([flags] { return list(*flags); });
}

}  // namespace meshplan
