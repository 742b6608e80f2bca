#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "compare/losses.hpp"
#include "compare/memory_measure.hpp"
#include "compare/step_terms.hpp"
#include "cost/uncertainty.hpp"
#include "io/training_log.hpp"
#include "launch/launch.hpp"
#include "layout/group_names.hpp"
#include "probe/operation_kinds.hpp"
#include "probe/sample.hpp"
#include "report/json.hpp"
#include "report/terms.hpp"
#include "search/search.hpp"
#include "spec/kinds.hpp"
#include "spec/strategy_keys.hpp"
#include "study/reshard.hpp"
#include "support/catch.hpp"
#include "validate/subset.hpp"

using namespace meshplan;
using Json = nlohmann::json;

namespace {

// The sources of the schemas by the name of the document: "plan", "common", ...
const std::map<std::string, Json>& sources() {
  static const std::map<std::string, Json> kAll = [] {
    const std::string ending = ".schema.json";
    std::map<std::string, Json> all;
    for (const auto& entry : std::filesystem::directory_iterator(std::string(MESHPLAN_SOURCE_DIR) +
                                                                 "/lib/report/schema")) {
      const std::string name = entry.path().filename().string();
      std::ifstream file(entry.path());
      all[name.substr(0, name.size() - ending.size())] = Json::parse(file);
    }
    return all;
  }();
  return kAll;
}

const Json& definition(const std::string& name) {
  return sources().at("common").at("definitions").at(name);
}

template <class E>
Json names() {
  Json all = Json::array();
  for (const std::string_view name : names_of<E>()) all.push_back(std::string(name));
  return all;
}

// Of an enum without a table of its names.
template <class E>
Json names_up_to(E last) {
  Json all = Json::array();
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    all.push_back(std::string(name_of(static_cast<E>(i))));
  }
  return all;
}

Json group_names() {
  Json all = Json::array();
  for (const GroupName& row : kGroupNames) all.push_back(row.name);
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

std::set<std::string> keys_of(const Json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

template <class Rows>
std::set<std::string> keys_of_terms(const Rows& rows) {
  std::set<std::string> keys;
  for (const auto& row : rows) keys.emplace(row.key);
  return keys;
}

// How the schema states a strategy key's type.
template <class T>
Json type_of(const T&) {
  if constexpr (std::is_same_v<T, bool>) return "boolean";
  if constexpr (std::is_same_v<T, double>) return "number";
  if constexpr (std::is_same_v<T, RankOrder>) return "string";
  if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) return "array";
  if constexpr (std::is_same_v<T, LoraTargets>) return "array";
  if constexpr (std::is_same_v<T, RecomputeModules>) return "array";
  if constexpr (std::is_same_v<T, CudaGraphModules>) return "array";
  if constexpr (std::is_same_v<T, OffloadModules>) return "array";
  if constexpr (std::is_same_v<T, FrozenParts>) return "array";
  if constexpr (std::is_same_v<T, Release>) return "string";
  if constexpr (std::is_enum_v<T> || std::is_same_v<T, Framework>) return nullptr;  // references
  return "integer";
}

}  // namespace

TEST_CASE("no schema lets unknown keys pass") {
  for (const auto& [name, schema] : sources()) {
    for_each_object(schema, [&, file = name](const Json& object) {
      CAPTURE(file, object.dump());
      const Json& others = object.at("additionalProperties");
      CHECK((others == false || others.is_object()));
      const Json properties = object.value("properties", Json::object());
      for (const Json& key : object.value("required", Json::array())) {
        CHECK((others.is_object() || properties.contains(key.get<std::string>())));
      }
    });
  }
}

TEST_CASE("the names in the common schema are those of the program") {
  const std::map<std::string, Json> tables{
      {"schedule", names<Schedule>()},
      {"cp_kind", names<CpKind>()},
      {"packing", names<Packing>()},
      {"optimizer", names<Optimizer>()},
      {"training_loss", names<Loss>()},
      {"recompute", names<Recompute>()},
      {"precision", names<Precision>()},
      {"dtype", names<Dtype>()},
      {"scaling_recipe", names<ScalingRecipe>()},
      {"attention_kernel", names<AttentionKernel>()},
      {"cuda_graph", names<CudaGraph>()},
      {"stage_split", names<StageSplit>()},
      {"frozen_part", names<FrozenPart>()},
      {"recompute_module", names<RecomputeModule>()},
      {"cuda_graph_module", names<CudaGraphModule>()},
      {"offload_module", names<OffloadModule>()},
      {"lora_target", names<LoraTarget>()},
      {"frozen_dtype", names<FrozenDtype>()},
      {"lifetime", names<Lifetime>()},
      {"moment", names<Moment>()},
      {"activation", names<Activation>()},
      {"norm", names<Norm>()},
      {"position_embedding", names<PositionEmbedding>()},
      {"attention_kind", names<AttentionKind>()},
      {"architecture", names<Architecture>()},
      {"link_kind", names<LinkKind>()},
      {"collective_name", names<Collective>()},
      {"axis", names<Axis>()},
      {"group_kind", group_names()},
      {"export_format", names<LaunchFormat>()},
      {"log_framework", names_up_to(LogKind::kNemo)},
      {"comm_dimension", names_up_to(CommDimension::kLoss)},
      {"infeasible_reason", names_up_to(InfeasibleReason::kHostMemory)},
      {"regime", names_up_to(static_cast<Regime>(kNumRegimes - 1))},
      {"objective", names_up_to(Objective::kMemory)},
      {"space", names_up_to(Space::kTorchtune)},
      {"verdict", {"feasible", "infeasible", "illegal"}},
      {"proof", {"exact", "bounded"}},
      {"run_target",
       {name_of(Target::kMegatron), name_of(Target::kDeepspeed), name_of(Target::kTorchtitan),
        name_of(Target::kAccelerate)}},
  };
  for (const auto& [name, expected] : tables) {
    CAPTURE(name);
    CHECK(definition(name).at("enum") == expected);
  }
  for (const auto& [name, schema] : sources().at("common").at("definitions").items()) {
    CAPTURE(name);
    CHECK(schema.contains("enum") == (tables.count(name) == 1));
  }
}

