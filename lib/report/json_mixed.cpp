// A plan for two kinds of machines as a document (mix.schema.json).
#include "report/json_value.hpp"
#include "report/mixed_text.hpp"
#include "study/mixed.hpp"

namespace meshplan {
namespace {

Json groups_json(const MixedPlan& plan, const MixedClusters& own, const Mixed& found) {
  Json groups = Json::array();
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    const MixedGroup& group = plan.groups[g];
    groups.push_back({{"cluster", own[g].name},
                      {"gpus", group.gpus},
                      {"replicas", group.replicas},
                      {"sequences", group.sequences},
                      {"microbatches", group.microbatches},
                      {"waits_s", number((plan.step_time - group.plan.step_time).si())},
                      {"plan", plan_json(group.plan, found.clusters[g], 1)}});
  }
  return groups;
}

Json mixed_json(const MixedPlan& plan, const MixedClusters& own, const Mixed& found) {
  return {{"step_time_s", number(plan.step_time.si())}, {"groups", groups_json(plan, own, found)}};
}

}  // namespace

std::string mixed_document(const ToolInfo& tool, const ModelSpec& m, const MixedClusters& own,
                           const SearchRequest& request, const Mixed& found) {
  Json json = document(tool, m, own[0], request.base);
  json.erase("cluster");
  json["clusters"] = Json::array();
  for (const ClusterSpec& c : own) json["clusters"].push_back(cluster_json(c));
  json["proof"] = found.exact ? "exact" : "bounded";
  json["gap"] = number(found.gap);
  json["statement"] = mixed_statement(found, request);
  json["searches"] = found.searches;
  json["wall_s"] = number(found.wall.si());
  if (found.best) json["mixed"] = mixed_json(*found.best, own, found);
  if (found.even) json["even"] = mixed_json(*found.even, own, found);
  json["alone"] = Json::array();
  for (std::size_t g = 0; g < own.size(); ++g) {
    Json one{{"cluster", own[g].name}};
    if (found.alone[g]) one["plan"] = plan_json(*found.alone[g], own[g], 1);
    json["alone"].push_back(std::move(one));
  }
  return document_text(json);
}

}  // namespace meshplan
