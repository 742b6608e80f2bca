#pragma once
// Results as JSON documents, one per run of the program. lib/report/schema holds their JSON
// Schemas, what several share in common.schema.json. Keys name their unit, numbers are finite, and
// every document starts with schema_version and tool.
#include <span>
#include <string>
#include <string_view>

#include "base/diagnostic.hpp"
#include "cost/plan_cost.hpp"
#include "report/detail.hpp"
#include "report/lists.hpp"
#include "search/search.hpp"
#include "spec/cluster.hpp"
#include "spec/model.hpp"
#include "study/difference.hpp"
#include "study/mixed.hpp"
#include "study/studies.hpp"

namespace meshplan {

// Raised when a key is renamed, dropped or changes its meaning; new keys leave it as it is.
inline constexpr int kSchemaVersion = 1;

struct ToolInfo {
  std::string_view version;
};

// plan.schema.json; `detail`: what only a report shows; `studies`: what else was asked for.
[[nodiscard]] std::string plan_document(const ToolInfo& tool, const ModelSpec& m,
                                        const ClusterSpec& c, const SearchRequest& request,
                                        const SearchResult& result,
                                        const PlanDetail* detail = nullptr,
                                        const Studies* studies = nullptr);

// mix.schema.json; `own`: the machines of each kind as they are at hand
[[nodiscard]] std::string mixed_document(const ToolInfo& tool, const ModelSpec& m,
                                         const MixedClusters& own, const SearchRequest& request,
                                         const Mixed& found);

// estimate.schema.json; `s` as the user gave it, completed where it is legal.
[[nodiscard]] std::string estimate_document(const ToolInfo& tool, const ModelSpec& m,
                                            const ClusterSpec& c, const Strategy& s,
                                            const Verdict& verdict);

// explain.schema.json
[[nodiscard]] std::string explain_document(const ToolInfo& tool, const ModelSpec& m,
                                           const ClusterSpec& c, const SearchRequest& request,
                                           const SearchResult& result, const Difference& d);

// model.schema.json
[[nodiscard]] std::string model_document(const ToolInfo& tool, const ModelSpec& m);

// lengths.schema.json
[[nodiscard]] std::string lengths_document(const ToolInfo& tool, const LengthSpec& lengths);

// error.schema.json: what stands in place of a result when the input is wrong.
[[nodiscard]] std::string error_document(const ToolInfo& tool, const Diagnostics& all);

// report.schema.json: the files that were written.
struct WrittenFile {
  std::string_view kind;  // html, trace
  std::string path;
  std::size_t bytes = 0;
};
[[nodiscard]] std::string report_document(const ToolInfo& tool, std::span<const WrittenFile> all);

// text.schema.json: what a command prints, as one value. `key`: help, completion or version.
[[nodiscard]] std::string text_document(const ToolInfo& tool, const char* key,
                                        std::string_view text);

// list.schema.json
[[nodiscard]] std::string model_list_document(const ToolInfo& tool, std::span<const ModelSpec> all);
[[nodiscard]] std::string device_list_document(const ToolInfo& tool,
                                               std::span<const DeviceSpec> all);
[[nodiscard]] std::string cluster_list_document(const ToolInfo& tool,
                                                std::span<const ClusterSpec> all);
[[nodiscard]] std::string schedule_list_document(const ToolInfo& tool);
[[nodiscard]] std::string framework_list_document(const ToolInfo& tool,
                                                  std::span<const Preset* const> all);
// `kind`: "exporters" or "importers".
[[nodiscard]] std::string format_list_document(const ToolInfo& tool, std::string_view kind,
                                               std::span<const FormatFact> all);
[[nodiscard]] std::string key_list_document(const ToolInfo& tool, std::span<const KeyGroup> all);

}  // namespace meshplan
