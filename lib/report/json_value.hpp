#pragma once
// Specs, strategies and plans as JSON values; private to this library.
#include <nlohmann/json.hpp>

#include "cost/plan_cost.hpp"
#include "report/json.hpp"
#include "search/search.hpp"
#include "spec/cluster.hpp"
#include "spec/model.hpp"

namespace meshplan {

using Json = nlohmann::ordered_json;  // keys in the order in which they are written

// A finite number: anything else is a bug of ours, and JSON has no way to write it.
[[nodiscard]] Json number(double value);

// A model file's keys, without those that say what is the default anyway. Reads back (as YAML or
// JSON) to the same model.
[[nodiscard]] Json model_keys(const ModelSpec& m);
[[nodiscard]] Json model_json(
    const ModelSpec& m);  // name, parameter counts and the above as `spec`

// The histogram as model files have it.
[[nodiscard]] Json lengths_json(const LengthSpec& lengths);

// A cluster file's keys with the whole device inside; reads back to the same cluster, to the bit.
[[nodiscard]] Json cluster_keys(const ClusterSpec& c);
[[nodiscard]] Json device_keys(const DeviceSpec& d);
// Name, size and links for readers of results, and the above as `spec`.
[[nodiscard]] Json cluster_json(const ClusterSpec& c);
[[nodiscard]] Json device_json(const DeviceSpec& d);

// The keys of a strategy, dotted ones nested.
[[nodiscard]] Json strategy_json(const Strategy& s);

// The terms of a time by their keys.
[[nodiscard]] Json time_json(const TimeTerms& t);
// More ranks than anyone reads are left out; a group's size and stride tell the rest.
[[nodiscard]] Json first_ranks(std::vector<std::int64_t> ranks);
[[nodiscard]] Json placement_json(const Strategy& s, const ClusterSpec& c);
[[nodiscard]] Json memory_json(const std::vector<StageCost>& stages);
[[nodiscard]] Json ledger_json(const std::vector<StageCost>& stages);
[[nodiscard]] Json plan_json(const PlanCost& p, const ClusterSpec& c, std::size_t rank);
// What runs like the plan say of it; where any were seen.
[[nodiscard]] Json like_runs_json(const PlanCost& p);
// How sure it is that the plan ranked first is faster, and what would tell.
[[nodiscard]] Json against_best_json(const PlanCost& best, const PlanCost& p);
[[nodiscard]] Json infeasible_json(const Verdict& verdict, const Strategy& s);

// The start of every document, and parts that several have.
[[nodiscard]] Json document(const ToolInfo& tool);
// Of one model, cluster and workload.
[[nodiscard]] Json document(const ToolInfo& tool, const ModelSpec& m, const ClusterSpec& c,
                            const Strategy& s);
[[nodiscard]] Json search_json(const SearchRequest& request, const SearchResult& result);
[[nodiscard]] std::string verdict_name(const Verdict& v);

// Two spaces of indentation, lists of numbers on one line, and a final newline.
[[nodiscard]] std::string document_text(const Json& document);

}  // namespace meshplan
