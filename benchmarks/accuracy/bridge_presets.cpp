#include "bridge_presets.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <string_view>
#include <utility>

#include "base/check.hpp"
#include "words.hpp"

namespace meshplan::accuracy {
namespace {

using json = nlohmann::json;

std::vector<BridgePreset> read_file() {
  std::ifstream file(MESHPLAN_ACCURACY_BRIDGE_PRESETS);
  PLAN_CHECK(file.good());
  std::vector<BridgePreset> all;
  for (std::string text; std::getline(file, text);) {
    const json line = json::parse(text);
    all.push_back(read_preset(line));
    all.back().release = release_number(line.at("container").get<std::string>());
  }
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
         p.cp == run.cp.value_or(1) && p.ep == run.ep.value_or(1) &&
         p.micro_batch == run.micro_batch.value_or(1);
}

// Releases before the row's by their distance, then those after it.
long distance(const BridgePreset& p, int release) {
  constexpr long kAfter = 1'000'000;
  return p.release <= release ? release - p.release : kAfter + p.release - release;
}

}  // namespace

bool is_for(const BridgePreset& p, const Run& run) {
  const bool model = letters_and_digits(run.model.name).find(p.model) != std::string::npos;
  const bool precision = p.precision.empty() || lower(run.precision) == p.precision;
  return model && precision && p.gpu == gpu_of(run) && has_layout(p, run);
}

BridgePreset read_preset(const json& line) {
  using Texts = std::vector<std::string>;
  const auto number = [&](const char* key) { return line.value(key, std::int64_t{1}); };
  BridgePreset p;
  p.model = line.at("model").get<std::string>();
  p.gpu = line.value("gpu", "");
  p.precision = line.value("precision", "");
  p.tp = number("tp"), p.pp = number("pp"), p.vp = number("vp");
  p.cp = number("cp"), p.ep = number("ep");
  p.micro_batch = number("micro_batch"), p.global_batch = number("global_batch");
  p.recompute_modules = line.value("recompute_modules", Texts{});
  p.recompute_num_layers = line.value("recompute_num_layers", std::int64_t{0});
  p.offloaded_layers = line.value("offloaded_layers", std::int64_t{0});
  p.expandable_segments = line.value("expandable_segments", false);
  p.a2a_overlap = line.value("a2a_overlap", false);
  p.flex_dispatcher = line.value("flex_dispatcher", false);
  p.fp8_attention = line.value("fp8_attention", false);
  p.fused_experts = line.value("fused_experts", false);
  p.cuda_graph = line.at("cuda_graph").get<std::string>();
  p.cuda_graph_scope = line.value("cuda_graph_scope", Texts{});
  p.chunk_layers = line.value("chunk_layers", std::vector<std::int64_t>{});
  return p;
}

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
  // Of two of one container that of the row's batch.
  const auto rank = [&](const BridgePreset& p) {
    return std::pair(distance(p, release), p.global_batch != run.global_batch);
  };
  const BridgePreset* best = nullptr;
  for (const BridgePreset& p : all) {
    if (!is_for(p, run)) continue;
    if (best == nullptr || rank(p) < rank(*best)) best = &p;
  }
  return best;
}

}  // namespace meshplan::accuracy
