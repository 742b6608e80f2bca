#include "frameworks/preset.hpp"
#include "report/difference_text.hpp"
#include "report/json.hpp"
#include "report/json_value.hpp"
#include "report/terms.hpp"

namespace meshplan {
namespace {

Json terms_json(const Difference& d) {
  Json memory = Json::object();
  for (const MemoryTermRow& row : kMemoryTerms) {
    memory[row.key] = (d.cost->memory().*row.term).count() - (d.best.memory().*row.term).count();
  }
  return {{"step_time_s", number(d.step_time.si())},
          {"time", time_json(d.terms)},
          {"memory", std::move(memory)}};
}

Json change_json(const KeyChange& change) {
  Json json{{"keys", change.keys},
            {"strategy_text", to_text(change.strategy)},
            {"verdict", verdict_name(change.verdict)}};
  if (change.verdict.feasible()) {
    json["step_time_s"] = number(change.verdict.cost().step_time.si());
    json["peak_bytes"] = change.verdict.cost().memory().peak.count();
  } else {
    json["shortfall_bytes"] = change.verdict.infeasible().shortfall.count();
  }
  return json;
}

}  // namespace

std::string explain_document(const ToolInfo& tool, const ModelSpec& m, const ClusterSpec& c,
                             const SearchRequest& request, const SearchResult& result,
                             const Difference& d) {
  Json json = document(tool, m, c, request.base);
  json["search"] = search_json(request, result);
  json["best"] = plan_json(d.best, c, 1);
  json["verdict"] = verdict_name(d.verdict);
  if (d.cost) json["plan"] = plan_json(*d.cost, c, 1);
  if (!d.verdict.feasible()) json["infeasible"] = infeasible_json(d.verdict, d.given);
  if (d.cost) {
    json["difference"] = terms_json(d);
    json["changes"] = Json::array();
    for (const KeyChange& change : d.changes) json["changes"].push_back(change_json(change));
  }
  json["explanation"] = difference_sentences(d);
  return document_text(json);
}

}  // namespace meshplan