TEST_CASE("the names in the schema of one document are those of the program") {
  const auto at = [](const char* document, const char* path) {
    return sources().at(document).at(Json::json_pointer(std::string("/definitions") + path));
  };
  CHECK(at("bench", "/gemm/properties/layout/enum") == names<GemmLayout>());
  CHECK(at("bench", "/operation/oneOf/3/properties/kernel/enum") == names<MemoryKernel>());
  CHECK(at("bench", "/operation/oneOf/4/properties/direction/enum") == names<CopyDirection>());
  CHECK(at("bench", "/sample/properties/correctness/enum") == names<Correctness>());
  CHECK(at("validation", "/operation_check/properties/fidelity/enum") == names<Fidelity>());
  CHECK(at("lint", "/finding/properties/severity/enum") == names_up_to(Severity::kNote));
  CHECK(at("compare", "/loss/properties/kind/enum") == names<LossKind>());
  CHECK(at("compare", "/term/properties/term/enum") == names<StepTerm>());
  CHECK(at("compare", "/device/properties/communication/items/properties/kind/enum") ==
        names<CommKind>());
  CHECK(at("compare", "/trace/properties/classes/items/properties/class/enum") == names<OpClass>());
  CHECK(at("plan", "/fallback/properties/entries/items/properties/reshard/properties/kind/enum") ==
        names_up_to(ReshardKind::kNo));
}

TEST_CASE("the schema of a strategy has the program's keys, with their types") {
  const Json& strategy = definition("strategy");
  std::map<std::string, std::set<std::string>> found;
  const Strategy any;
  for_each_key(any, [&](std::string_view key, const auto& value) {
    CAPTURE(key);
    const std::size_t dot = key.find('.');
    const bool nested = dot != std::string_view::npos;
    const std::string outer(key.substr(0, dot)), inner(nested ? key.substr(dot + 1) : key);
    const Json& object = !nested ? strategy
                         : outer == "kernels" || outer == "runtime"
                             ? definition(outer)
                             : strategy.at("properties").at(outer);
    found[nested ? outer : ""].insert(inner);
    if (nested) found[""].insert(outer);
    REQUIRE(object.at("properties").contains(inner));
    CHECK(object.at("properties").at(inner).value("type", Json()) == type_of(value));
  });
  for (const auto& [outer, keys] : found) {
    const Json& object = outer.empty() ? strategy
                         : outer == "kernels" || outer == "runtime"
                             ? definition(outer)
                             : strategy.at("properties").at(outer);
    CAPTURE(outer);
    CHECK(keys_of(object.at("properties")) == keys);
    CHECK(object.at("required").get<std::set<std::string>>() == keys);
  }
}

TEST_CASE("the schemas have the program's terms and groups") {
  const Json &time = definition("time_terms"), &memory = definition("memory_terms");
  CHECK(keys_of(time.at("properties")) == keys_of_terms(kTimeTerms));
  CHECK(time.at("required").get<std::set<std::string>>() == keys_of_terms(kTimeTerms));
  CHECK(keys_of(memory.at("properties")) == keys_of_terms(kMemoryTerms));
  CHECK(memory.at("required").get<std::set<std::string>>() == keys_of_terms(kMemoryTerms));
  for (const Json& term : definition("out_of_memory_term")["properties"]["term"]["enum"]) {
    CHECK(memory.at("properties").contains(term.get<std::string>()));
  }
  const Json& groups = definition("placement").at("properties").at("groups");
  CHECK(groups.at("minItems") == kGroupNames.size());
  CHECK(groups.at("maxItems") == kGroupNames.size());
  const Json& launch = sources().at("launch");
  std::set<std::string> keys = keys_of(launch["properties"]["groups"]["properties"]);
  const auto kinds = group_names().get<std::set<std::string>>();
  CHECK(std::includes(kinds.begin(), kinds.end(), keys.begin(), keys.end()));
  keys.insert({"rank", "node", "local_rank"});
  CHECK(keys_of(launch["definitions"]["rank"]["properties"]) == keys);
}

TEST_CASE("the schemas are of the version that documents state") {
  CHECK(definition("schema_version").at("const") == kSchemaVersion);
}
