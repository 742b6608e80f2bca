#include <cmath>
#include <nlohmann/json.hpp>

#include "frameworks/preset.hpp"
#include "probe/samples_file.hpp"
#include "report/json_value.hpp"
#include "report/validation.hpp"

namespace meshplan {
namespace {

// Runs of members, where they are not evenly spaced.
Json pattern_json(const RankGroup& g) {
  Json json{{"size", g.size}, {"stride", g.stride}};
  if (g.run > 0) json["run"] = g.run, json["jump"] = g.jump;
  if (g.period > 0) json["period"] = g.period;
  return json;
}

Json group_json(const PlannedOperation& p, const ClusterSpec& c) {
  return {{"size", p.group->size},
          {"stride", p.group->stride},
          {"level", c.levels[p.group->level].name},
          {"first_ranks", first_ranks(p.ranks)},
          {"groups_at_once", p.groups_at_once}};
}

Json operation_json(const OperationCheck& op, const ClusterSpec& c) {
  const PlannedOperation& p = op.planned;
  Json json{{"part", p.part}, {"name", p.name}};
  if (p.operation) json["planned"] = describe(*p.operation);
  if (p.operation) {
    if (const auto* collective = std::get_if<CollectiveOperation>(&*p.operation)) {
      json["bytes"] = collective->bytes.count();
      json["bidirectional"] = collective->bidirectional;
      json["dtype"] = std::string(name_of(collective->dtype));
    }
  }
  if (p.group) json["group"] = group_json(p, c);
  json["count_per_step"] = number(p.count_per_step);
  json["predicted_s"] = number(p.predicted.si());
  json["exposed_s"] = number(p.exposed.si());
  json["share"] = number(op.share);
  json["fidelity"] = std::string(name_of(op.subset.fidelity));
  if (!op.subset.reason.empty()) json["reason"] = op.subset.reason;
  if (op.measured) {
    json["run"] = {{"text", describe(*op.subset.operation)},
                   {"predicted_s", number(op.subset.predicted.si())},
                   {"measured_s", number(op.measured->si())},
                   {"ratio", number(op.ratio())},
                   {"spread", number(op.spread)},
                   {"notes", op.notes}};
    if (const RankGroup* group = group_of(*op.subset.operation)) {
      json["run"]["group"] = pattern_json(*group);
    }
  }
  json["believed_s"] = number(op.believed().si());
  return json;
}

Json check_json(const PlanCheck& plan, const ClusterSpec& c, double tolerance) {
  Json json{{"rank", plan.rank},
            {"new_rank", plan.new_rank},
            {"strategy", strategy_json(plan.strategy)},
            {"strategy_text", to_text(plan.strategy)},
            {"predicted_step_time_s", number(plan.predicted.si())},
            {"step_time_s", number(plan.step_time.si())},
            {"deviation", number(plan.deviation())},
            {"within_tolerance", std::abs(plan.deviation()) <= tolerance},
            {"coverage", number(plan.coverage)},
            {"extrapolated", number(plan.extrapolated)},
            {"unmeasured", number(plan.unmeasured)},
            {"host",
             {{"bound", plan.is_host_bound()},
              {"launches_s", number(plan.host.si())},
              {"hidden_s", number(plan.hidden.si())}}},
            {"operations", Json::array()}};
  for (const OperationCheck& op : plan.operations) {
    json["operations"].push_back(operation_json(op, c));
  }
  return json;
}

}  // namespace

std::string validation_document(const ToolInfo& tool, const ModelSpec& m, const ClusterSpec& c,
                                const Machine& machine, const Validation& v) {
  Json json = document(tool);
  json.update({{"model", m.name},
               {"cluster", c.name},
               {"machine", Json::parse(machine_line(machine))},
               {"tolerance", number(v.tolerance)},
               {"within_tolerance", v.within_tolerance()},
               {"samples", v.samples},
               {"not_reached", v.not_reached},
               {"failures", Json::array()},
               {"plans", Json::array()}});
  for (const Diagnostic& d : v.failures) json["failures"].push_back(d.message);
  for (const PlanCheck& plan : v.plans) {
    json["plans"].push_back(check_json(plan, c, v.tolerance));
  }
  return document_text(json);
}

}  // namespace meshplan
