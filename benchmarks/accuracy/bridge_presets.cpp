#include "bridge_presets.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <string_view>

#include "base/check.hpp"
#include "words.hpp"

namespace meshplan::accuracy {
namespace {

using json = nlohmann::json;

BridgePreset read(const json& line) {
  BridgePreset p;
  p.release = release_number(line.at("container").get<std::string>());
  p.model = line.at("model").get<std::string>();
  p.gpu = line.at("gpu").get<std::string>();
  p.precision = line.at("precision").get<std::string>();
  p.tp = line.at("tp").get<std::int64_t>();
  p.pp = line.at("pp").get<std::int64_t>();
  p.vp = line.at("vp").get<std::int64_t>();
  p.ep = line.at("ep").get<std::int64_t>();
  p.micro_batch = line.at("micro_batch").get<std::int64_t>();
  p.global_batch = line.at("global_batch").get<std::int64_t>();
  p.recompute_modules = line.at("recompute_modules").get<std::vector<std::string>>();
  p.a2a_overlap = line.at("a2a_overlap").get<bool>();
  p.flex_dispatcher = line.at("flex_dispatcher").get<bool>();
  p.fp8_attention = line.at("fp8_attention").get<bool>();
  p.fused_experts = line.at("fused_experts").get<bool>();
  p.cuda_graph = line.at("cuda_graph").get<std::string>();
  p.cuda_graph_scope = line.at("cuda_graph_scope").get<std::vector<std::string>>();
  return p;
}

std::vector<BridgePreset> read_file() {
  std::ifstream file(MESHPLAN_ACCURACY_BRIDGE_PRESETS);
  PLAN_CHECK(file.good());
  std::vector<BridgePreset> all;
  for (std::string line; std::getline(file, line);) all.push_back(read(json::parse(line)));
  return all;
}

// The longest names first: "B200" occurs in "GB200".
std::string_view gpu_of(const Run& run) {
  constexpr std::array<std::string_view, 5> kNames{"GB300", "GB200", "B300", "B200", "H100"};
  const auto* const found = std::find_if(
      kNames.begin(), kNames.end(), [&](std::string_view name) { return has_word(run.gpu, name); });
  return found == kNames.end() ? std::string_view{} : *found;
}

bool has_layout(const BridgePreset& p, const Run& run) {
  return p.tp == run.tp.value_or(1) && p.pp == run.pp.value_or(1) && p.vp == run.vp.value_or(1) &&
         p.ep == run.ep.value_or(1) && p.micro_batch == run.micro_batch.value_or(1);
}

bool is_for(const BridgePreset& p, const Run& run) {
  const bool model = letters_and_digits(run.model.name).find(p.model) != std::string::npos;
  const bool precision = p.precision.empty() || lower(run.precision) == p.precision;
  return model && precision && p.gpu == gpu_of(run) && has_layout(p, run);
}

// Releases before the row's by their distance, then those after it.
long distance(const BridgePreset& p, int release) {
  constexpr long kAfter = 1'000'000;
  return p.release <= release ? release - p.release : kAfter + p.release - release;
}

}  // namespace

int release_number(const std::string& text) {
  static const std::regex pattern(R"((\d\d)\.(\d\d)(?:\.(\d\d?))?)");
  std::smatch match;
  if (!std::regex_search(text, match, pattern)) return 0;
  const int patch = match[3].matched ? std::stoi(match[3].str()) : 0;
  return std::stoi(match[1].str()) * 10000 + std::stoi(match[2].str()) * 100 + patch;
}

const std::vector<BridgePreset>& bridge_presets() {
  static const std::vector<BridgePreset> all = read_file();
  return all;
}

const BridgePreset* bridge_preset(const std::vector<BridgePreset>& all, const Run& run) {
  static const std::regex container(R"((\d\d\.\d\d(\.\d+)?) container)");
  std::smatch match;
  if (!std::regex_search(run.where, match, container)) return nullptr;
  const int release = release_number(match[1].str());
  const BridgePreset* best = nullptr;
  for (const BridgePreset& p : all) {
    if (!is_for(p, run)) continue;
    if (best == nullptr || distance(p, release) < distance(*best, release)) best = &p;
  }
  return best;
}

}  // namespace meshplan::accuracy
