#include <fstream>
#include <nlohmann/json.hpp>

#include "report/terms.hpp"
#include "search/search.hpp"
#include "spec/kinds.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using Json = nlohmann::json;

namespace {

constexpr std::array kSchemas{"plan",  "estimate",   "explain", "list", "model",
                              "error", "validation", "report",  "trace"};

Json schema(const std::string& name) {
  std::ifstream file(std::string(MESHPLAN_SOURCE_DIR) + "/lib/report/schema/" + name +
                     ".schema.json");
  return Json::parse(file);
}

template <class E>
Json names() {
  Json all = Json::array();
  for (const std::string_view name : names_of<E>()) all.push_back(std::string(name));
  return all;
}

// Calls visit for every schema of an object inside `json`.
template <class Visit>
void for_each_object(const Json& json, const Visit& visit) {
  if (json.is_object() && json.value("type", Json()) == "object") visit(json);
  if (json.is_structured()) {
    for (const Json& inner : json) for_each_object(inner, visit);
  }
}

}  // namespace

TEST_CASE("what two schemas define under one name is the same") {
  Json known = Json::object();
  for (const char* name : kSchemas) {
    const Json definitions = schema(name).at("definitions");
    for (const auto& [key, definition] : definitions.items()) {
      CAPTURE(name, key);
      if (known.contains(key)) CHECK(known[key] == definition);
      known[key] = definition;
    }
  }
  CHECK(known.size() > 10);
}

TEST_CASE("no schema lets unknown keys pass") {
  for (const char* name : kSchemas) {
    for_each_object(schema(name), [&](const Json& object) {
      CAPTURE(name, object.dump());
      CHECK((object.at("additionalProperties") == false ||
             object.at("additionalProperties").is_object()));
    });
  }
}

TEST_CASE("the choices of the schemas are those of the program") {
  const Json d = schema("plan").at("definitions");
  const Json& strategy = d.at("strategy").at("properties");
  CHECK(strategy.at("framework").at("enum") == names<Framework>());
  CHECK(strategy.at("schedule").at("enum") == names<Schedule>());
  CHECK(strategy.at("cp_kind").at("enum") == names<CpKind>());
  CHECK(strategy.at("recompute").at("enum") == names<Recompute>());
  CHECK(strategy.at("precision").at("enum") == names<Precision>());
  CHECK(strategy.at("grad_dtype").at("enum") == names<Dtype>());
  CHECK(d.at("communication").at("properties").at("operation").at("enum") == names<Collective>());
  const Json& model = d.at("model_spec").at("properties");
  CHECK(model.at("activation").at("enum") == names<Activation>());
  CHECK(model.at("norm").at("enum") == names<Norm>());
  CHECK(model.at("position_embedding").at("enum") == names<PositionEmbedding>());
  CHECK(schema("list")
            .at("definitions")
            .at("device")
            .at("properties")
            .at("architecture")
            .at("enum") == names<Architecture>());
}

TEST_CASE("the schema knows every reason and every term") {
  const Json d = schema("plan").at("definitions");
  const Json& reasons = d.at("infeasible").at("properties").at("reason").at("enum");
  for (const auto reason : {InfeasibleReason::kIllegal, InfeasibleReason::kModelStates,
                            InfeasibleReason::kActivations, InfeasibleReason::kHostMemory}) {
    CHECK(std::find(reasons.begin(), reasons.end(), std::string(name_of(reason))) != reasons.end());
  }
  for (const TimeTermRow& row : kTimeTerms) {
    CHECK(d.at("time").at("properties").contains(std::string(row.key)));
  }
  for (const MemoryTermRow& row : kMemoryTerms) {
    CHECK(d.at("memory").at("properties").contains(std::string(row.key)));
  }
}
