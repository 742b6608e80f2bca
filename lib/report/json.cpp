#include "report/json.hpp"

#include <algorithm>
#include <cmath>

#include "frameworks/preset.hpp"
#include "model/packing.hpp"
#include "report/json_detail.hpp"
#include "report/json_study.hpp"
#include "report/json_value.hpp"
#include "report/lists.hpp"
#include "schedule/traits.hpp"
#include "search/groups.hpp"

namespace meshplan {

Json document(const ToolInfo& tool) {
  return {{"schema_version", kSchemaVersion},
          {"tool", {{"name", "meshplan"}, {"version", std::string(tool.version)}}}};
}

Json document(const ToolInfo& tool, const ModelSpec& m, const ClusterSpec& c, const Strategy& s) {
  Json json = document(tool);
  json["model"] = model_json(m);
  json["cluster"] = cluster_json(c);
  json["workload"] = {{"global_batch", s.global_batch},
                      {"seq_len", s.seq_len},
                      {"tokens_per_step", std::llround(real_tokens(m, s))},
                      {"gpus", num_gpus(c)}};
  return json;
}

Json search_json(const SearchRequest& request, const SearchResult& result) {
  const SearchStatistics& s = result.statistics;
  Json limits = Json::array();
  for (const Limit& limit : request.limits) limits.push_back(to_text(limit));
  Json reasons = Json::object();
  for (const auto& [reason, count] : s.infeasible) reasons[reason] = count;
  const double ranked_to = result.proof.ranked_to;
  return {{"objective", std::string(name_of(request.objective))},
          {"space", std::string(name_of(request.space))},
          {"limits", std::move(limits)},
          {"memory_risk", number(request.memory_risk)},
          {"ignore_activations", request.ignore_activations},
          {"space_size", s.space_size},
          {"illegal", s.illegal},
          {"evaluated", s.evaluated},
          {"pruned", s.pruned},
          {"feasible", s.feasible},
          {"nodes", s.nodes},
          {"infeasible", std::move(reasons)},
          {"proof", proof_name(proves_all(result.proof))},
          {"gap", number(std::max(result.proof.gap, result.proof.undecided_gap))},
          {"divisions_undecided", result.proof.undecided},
          {"divisions_gap", number(result.proof.undecided_gap)},
          {"divisions_unranked", result.proof.unranked},
          {"ranked_to_s", std::isfinite(ranked_to) ? number(ranked_to) : Json(nullptr)},
          {"statement", result.proof.statement},
          {"wall_s", number(s.wall.si())}};
}

void add_detail(Json& json, const ClusterSpec& c, const SearchResult& result,
                const PlanDetail& detail) {
  if (!result.plans.empty()) {
    json["placement"] = rank_map_json(result.plans.front().strategy, c);
  }
  if (detail.timeline) json["timeline"] = timeline_json(*detail.timeline);
  if (!detail.surveyed.empty()) {
    json["evaluated_plans"] = evaluated_plans_json(detail.surveyed, c.device.memory);
  }
}

std::string verdict_name(const Verdict& v) {
  if (v.feasible()) return "feasible";
  return v.infeasible().reason == InfeasibleReason::kIllegal ? "illegal" : "infeasible";
}

namespace {

// Of a request that leaves no plan.
std::vector<std::string> unplanned_because(const SearchResult& result) {
  if (result.refused.empty()) return {};
  return {"nothing has what is fixed: " + result.refused};
}

template <class T, class ToJson>
std::string list_document(const ToolInfo& tool, const char* key, std::span<const T> all,
                          const ToJson& to_json) {
  Json json = document(tool);
  json[key] = Json::array();
  for (const T& item : all) json[key].push_back(to_json(item));
  return document_text(json);
}

}  // namespace

namespace {

// Of each plan the one that stands for it.
std::vector<std::size_t> firsts_of(const std::vector<PlanCost>& plans) {
  std::vector<std::size_t> firsts(plans.size());
  for (const PlanGroup& g : grouped(plans)) {
    firsts[g.first] = g.first;
    for (const std::size_t i : g.variants) firsts[i] = g.first;
  }
  return firsts;
}

}  // namespace

std::string plan_document(const ToolInfo& tool, const ModelSpec& m, const ClusterSpec& c,
                          const SearchRequest& request, const SearchResult& result,
                          const PlanDetail* detail, const Studies* studies) {
  Json json = document(tool, m, c, request.base);
  json["search"] = search_json(request, result);
  json["plans"] = Json::array();
  const std::vector<std::size_t> stands_for = firsts_of(result.plans);
  for (std::size_t i = 0; i < result.plans.size(); ++i) {
    json["plans"].push_back(plan_json(result.plans[i], c, i + 1));
    json["plans"].back()["group"] = stands_for[i] + 1;
    if (i > 0)
      json["plans"].back()["against_best"] =
          against_best_json(result.plans.front(), result.plans[i]);
  }
  json["explanation"] =
      result.plans.empty()
          ? unplanned_because(result)
          : explain(m, c, result, studies == nullptr ? std::vector<Rival>{} : studies->rivals);
  if (result.plans.empty() && result.closest_miss && result.closest_strategy) {
    json["closest_miss"] = infeasible_json(*result.closest_miss, *result.closest_strategy);
  }
  if (!result.plans.empty()) {
    add_expert_load(json, m, c, result.plans.front());
    add_lengths(json, m, c, result.plans.front());
  }
  if (studies != nullptr) add_studies(json, *studies, c);
  if (detail != nullptr) add_detail(json, c, result, *detail);
  return document_text(json);
}

std::string estimate_document(const ToolInfo& tool, const ModelSpec& m, const ClusterSpec& c,
                              const Strategy& s, const Verdict& verdict) {
  Json json = document(tool, m, c, s);
  json["verdict"] = verdict_name(verdict);
  if (verdict.feasible()) {
    json["plan"] = plan_json(verdict.cost(), c, 1);
    add_expert_load(json, m, c, verdict.cost());
    add_lengths(json, m, c, verdict.cost());
  } else {
    json["infeasible"] = infeasible_json(verdict, s);
  }
  return document_text(json);
}

std::string model_document(const ToolInfo& tool, const ModelSpec& m) {
  Json json = document(tool);
  json["model"] = model_json(m);
  return document_text(json);
}

std::string lengths_document(const ToolInfo& tool, const LengthSpec& lengths) {
  Json json = document(tool);
  json["lengths"] = lengths_json(lengths);
  return document_text(json);
}

std::string error_document(const ToolInfo& tool, const Diagnostics& all) {
  Json json = document(tool);
  json["errors"] = Json::array();
  for (const Diagnostic& d : all) {
    if (d.severity != Severity::kError) continue;
    json["errors"].push_back({{"file", d.where.file},
                              {"line", d.where.line},
                              {"column", d.where.column},
                              {"message", d.message},
                              {"hint", d.hint}});
  }
  return document_text(json);
}

std::string report_document(const ToolInfo& tool, std::span<const WrittenFile> all) {
  return list_document(tool, "written", all, [](const WrittenFile& file) -> Json {
    return {{"kind", file.kind}, {"path", file.path}, {"bytes", file.bytes}};
  });
}

std::string text_document(const ToolInfo& tool, const char* key, std::string_view text) {
  Json json = document(tool);
  json[key] = std::string(text);
  return document_text(json);
}

std::string key_list_document(const ToolInfo& tool, std::span<const KeyGroup> all) {
  Json json = document(tool);
  json["keys"] = Json::object();
  for (const KeyGroup& group : all) {
    Json keys = Json::array();
    for (const KeyMeaning& row : group.keys) {
      keys.push_back({{"key", row.key}, {"meaning", row.meaning}});
    }
    json["keys"][std::string(group.of)] = std::move(keys);
  }
  return document_text(json);
}

std::string model_list_document(const ToolInfo& tool, std::span<const ModelSpec> all) {
  return list_document(tool, "models", all, model_json);
}

std::string device_list_document(const ToolInfo& tool, std::span<const DeviceSpec> all) {
  return list_document(tool, "devices", all, device_json);
}

std::string cluster_list_document(const ToolInfo& tool, std::span<const ClusterSpec> all) {
  return list_document(tool, "clusters", all, cluster_json);
}

std::string schedule_list_document(const ToolInfo& tool) {
  const auto& rows = NameTable<Schedule>::rows;
  return list_document(tool, "schedules", std::span<const NameRow<Schedule>>(rows),
                       [](const NameRow<Schedule>& row) -> Json {
                         const ScheduleTraits& traits = traits_of(row.value);
                         return {{"name", std::string(row.name)},
                                 {"fact", std::string(traits.fact)},
                                 {"source", std::string(traits.source)}};
                       });
}

std::string framework_list_document(const ToolInfo& tool, std::span<const Preset* const> all) {
  // One entry per framework, with what its newest release decides; then every release.
  Json frameworks = Json::array();
  for (const Preset* preset : all) {
    Json values = strategy_json(with_preset(Strategy{}, *preset));
    if (frameworks.empty() || frameworks.back()["name"] != preset->framework_name) {
      frameworks.push_back(
          {{"name", preset->framework_name}, {"preset", values}, {"releases", Json::array()}});
    }
    Json release{{"release", preset->release_name},
                 {"date", preset->date},
                 {"source", preset->source},
                 {"exported", preset->exported},
                 {"preset", std::move(values)}};
    if (!preset->alias.empty()) release["alias"] = preset->alias;
    frameworks.back()["releases"].push_back(std::move(release));
  }
  Json json = document(tool);
  json["frameworks"] = std::move(frameworks);
  return document_text(json);
}

std::string format_list_document(const ToolInfo& tool, std::string_view kind,
                                 std::span<const FormatFact> all) {
  return list_document(tool, std::string(kind).c_str(), all, [](const FormatFact& f) -> Json {
    Json json{{"name", std::string(f.name)}, {"what", std::string(f.what)}};
    if (!f.limits.empty()) json["limits"] = std::string(f.limits);
    return json;
  });
}

}  // namespace meshplan
