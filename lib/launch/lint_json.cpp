#include "launch/lint_json.hpp"

#include <nlohmann/json.hpp>

#include "frameworks/preset.hpp"
#include "model/parameters.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kLintSchemaVersion = 1;

Json head(std::string_view tool_version, const ImportedRun& run, const std::string& file) {
  Json json{{"schema_version", kLintSchemaVersion},
            {"tool", {{"name", "meshplan"}, {"version", std::string(tool_version)}}},
            {"file", file},
            {"target", std::string(name_of(run.target))}};
  if (run.knows_model) json["parameters"] = parameter_count(run.model).total;
  json["world_size"] = run.world_size;
  json["strategy"] = to_text(run.strategy);
  return json;
}

void add_account(Json& json, const ImportedRun& run) {
  if (!run.world_source.empty()) json["world_size_source"] = run.world_source;
  json["options"] = Json::array();
  for (const ReadOption& option : run.options) {
    json["options"].push_back({{"name", option.name},
                               {"value", option.value},
                               {"line", option.line},
                               {"effect", std::string(name_of(option.effect))},
                               {"about", option.what}});
  }
  json["assumed"] = Json::array();
  for (const AssumedValue& a : run.assumed) {
    json["assumed"].push_back({{"what", a.what}, {"value", a.value}, {"source", a.source}});
  }
}

std::string text_of(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace

std::string lint_document(std::string_view tool_version, const ImportedRun& run,
                          const Diagnostics& found, const std::string& file,
                          const std::optional<PlannerChoice>& planner) {
  Json json = head(tool_version, run, file);
  json["findings"] = Json::array();
  for (const Diagnostic& d : found) {
    json["findings"].push_back({{"severity", name_of(d.severity)},
                                {"line", d.where.line},
                                {"column", d.where.column},
                                {"message", d.message},
                                {"hint", d.hint}});
  }
  add_account(json, run);
  if (planner) {
    json["planner"] = {{"strategy", to_text(planner->strategy)},
                       {"step_time_s", planner->step_time.si()}};
    if (planner->own_step_time) {
      json["planner"]["own_step_time_s"] = planner->own_step_time->si();
    }
  }
  return text_of(json);
}

std::string run_document(std::string_view tool_version, const ImportedRun& run,
                         const std::string& file) {
  Json json = head(tool_version, run, file);
  json["not_read"] = run.not_read;
  json["automatic"] = run.automatic;
  json["notes"] = run.notes;
  json["unknown"] = run.unknown;
  add_account(json, run);
  return text_of(json);
}

std::string strategy_yaml(const Strategy& s) {
  std::string text;
  for (const auto& [key, value] : own_values(s)) text += std::string(key) + ": " + value + "\n";
  return text;
}

}  // namespace meshplan
