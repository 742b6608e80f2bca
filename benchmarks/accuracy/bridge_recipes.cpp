#include "bridge_recipes.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "base/check.hpp"
#include "words.hpp"

namespace meshplan::accuracy {
namespace {

using json = nlohmann::json;

std::optional<bool> told(const json& line, const char* key) {
  return line.contains(key) ? std::optional(line.at(key).get<bool>()) : std::nullopt;
}

// Ones, false and empty values are left out of the file.
BridgeRecipe read_recipe(const json& line) {
  BridgeRecipe r;
  r.name = line.at("recipe").get<std::string>();
  r.tuned = line.value("tuned", false);
  r.recompute = line.at("recompute").get<std::string>();
  r.loss = line.value("loss", "");
  r.fp32_gradients = told(line, "fp32_gradients");
  r.overlap_grad_reduce = told(line, "overlap_grad_reduce");
  r.overlap_param_gather = told(line, "overlap_param_gather");
  r.router_fusion = told(line, "router_fusion");
  r.rope_fusion = told(line, "rope_fusion");
  r.deferred_head = line.value("deferred_head", false);
  r.wgrad_deferral_limit = line.value("wgrad_deferral_limit", std::int64_t{0});
  r.setting = read_preset(line);
  // What the switches beside them leave without effect.
  if (r.recompute != "selective") r.setting.recompute_modules.clear();
  if (r.setting.cuda_graph != "transformer_engine") r.setting.cuda_graph_scope.clear();
  return r;
}

std::vector<BridgeRecipe> read_recipes() {
  std::ifstream file(MESHPLAN_ACCURACY_BRIDGE_RECIPES);
  PLAN_CHECK(file.good());
  std::vector<BridgeRecipe> all;
  for (std::string line; std::getline(file, line);) all.push_back(read_recipe(json::parse(line)));
  return all;
}

}  // namespace

const std::vector<BridgeRecipe>& bridge_recipes() {
  static const std::vector<BridgeRecipe> all = read_recipes();
  return all;
}

NamedRecipe named_recipe(const std::vector<BridgeRecipe>& all, const Run& run) {
  static const std::regex named(R"(\brecipe (\w+_config)\b)");
  std::smatch match;
  // Beside what is recomputed it is named too, "container may differ" where it is a later one.
  const bool later = has_word(run.recompute_detail, "may differ");
  if (!std::regex_search(run.notes, match, named) &&
      (later || !std::regex_search(run.recompute_detail, match, named))) {
    return {};
  }
  NamedRecipe best;
  for (const BridgeRecipe& r : all) {
    if (r.name != match[1].str()) continue;
    const bool other = best.recipe != nullptr;
    const bool fits = r.setting.global_batch == run.global_batch;
    const bool fitted = other && best.recipe->setting.global_batch == run.global_batch;
    if (!other || (fits && !fitted)) best.recipe = &r;
    best.by_batch = other && fits != fitted;
  }
  return best;
}

std::optional<bool> library_dispatcher(const std::vector<BridgeRecipe>& all, const Run& run) {
  std::optional<bool> flex;
  for (const BridgeRecipe& r : all) {
    if (r.tuned || !is_for(r.setting, run)) continue;
    if (flex && *flex != r.setting.flex_dispatcher) return std::nullopt;
    flex = r.setting.flex_dispatcher;
  }
  return flex;
}

}  // namespace meshplan::accuracy
