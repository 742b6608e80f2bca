#include "spec/strategy_keys.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>

#include "base/check.hpp"

namespace meshplan {
namespace {

constexpr std::array kShortNames{
    std::pair{"dp", &Strategy::dp},   std::pair{"vp", &Strategy::vp},
    std::pair{"cp", &Strategy::cp},   std::pair{"ep", &Strategy::ep},
    std::pair{"etp", &Strategy::etp},
};

bool all_equal(const std::vector<std::int64_t>& values) {
  return std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) == values.end();
}

// "7,8x14,7": runs of equal values.
std::string runs(const std::vector<std::int64_t>& values) {
  std::string text;
  for (std::size_t i = 0; i < values.size();) {
    std::size_t end = i;
    while (end < values.size() && values[end] == values[i]) ++end;
    text += (i > 0 ? "," : "") + std::to_string(values[i]);
    if (end - i > 1) text += "x" + std::to_string(end - i);
    i = end;
  }
  return text;
}

}  // namespace

std::string key_text(std::int64_t value) { return std::to_string(value); }
std::string key_text(int value) { return std::to_string(value); }
std::string key_text(bool value) { return value ? "true" : "false"; }

std::string key_text(double value) {
  std::array<char, 64> buffer{};
  const auto [end, failure] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  PLAN_CHECK(failure == std::errc{});
  return {buffer.data(), end};
}

std::string key_text(const std::vector<std::int64_t>& value) {
  std::string text = "[";
  for (std::size_t i = 0; i < value.size(); ++i) {
    text += (i > 0 ? "," : "") + std::to_string(value[i]);
  }
  return text + "]";
}

std::string key_text(const RankOrder& value) {
  std::string text;
  for (const Axis axis : value) text += (text.empty() ? "" : "-") + std::string(name_of(axis));
  return text;
}

template <class Module>
static std::string set_text(ModuleSet<Module> value) {
  std::string text;
  for (const auto& row : NameTable<Module>::rows) {
    if (value.has(row.value)) text += (text.empty() ? "" : ",") + std::string(row.name);
  }
  return "[" + text + "]";
}
std::string key_text(RecomputeModules value) { return set_text(value); }
std::string key_text(CudaGraphModules value) { return set_text(value); }
std::string key_text(OffloadModules value) { return set_text(value); }
std::string key_text(FrozenParts value) { return set_text(value); }

std::string key_text(const LoraTargets& value) {
  constexpr std::string_view kAll = "all-linear";
  if (value == lora_targets(kAll)) return "[" + std::string(kAll) + "]";
  std::string text = "[";
  for (const LoraTarget target : value.all()) {
    text += (text.size() > 1 ? "," : "") + std::string(name_of(target));
  }
  return text + "]";
}

std::string key_text(Framework value) { return std::string(name_of(value)); }
std::string key_text(Release value) { return std::string(name_of(value)); }

std::span<const std::string_view> strategy_keys() {
  static const std::vector<std::string_view> keys = [] {
    std::vector<std::string_view> list;
    const Strategy s;
    for_each_key(s, [&](std::string_view key, const auto&) { list.push_back(key); });
    return list;
  }();
  return keys;
}

std::string value_text(const Strategy& s, std::string_view key) {
  std::string text;
  bool found = false;
  for_each_key(s, [&](std::string_view name, const auto& value) {
    if (name != key) return;
    text = key_text(value);
    found = true;
  });
  PLAN_CHECK(found);
  return text;
}

std::string short_text(const Strategy& s) {
  std::string text = "tp" + std::to_string(s.tp) + " pp" + std::to_string(s.pp);
  for (const auto& [name, member] : kShortNames) {
    const std::int64_t value = s.*member;
    if (value == 1 && std::string_view(name) != "dp") continue;
    if (std::string_view(name) == "etp" && s.ep == 1 && value == s.tp) continue;
    text += " " + std::string(name) + std::to_string(value);
  }
  text += " mbs" + std::to_string(s.micro_batch) + " zero" + std::to_string(s.zero);
  if (s.zero_group > 0) text += "/" + std::to_string(s.zero_group);
  if (s.sequence_parallel) text += " sp";
  // Several chunks of a rank are interleaved unless another schedule is named.
  const bool plain = s.schedule == Schedule::kInterleaved && s.vp > 1;
  if (s.pp > 1 && !plain) text += " " + std::string(name_of(s.schedule));
  if (!all_equal(s.stage_layers)) text += " layers[" + runs(s.stage_layers) + "]";
  if (!s.chunk_layers.empty()) text += " chunks[" + runs(s.chunk_layers) + "]";
  const bool some = std::any_of(s.recompute_layers.begin(), s.recompute_layers.end(),
                                [](std::int64_t n) { return n > 0; });
  if (s.recompute != Recompute::kNone) text += " recompute-" + std::string(name_of(s.recompute));
  if (!s.recompute_modules.empty()) text += key_text(s.recompute_modules);
  if (some && s.recompute_layers != s.stage_layers) {
    text += " recompute[" + runs(s.recompute_layers) + "]";
  }
  if (s.offload.optimizer) {
    text += has_host_weights(s) ? " offload-weights-optimizer" : " offload-optimizer";
  }
  if (s.offload.host_share() > 0 && s.offload.host_share() < 1) {
    text += "[" + key_text(s.offload.optimizer_fraction) + "]";
  }
  if (s.overlap.ep) text += " ep-overlap";
  if (s.offload.activations) text += " offload-activations";
  if (!s.offload.modules.empty()) text += " offload" + key_text(s.offload.modules);
  if (!s.frozen.empty()) text += " frozen" + key_text(s.frozen);
  if (has_adapters(s)) text += " lora" + std::to_string(s.lora.rank);
  if (has_adapters(s) && s.lora.frozen_dtype != FrozenDtype::kTraining) {
    text += "-" + std::string(name_of(s.lora.frozen_dtype));
  }
  if (has_adapters(s) && s.lora.input_regather) text += " input-regather";
  if (s.order != kDefaultOrder) text += " " + key_text(s.order);
  return text;
}

}  // namespace meshplan
